// What the projects page and pyspider's dashboard share when something is done to projects.

import { ask } from "./api.js";
import { ended } from "./batch.js";
import { h } from "./dom.js";

const BETWEEN = 700; // milliseconds from one look at a batch to the next
const FINAL = [401, 404]; // no later answer will be another

/** Look at a batch until it has ended; tell(batch, fault) after each look, until it gives false. */
export async function follow(batch, tell) {
  let fault = null;
  while (tell(batch, fault) !== false && !ended(batch) && !FINAL.includes(fault?.status)) {
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

/** What is said and asked before a deletion; read it with deletionArguments. */
export const deletionContent = () => [
  deletionWarning(),
  h("label", { class: "row" }, h("input", { type: "checkbox", name: "wait" }), "stop now and delete after pyspider's 24 hours"),
];

export const deletionArguments = (form) => (form.elements.wait.checked ? { wait: true } : {});
