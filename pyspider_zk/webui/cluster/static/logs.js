import { bind, projectPage, read, taskPage, write } from "./address.js";
import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { when } from "./format.js";
import { live } from "./live.js";
import { cursorPages } from "./pager.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 50;
const EVERY = 10000; // milliseconds: a search that finds little reads all lines
const DEFAULTS = { level: "", component: "", project: "", q: "" };

const state = read(DEFAULTS);
const form = byId("filters");
const pages = cursorPages(() => {
  write(state, DEFAULTS);
  page.refresh();
});

const table = new Table(byId("lines"), [
  { title: "When", cls: "nowrap first", show: (each) => when(each.at) },
  { title: "Level", show: (each) => badges([[each.level, each.level === "warning" ? "warn" : "bad"]]) },
  { title: "Component", show: (each) => each.component },
  { title: "Where", cls: "wide", about: "machine and process", show: (each) => `${each.host}:${each.pid}` },
  { title: "Project", cls: "wide", show: (each) => (each.project ? { text: each.project, href: projectPage(each.project) } : "–") },
  { title: "Message", cls: "full", show: (each) => ({ sign: "", node: () => message(each) }) },
], { key: (each) => each.id });

for (const name of ["level", "component"]) {
  const field = form.elements[name];
  if (![...field.options].some((each) => each.value === state[name])) field.append(h("option", {}, state[name]));
}
bind(form, state, pages.latest);

const filter = () => Object.fromEntries(Object.entries(state).filter(([, value]) => value));

const page = live(() => ask("/logs", { query: { ...filter(), limit: SIZE, ...pages.query() } }), show, EVERY);

function show({ items, next }) {
  table.show(items);
  pages.shown(next);
  byId("empty").hidden = items.length > 0;
}

function message(line) {
  const task = line.task && h("a", { href: taskPage(line.project, line.task) }, "the task");
  const text = line.traceback ? h("details", {}, h("summary", {}, line.message), h("pre", {}, line.traceback)) : h("span", {}, line.message);
  return h("div", {}, text, task && " ", task);
}
