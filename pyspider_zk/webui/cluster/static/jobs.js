import { read, write } from "./address.js";
import { ask, post } from "./api.js";
import { about, ended, state as stateOf, summary } from "./batches.js";
import { progress } from "./charts.js";
import { dialog } from "./dialog.js";
import { byId, h } from "./dom.js";
import { count, plural, when } from "./format.js";
import { live } from "./live.js";
import { pager } from "./pager.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 25;
const DEFAULTS = { id: "", offset: 0 };
const state = read(DEFAULTS);

const table = new Table(byId("batches"), [
  { title: "Asked for", cls: "first nowrap", show: (each) => when(each.created) },
  { title: "Operation", cls: "full", show: (each) => ({ sign: `${about(each)} ${each.id}`, node: () => h("button", { type: "button", class: "link", "aria-label": `${about(each)}: details`, onclick: () => choose(each.id) }, about(each)) }) },
  { title: "State", show: (each) => badges([stateOf(each)]) },
  { title: "Progress", cls: "full", show: (each) => ({ sign: `${each.done} ${each.failed} ${each.total}`, node: () => progress(each.done, each.failed, each.total) }) },
  { title: "Failed", cls: "num", show: (each) => ({ text: count(each.failed), cls: each.failed ? "bad" : "" }) },
  { title: "Jobs", cls: "num", about: "pending, running and done", show: (each) => `${each.jobs.pending} / ${each.jobs.running} / ${each.jobs.done}` },
  { title: "By", show: (each) => each.user || "–" },
  { title: "Batch", cls: "full", show: (each) => ({ text: each.id.length > 12 ? `${each.id.slice(0, 12)}…` : each.id, title: each.id }) },
], { key: (each) => each.id });

const page = live(load, show);

async function load() {
  const list = await ask("/jobs", { query: { offset: state.offset, limit: SIZE } });
  if (!state.id) return { ...list, chosen: null };
  const found = list.items.find((each) => each.id === state.id);
  return { ...list, chosen: found ?? (await one(state.id)) };
}

async function one(id) {
  try {
    return await ask(`/jobs/${encodeURIComponent(id)}`);
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
  state.id = id;
  write(state, DEFAULTS);
  page.refresh();
}

function show(data) {
  if (data.total && data.offset >= data.total) {
    go(0);
    return;
  }
  table.show(data.items, (each) => (each.id === state.id ? "chosen" : ""));
  byId("empty").hidden = data.total > 0;
  pager(data.total, data.offset, SIZE, data.items.length, go);
  detail(data.chosen);
}

function detail(batch) {
  const box = byId("detail");
  box.hidden = !batch;
  const sign = JSON.stringify(batch);
  if (box.dataset.sign === sign) return;
  box.dataset.sign = sign;
  const focused = box.contains(document.activeElement) && document.activeElement.textContent;
  box.replaceChildren(...(batch ? [batch.gone ? h("p", { class: "empty" }, batch.gone) : whole(batch)] : []));
  if (focused) [...box.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
}

function whole(batch) {
  const errors = Object.entries(batch.errors);
  const selected = Object.entries(batch.selection).map(([name, value]) => `${name} ${value}`).join(", ");
  return h("div", { class: "detail" },
    h("h2", {}, summary(batch)),
    progress(batch.done, batch.failed, batch.total),
    h("dl", {},
      [["Batch", batch.id], ["Operation", about(batch)], ["Chosen by", selected || "names"], ["Asked for", `${when(batch.created)} by ${batch.user || "nobody logged in"}`],
       ["Jobs", `${batch.jobs.pending} pending, ${batch.jobs.running} running, ${batch.jobs.done} done`]]
        .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
    h("div", { class: "buttons" },
      !ended(batch) && h("button", { type: "button", class: "danger", onclick: () => cancel(batch) }, "Cancel"),
      ended(batch) && batch.failed > 0 && h("button", { type: "button", onclick: () => retry(batch) }, "Retry what failed"),
      h("button", { type: "button", onclick: () => choose("") }, "Close"),
    ),
    errors.length > 0 && h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Project"), h("th", { scope: "col" }, "Why it failed"))),
      h("tbody", {}, errors.map(([name, reason]) => h("tr", {}, h("td", {}, h("a", { href: `/debug/${encodeURIComponent(name)}` }, name)), h("td", { class: "wide" }, reason)))),
    ),
    batch.failed > errors.length && h("p", {}, `and ${plural(batch.failed - errors.length, "more project")}`),
  );
}

async function cancel(batch) {
  const done = await dialog({
    title: "Cancel this batch?",
    content: h("p", {}, `${summary(batch)}. It stops before its next project; what is done stays done.`),
    confirm: "Cancel the batch",
    danger: true,
    accept: () => ask(`/jobs/${encodeURIComponent(batch.id)}`, { method: "DELETE" }),
  });
  if (done) page.refresh();
}

async function retry(batch) {
  const again = await dialog({
    title: `Retry ${plural(batch.failed, "project")}?`,
    content: h("p", {}, `They become a new batch: ${about(batch)}.`),
    confirm: "Retry",
    accept: () => post(`/jobs/${encodeURIComponent(batch.id)}/retry`),
  });
  if (again) choose(again.id);
}
