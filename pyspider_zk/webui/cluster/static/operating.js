// Operations on projects, as pages share them.

import { ask, post } from "./api.js";
import { ended, summary } from "./batch.js";
import { dialog } from "./dialog.js";
import { byId, h, say } from "./dom.js";

const BETWEEN = 700; // milliseconds between two requests for a batch
const FINAL = [401, 404]; // later requests will return the same

/** Poll a batch until it has ended; call onUpdate(batch, fault) each time, until it returns false. */
export async function follow(batch, onUpdate) {
  let fault = null;
  while (onUpdate(batch, fault) !== false && !ended(batch) && !FINAL.includes(fault?.status)) {
    await new Promise((resolve) => setTimeout(resolve, BETWEEN));
    if (document.hidden) continue;
    try {
      batch = await ask(`/batches/${encodeURIComponent(batch.id)}`);
      fault = null;
    } catch (error) {
      fault = error;
    }
  }
  return batch;
}

/** Return what a request for a batch would do; undefined, and said why, if it is refused. */
export async function planned(request) {
  try {
    return await post("/batches", { ...request, dry_run: true });
  } catch (error) {
    await dialog({ title: `Cannot ${request.operation}`, content: h("p", { class: "fault" }, error.message), confirm: "Close", accept: () => true });
    return undefined;
  }
}

let followed = null;

/** Show the progress of a batch in the page's line for it, until it has ended or another is watched. */
export async function watch(batch, done) {
  followed = batch.id;
  const box = byId("batch");
  const text = h("span", { role: "status", "aria-live": "polite" });
  const bar = h("progress", { "aria-label": "progress of the batch" });
  const close = h("button", { type: "button", onclick: () => { box.hidden = true; followed = null; } }, "Close");
  box.replaceChildren(text, bar, h("a", { href: `/cluster/batches?id=${encodeURIComponent(batch.id)}` }, "Details"), close);
  box.hidden = false;
  await follow(batch, (now, fault) => {
    say(text, fault ? `${summary(now)}; ${fault.message}` : summary(now));
    bar.max = Math.max(1, now.total);
    bar.value = now.done + now.failed;
    return followed === now.id;
  });
  done();
}

export const deletionWarning = () => h("p", {}, "Scripts, tasks and results are deleted. This cannot be undone.");

/** The form before a deletion; deletionArguments reads it. */
export const deletionContent = () => [
  deletionWarning(),
  h("label", { class: "row" }, h("input", { type: "checkbox", name: "wait" }), "stop now and delete after pyspider's 24 hours"),
];

export const deletionArguments = (form) => (form.elements.wait.checked ? { wait: true } : {});
