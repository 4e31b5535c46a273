// Operations on projects, as pages share them.

import { ask, newId, post } from "./api.js";
import { ended, summary } from "./batch.js";
import { dialog } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { count, plural } from "./format.js";

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

const PHRASES = { start: "Start", stop: "Stop", restart: "Restart", run: "Run", rate: "Set the rate of", group: "Set the group of", delete: "Delete" };
const FIELDS = {
  rate: [["rate", "Tasks per second", "number", 1], ["burst", "At once (burst)", "number", 3]],
  group: [["group", "Group; several words name several groups", "text", ""]],
};

/**
 * Ask for what an operation needs and for confirmation, have it done, and show how far it is.
 * selected() is the selection for the API, size() how many projects that are; begun() and ended() are
 * called when the batch is.
 */
export async function operate(operation, { selected, size, begun = () => {}, ended: done }) {
  const request = { operation, ...selected(), arguments: {} };
  if (FIELDS[operation] && !(await askArguments(request, size()))) return;
  const plan = await planned(request);
  if (!plan) return;
  const batch = await confirm(request, plan);
  if (!batch) return;
  begun();
  await watch(batch, done);
}

function askArguments(request, size) {
  const fields = FIELDS[request.operation].map(([name, title, type, value]) =>
    h("label", {}, title, h("input", { name, type, value, step: "any", min: 0, required: type === "number" })),
  );
  return dialog({
    title: `Set the ${request.operation} of ${plural(size, "project")}`,
    content: fields,
    confirm: "Continue",
    accept: (form) => {
      for (const [name, , type] of FIELDS[request.operation]) {
        const given = form.elements[name].value;
        request.arguments[name] = type === "number" ? Number(given) : given;
      }
      return true;
    },
  });
}

function confirm(request, plan) {
  const { operation } = request;
  const isDelete = operation === "delete";
  const more = plan.count > plan.names.length ? `, and ${count(plan.count - plan.names.length)} more` : "";
  const id = newId(); // a repeated request with the same id is done once
  const title = `${PHRASES[operation]} ${plural(plan.count, "project")}`;
  const words = Object.entries(plan.arguments).map(([name, value]) => `${name} ${value}`).join(", ");
  return dialog({
    title: `${title}?`,
    content: [
      h("p", { class: "names" }, plan.names.join(", ") + more),
      h("p", {}, `The batch has ${plural(plan.jobs, "job")}${words && !isDelete ? `: ${words}` : ""}.`),
      plan.faults.map((fault) => h("p", { class: "fault" }, fault)),
      isDelete && deletionContent(),
    ],
    confirm: title,
    busy: isDelete ? "Deleting…" : "Starting…",
    danger: isDelete,
    typed: isDelete && (plan.count === 1 ? plan.names[0] : String(plan.count)),
    accept: (form) => {
      if (isDelete) request.arguments = deletionArguments(form);
      return post("/batches", { ...request, id, plan: plan.digest });
    },
  });
}
