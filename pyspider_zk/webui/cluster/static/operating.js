// Operations on projects, as pages share them.

import { ask, isUnclear, newId, post } from "./api.js";
import { ended, summary } from "./batch.js";
import { alone, dialog, free, notice } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { count, plural } from "./format.js";

const BETWEEN = 700; // milliseconds between two requests for a batch
const FINAL = [401, 404]; // later requests will return the same

/** Poll a batch until it has ended; call onUpdate(batch, fault) each time, until it returns false. */
async function follow(batch, onUpdate) {
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
}

const planOf = (request) => post("/batches", { ...request, dry_run: true });

/** Return what a request for a batch would do, and how many projects it leaves out for they are gone; undefined, and said why, if it is refused. */
async function planned(request) {
  try {
    const plan = await planOf(request);
    const gone = new Set(plan.unknown);
    if (!gone.size || !plan.count) return plan;
    request.names = request.names.filter((each) => !gone.has(each));
    return { ...(await planOf(request)), gone: gone.size };
  } catch (error) {
    await refused(request.operation, error);
    return undefined;
  }
}

let followed = null;

/** Show the progress of a batch in the page's line for it, until it has ended or another is watched. */
async function watch(batch, done) {
  followed = batch.id;
  const box = byId("batch");
  const text = h("span", { role: "status", "aria-live": "polite" });
  const bar = h("progress", { "aria-label": "progress of the batch" });
  const close = h("button", { type: "button", onclick: () => { box.hidden = true; followed = null; } }, "Close");
  box.replaceChildren(text, bar, h("a", { href: `/cluster/batches?id=${encodeURIComponent(batch.id)}` }, "Details"), close);
  box.hidden = false;
  await follow(batch, (now, fault) => {
    text.setAttribute("aria-busy", String(!fault && !ended(now))); // only its end is read out
    say(text, fault ? `${summary(now)}; ${fault.message}` : summary(now));
    bar.max = Math.max(1, now.total);
    bar.value = now.done + now.failed;
    return followed === now.id;
  });
  done();
}

export const deletionWarning = () => h("p", {}, "Scripts, tasks and results are deleted. This cannot be undone.");

/** The form before a deletion; deletionArguments reads it. */
const deletionContent = () => [
  deletionWarning(),
  h("label", { class: "row" }, h("input", { type: "checkbox", name: "wait" }), "stop now and delete after pyspider's 24 hours"),
];

const deletionArguments = (form) => (form.elements.wait.checked ? { wait: true } : {});

const PHRASES = { start: "Start", stop: "Stop", restart: "Restart", run: "Run", rate: "Set the rate of", group: "Set the group of", status: "Set the status of", delete: "Delete" };
const STATUSES = ["TODO", "STOP", "CHECKING", "DEBUG", "RUNNING"];

/** What an operation needs to know, filled with a project's values. */
const FIELDS = {
  rate: ({ rate = 1, burst = 3 }) => [number("Tasks per second", "rate", rate), number("At once (burst)", "burst", burst)],
  group: ({ group = "" }) => [field("Group; several words name several groups", h("input", { name: "group", value: group, autocomplete: "off" }))],
  status: ({ status = "RUNNING" }) => [field("Status", h("select", { name: "status" }, [...new Set([...STATUSES, status])].map((each) => h("option", { selected: each === status }, each))))],
};

const field = (title, input) => h("label", {}, title, input);
const number = (title, name, value) => field(title, h("input", { name, type: "number", value, step: "any", min: 0, required: true }));
const given = (form) => Object.fromEntries([...form.elements].filter((each) => each.name).map((each) => [each.name, each.type === "number" ? Number(each.value) : each.value]));

/** A cell of a table with a value of a project that can be changed there. node() makes what shows the value, why explains it. */
export function changeable(operation, project, { node, why }, done) {
  const { name, status, group, rate, burst, numbers } = project;
  const values = { status: [status, numbers?.paused, numbers?.cannot_start, numbers?.quarantined], group: [group], rate: [rate, burst] };
  const sign = JSON.stringify(values[operation]);
  if ("looksOnly" in document.documentElement.dataset) return { sign, node, title: why };
  const title = [why, `change the ${operation} of ${name}`].filter(Boolean).join("; ");
  return { sign, node: () => h("button", { type: "button", class: "value", title, onclick: () => change(operation, project, done) }, node()) };
}

async function change(operation, project, done) {
  const id = newId(); // a repeated request with the same id is done once
  const batch = await alone(() => dialog({
    title: `${PHRASES[operation]} ${project.name}`,
    content: FIELDS[operation](project),
    confirm: "Set",
    busy: "Setting…",
    accept: (form) => post("/batches", { operation, names: [project.name], arguments: given(form), id }),
  }));
  if (batch) await watch(batch, done);
}

/** Call on_start of a project, without a question. */
export async function run({ name }, done) {
  const batch = await alone(() => accepted({ operation: "run", names: [name], id: newId() }));
  if (batch) await watch(batch, done);
}

/** Send a request for a batch. One whose outcome is unclear may have been accepted: sent again with its id, it is done once. */
async function accepted(request) {
  const send = () => post("/batches", request);
  try {
    return await send();
  } catch (error) {
    if (!isUnclear(error)) return refused(request.operation, error);
    await free();
    return dialog({
      title: `No answer to ${request.operation}`,
      content: [
        h("p", { class: "fault" }, error.message),
        h("p", {}, "It may have been accepted: see ", h("a", { href: "/cluster/batches" }, "Batches"), ". Sent again, it is done once all the same."),
      ],
      confirm: "Send again",
      accept: send,
    });
  }
}

export const refused = (operation, error) => notice(`Cannot ${operation === "refetch" ? "fetch again" : operation}`, h("p", { class: "fault" }, error.message));

/**
 * Ask for what an operation needs and for confirmation, have it done, and show how far it is.
 * selected() is the selection for the API, size() how many projects that are; begun() and ended() are
 * called when the batch is.
 */
export async function operate(operation, { selected, size, begun = () => {}, ended: done }) {
  const batch = await alone(() => ordered({ operation, ...selected(), arguments: {} }, size()));
  if (!batch) return;
  begun();
  await watch(batch, done);
}

async function ordered(request, size) {
  const { operation } = request;
  if (FIELDS[operation] && !(await askArguments(request, size))) return undefined;
  const plan = await planned(request);
  if (!plan) return undefined;
  const word = `${PHRASES[operation]} ${plural(plan.count, "project")}`;
  const values = Object.entries(plan.arguments).map(([name, value]) => `${name} ${value}`).join(", ");
  const about = `The batch has ${plural(plan.jobs, "job")}${values && operation !== "delete" ? `: ${values}` : ""}.`;
  return confirm(request, plan, { title: `${word}?`, about, word });
}

function askArguments(request, size) {
  return dialog({
    title: `${PHRASES[request.operation]} ${plural(size, "project")}`,
    content: FIELDS[request.operation]({}),
    confirm: "Continue",
    accept: (form) => {
      request.arguments = given(form);
      return true;
    },
  });
}

/** The first projects that are selected, and how many more. */
function named({ count: all, names }) {
  const more = all > names.length ? `, and ${count(all - names.length)} more` : "";
  return h("p", { class: "names" }, names.join(", ") + more);
}

/** Ask for confirmation of what is planned, which `about` explains, and have it done; word: of the button that does it. */
function confirm(request, plan, { title, about, word }) {
  const isDelete = request.operation === "delete";
  const id = newId(); // a repeated request with the same id is done once
  return dialog({
    title,
    content: [
      named(plan),
      h("p", {}, about),
      plan.gone && h("p", { class: "fault" }, `${plural(plan.gone, "selected project")} left out: no longer there.`),
      plan.faults.map((fault) => h("p", { class: "fault" }, fault)),
      isDelete && deletionContent(),
    ],
    confirm: word,
    busy: isDelete ? "Deleting…" : "Starting…",
    danger: isDelete,
    typed: isDelete && (plan.count === 1 ? plan.names[0] : String(plan.count)),
    accept: (form) => {
      if (isDelete) request.arguments = deletionArguments(form);
      return post("/batches", { ...request, id, plan: plan.digest });
    },
  });
}

/** Ask for confirmation, and have tasks fetched again; what says which in a few words. */
export async function refetch(what, asked, done) {
  const batch = await alone(() => refetched(what, { operation: "refetch", ...asked }));
  if (batch) await watch(batch, done);
}

async function refetched(what, request) {
  const plan = await planned(request);
  if (!plan) return undefined;
  const about = "What is fetched again begins anew, with all its tries. Correct the script first, if it is at fault. Projects that do not run are reported as failed.";
  return confirm(request, plan, { title: `Fetch ${what} again?`, about, word: "Fetch again" });
}
