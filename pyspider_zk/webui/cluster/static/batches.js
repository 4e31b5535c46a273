import { projectPage, read, write } from "./address.js";
import { ask, post } from "./api.js";
import { about, ended, projects, state as stateOf, summary } from "./batch.js";
import { progress } from "./charts.js";
import { dialog, notice } from "./dialog.js";
import { byId, h, lead, say } from "./dom.js";
import { count, plural, when } from "./format.js";
import { live } from "./live.js";
import { deletionWarning } from "./operating.js";
import { pager } from "./pager.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 25;
const DEFAULTS = { id: "", offset: 0 };
const state = read(DEFAULTS);

const table = new Table(byId("batches"), [
  { title: "Created", cls: "first nowrap", show: (each) => when(each.created) },
  { title: "Operation", cls: "full", show: (each) => ({ sign: `${about(each)} ${each.id}`, node: () => h("button", { type: "button", class: "link", "aria-label": `${about(each)}: details`, onclick: () => choose(each.id) }, about(each)) }) },
  { title: "Projects", cls: "full", show: projects },
  { title: "State", show: (each) => badges([stateOf(each)]) },
  { title: "Progress", cls: "full", show: (each) => ({ sign: `${each.done} ${each.failed} ${each.total}`, node: () => progress(each.done, each.failed, each.total) }) },
  { title: "Failed", cls: "num", show: (each) => ({ text: count(each.failed), cls: each.failed ? "bad" : "" }) },
  { title: "Jobs", cls: "num", about: "pending, running and done", show: (each) => `${each.jobs.pending} / ${each.jobs.running} / ${each.jobs.done}` },
  { title: "User", show: (each) => each.user || "–" },
  { title: "Batch", cls: "full", show: (each) => ({ text: each.id.length > 12 ? `${each.id.slice(0, 12)}…` : each.id, title: each.id }) },
], { key: (each) => each.id });

async function load() {
  const list = await ask("/batches", { query: { offset: state.offset, limit: SIZE } });
  if (!state.id) return { ...list, chosen: null };
  const found = list.items.find((each) => each.id === state.id);
  return { ...list, chosen: found ?? (await one(state.id)) };
}

async function one(id) {
  try {
    return await ask(`/batches/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error.status === 404) return { id, gone: error.message };
    throw error;
  }
}

function go(offset) {
  state.offset = offset;
  write(state, DEFAULTS);
  page.refresh();
}

function choose(id) {
  if (!id) document.querySelector("#batches .chosen button")?.focus(); // *Close* is about to vanish
  state.id = id;
  opened = Boolean(id);
  write(state, DEFAULTS);
  page.refresh();
}

function show(data) {
  if (!pager(data, SIZE, go)) return;
  table.show(data.items, (each) => (each.id === state.id ? "chosen" : ""));
  detail(data.chosen);
}

// --- the selected batch: its elements are kept, so that focus and clicks survive updates ---

const FACTS = {
  Batch: (each) => each.id,
  State: (each) => each.state,
  Operation: about,
  Projects: projects,
  Created: (each) => `${when(each.created)} by ${each.user || "an anonymous user"}`,
  Jobs: (each) => `${each.jobs.pending} pending, ${each.jobs.running} running, ${each.jobs.done} done`,
};

let chosen = null;
let opened = false; // a batch, which is to be led to
let cancelling = ""; // the id of the batch that was cancelled here
const title = h("h2", { tabindex: "-1" });
const bar = h("div", {});
const facts = Object.keys(FACTS).map((name) => h("span", { role: name === "State" && "status" }));
const buttons = {
  cancel: h("button", { type: "button", class: "danger operates", onclick: () => cancel(chosen) }),
  retry: h("button", { type: "button", class: "operates", onclick: () => retry(chosen) }),
  close: h("button", { type: "button", onclick: () => choose("") }, "Close"),
};
const failures = h("table", {});
const more = h("p", {});
const whole = h("div", { class: "detail" },
  title,
  bar,
  h("dl", {}, Object.keys(FACTS).map((name, place) => [h("dt", {}, name), h("dd", {}, facts[place])])),
  h("div", { class: "buttons" }, Object.values(buttons)),
  failures,
  more,
);
const reasons = new Table(failures, [
  { title: "Project", show: ([name]) => ({ text: name, href: projectPage(name) }) },
  { title: "Reason", cls: "wide", show: ([, reason]) => reason },
], { key: ([name]) => name });
const gone = h("p", { class: "empty" });
byId("detail").append(gone, whole);

function detail(batch) {
  chosen = batch;
  byId("detail").hidden = !batch;
  gone.hidden = !batch?.gone;
  whole.hidden = !batch || Boolean(batch.gone);
  if (batch?.gone) say(gone, batch.gone);
  if (whole.hidden) return;
  say(title, summary(batch));
  bar.replaceChildren(progress(batch.done, batch.failed, batch.total));
  Object.values(FACTS).forEach((text, place) => say(facts[place], text(batch)));
  const focused = document.activeElement;
  buttons.cancel.hidden = ended(batch);
  buttons.cancel.disabled = cancelling === batch.id;
  say(buttons.cancel, buttons.cancel.disabled ? "Cancelling…" : "Cancel batch");
  buttons.retry.hidden = !ended(batch) || !batch.failed;
  say(buttons.retry, `Retry ${plural(batch.failed, "failed project")}`);
  if (focused?.hidden || focused?.disabled) buttons.close.focus(); // it vanished while it had the focus
  const errors = Object.entries(batch.errors);
  failures.hidden = !errors.length;
  reasons.show(errors);
  more.hidden = batch.failed <= errors.length;
  say(more, `and ${plural(batch.failed - errors.length, "more project")}`);
  if (opened) lead(title);
  opened = false;
}

const page = live(load, show);

async function cancel(batch) {
  const done = await dialog({
    title: "Cancel this batch?",
    content: h("p", {}, `${summary(batch)}. It stops before its next projects; what is done stays done.`),
    confirm: "Cancel batch",
    busy: "Cancelling…",
    dismiss: "Keep it running",
    danger: true,
    accept: () => ask(`/batches/${encodeURIComponent(batch.id)}`, { method: "DELETE" }),
  });
  if (!done) return;
  cancelling = batch.id;
  page.refresh();
}

async function retry(batch) {
  const isDelete = batch.operation === "delete";
  const [first] = Object.keys(batch.errors);
  const again = await dialog({
    title: `Retry ${plural(batch.failed, "project")}?`,
    content: [h("p", {}, `This starts a new batch: ${about(batch)}.`), isDelete && deletionWarning()],
    confirm: `Retry ${plural(batch.failed, "project")}`,
    busy: "Starting…",
    danger: isDelete,
    typed: isDelete && (batch.failed === 1 ? first : String(batch.failed)),
    accept: () => post(`/batches/${encodeURIComponent(batch.id)}/retry`),
  });
  if (!again) return;
  choose(again.id);
  if (ended(again)) notice("It was retried before", h("p", {}, "Here is what became of that. What has failed then, too, is retried from there."));
}
