import { projectPage, read, taskPage, write } from "./address.js";
import { ask } from "./api.js";
import { byId, say } from "./dom.js";
import { when } from "./format.js";
import { live } from "./live.js";
import { pager } from "./pager.js";
import { Table } from "./table.js";

const SIZE = 50;
const RARELY = 60000; // milliseconds; a database sorts all results for each look
const MOST_COLUMNS = 6;
const DEFAULTS = { project: "", offset: 0 };

const state = read(DEFAULTS);
const name = state.project;
let columns = null; // fields that all results of a page have
let table;

const page = live(() => ask("/results", { query: { project: name, offset: state.offset, limit: SIZE } }), show, RARELY);

function show(data) {
  if (!pager(data, SIZE, go)) return;
  const { items } = data;
  const common = Object.keys(items[0]?.fields ?? {}).filter((each) => items.every(({ fields }) => each in fields)).sort().slice(0, MOST_COLUMNS);
  if (columns?.join() !== common.join()) {
    columns = common;
    table = made();
  }
  table.show(items);
}

function made() {
  const others = ({ fields }) => Object.entries(fields).filter(([each]) => !columns.includes(each)).map((each) => each.join(": ")).join(", ");
  return new Table(byId("results"), [
    { title: "Saved", cls: "nowrap first", show: (each) => when(each.updatetime) },
    { title: "URL", cls: "full", show: (each) => ({ text: each.url, href: taskPage(name, each.taskid) }) },
    ...columns.map((field) => ({ title: field || "result", cls: "wide", show: (each) => each.fields[field] })),
    { title: "Others", cls: "wide", show: others },
  ], { key: (each) => each.taskid });
}

function go(offset) {
  state.offset = offset;
  write(state, DEFAULTS);
  page.refresh();
}

say(document.querySelector("h1"), `Results of ${name}`);
say(byId("project"), name);
byId("project").href = projectPage(name);
for (const form of ["json", "txt", "csv"])
  byId(form).href = `/results/dump/${encodeURIComponent(name)}.${form}${form === "csv" ? "?style=spreadsheet" : ""}`;
