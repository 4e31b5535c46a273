import { bind, editorPage, projectPage, read, resultsPage, write } from "./address.js";
import { ask } from "./api.js";
import { sparkline } from "./charts.js";
import { dialog } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { count, rate, since, until } from "./format.js";
import { live } from "./live.js";
import { changeable, operate, run } from "./operating.js";
import { pager } from "./pager.js";
import { Selection } from "./selection.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 50;
const DEFAULTS = { q: "", group: "", status: "", trouble: "", owner: "", sort: "name", offset: 0 };
const COLOURS = { RUNNING: "good", DEBUG: "accent", CHECKING: "warn", STOP: "", TODO: "" };

const state = read(DEFAULTS);
let last = null;

const selection = new Selection("project", () => last && show(last));
const number = (name, format = count) => (each) => (each.numbers ? format(each.numbers[name], last.at) : { text: "–", title: "its owner has not loaded it yet, or does not answer" });

function owner({ owner }) {
  if (owner !== null) return owner;
  return last.missing.length ? { text: "–", title: "no owner, or unknown: see the line at the top" } : { text: "none", cls: "bad" };
}

function status(project) {
  const { status, numbers } = project;
  const { quarantined, cannot_start: cannotStart, paused } = numbers ?? {};
  const more = [cannotStart && ["cannot start", "bad"], paused && ["paused", "warn"], quarantined && ["quarantine", "bad"]].filter(Boolean);
  return change("status", project, { ...badges([[status, COLOURS[status] ?? ""], ...more]), why: quarantined ?? cannotStart });
}

const change = (operation, project, shown) => changeable(operation, project, shown, () => page.refresh());

const actions = (project) => ({
  sign: project.name,
  node: () => h("span", { class: "buttons" },
    h("button", { type: "button", class: "link operates", "aria-label": `run ${project.name}`, onclick: (event) => event.detail < 2 && run(project, () => page.refresh()) }, "Run"), // a double click is one press
    h("a", { href: editorPage(project.name) }, "Edit"),
    h("a", { href: resultsPage(project.name) }, "Results"),
  ),
});

const table = new Table(byId("projects"), [
  selection.column((each) => each.name),
  { title: "Project", sort: "name", cls: "first", show: (each) => ({ text: each.name, href: projectPage(each.name) }) },
  { title: "Group", sort: "group", show: (each) => change("group", each, { node: () => each.group || "–" }) },
  { title: "Status", sort: "status", show: status },
  { title: "Owner", sort: "owner", cls: "num", show: owner },
  { title: "Slot", sort: "slot", cls: "num", show: (each) => each.slot },
  { title: "Rate", sort: "rate_now", cls: "num", about: "tasks that ended per second over five minutes", show: number("rate_now", rate) },
  { title: "Limit", sort: "rate", cls: "num", about: "tasks that may be sent per second, and at once", show: (each) => change("rate", each, { node: () => `${rate(each.rate)}/${rate(each.burst)}` }) },
  { title: "Pending", sort: "pending", cls: "num", about: "tasks in memory", show: number("pending") },
  { title: "Due", sort: "due", cls: "num", about: "tasks that wait only because of the rate limit", show: number("due") },
  { title: "Oldest due", sort: "oldest_due", cls: "num", about: "how long the oldest of them has waited at its owner", show: number("due_since", since) },
  { title: "Success", sort: "success", cls: "num", about: "tasks in the database", show: number("success") },
  { title: "Failed", sort: "failed", cls: "num", about: "tasks in the database", show: (each) => ({ text: each.numbers ? count(each.numbers.failed) : "–", cls: each.numbers?.failed ? "bad" : "" }) },
  { title: "Next due", sort: "next_due", cls: "num", about: "when the next task becomes due", show: number("next_due", until) },
  { title: "Last hour", cls: "full", show: (each) => (each.history ? { sign: each.history.join(), node: () => sparkline(each.history) } : "–") },
  { title: "", label: "", cls: "full", show: actions },
], { key: (each) => each.name, order: state.sort, onOrder: order });

bind(byId("filters"), state, () => {
  selection.clear();
  go(0);
});

/** A word without wildcards matches all names that contain it. */
const pattern = () => (!state.q || /[*?[]/.test(state.q) ? state.q : `*${state.q}*`);

const filter = () => ({ pattern: pattern(), group: state.group, status: state.status, owner: state.owner });

// Ages rise as time stamps fall.
const SORTS = { oldest_due: "-due_since", "-oldest_due": "due_since" };

async function load() {
  const query = { ...filter(), trouble: state.trouble, sort: SORTS[state.sort] ?? state.sort, offset: state.offset, limit: SIZE };
  return { ...(await ask("/workload", { query })), view: JSON.stringify(query) };
}

const page = live(load, show);

function go(offset) {
  state.offset = offset;
  write(state, DEFAULTS);
  page.refresh();
}

function order(sort) {
  state.sort = sort;
  table.order(sort);
  go(0);
}

function show(data) {
  last = data;
  if (!pager(data, SIZE, go)) return;
  selection.list(data.items.map((each) => each.name), state.trouble ? 0 : data.total); // no batch knows of troubles
  table.show(data.items, (each) => (selection.has(each.name) ? "chosen" : ""), data.view);
  const filtered = state.trouble || Object.values(filter()).some(Boolean);
  say(byId("empty"), filtered ? "No project matches." : "There are no projects yet.");
}

// --- operations ---

/** Open the editor with a new script; a project of that name that there is already opens as it is. */
function create(form) {
  const [name, url] = ["name", "url"].map((each) => form.elements[each].value.trim());
  location.assign(editorPage(name, url && { start: url }));
  return true;
}

byId("create").addEventListener("click", () => dialog({
  title: "Create a project",
  content: [
    h("label", {}, "Name", h("input", { name: "name", required: true, pattern: "[\\p{L}\\p{N}_]+", maxlength: 64, autocomplete: "off", title: "letters, digits and _" })),
    h("label", {}, "Start URL", h("input", { name: "url", type: "url", placeholder: "https://example.com/", autocomplete: "off" })),
  ],
  confirm: "Create",
  accept: create,
}));

/** The selection, for the API. */
function selected() {
  if (!selection.all) return { names: [...selection.keys] };
  const given = Object.fromEntries(Object.entries(filter()).filter(([, value]) => value));
  if (given.owner) given.owner = Number(given.owner);
  return { filter: Object.keys(given).length ? given : { all: true } };
}

const operations = { selected, size: () => selection.size, begun: () => selection.clear(), ended: () => page.refresh() };
for (const button of document.querySelectorAll("[data-operation]"))
  button.addEventListener("click", () => operate(button.dataset.operation, operations));
