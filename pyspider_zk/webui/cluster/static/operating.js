// Operations on projects, as the projects page and pyspider's dashboard share them.

import { ask } from "./api.js";
import { ended } from "./batch.js";
import { h } from "./dom.js";

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

export const deletionWarning = () => h("p", {}, "Scripts, tasks and results are deleted. This cannot be undone.");

/** The form before a deletion; deletionArguments reads it. */
export const deletionContent = () => [
  deletionWarning(),
  h("label", { class: "row" }, h("input", { type: "checkbox", name: "wait" }), "stop now and delete after pyspider's 24 hours"),
];

export const deletionArguments = (form) => (form.elements.wait.checked ? { wait: true } : {});
