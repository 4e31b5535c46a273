import { bind, projectPage, read, taskPage, write } from "./address.js";
import { ask } from "./api.js";
import { byId, h, lead, say } from "./dom.js";
import { count, plural, since, when } from "./format.js";
import { live } from "./live.js";
import { refetch, refused } from "./operating.js";
import { cursorPages, pager } from "./pager.js";
import { Table } from "./table.js";

const SIZE = 50;
const TASKS = 25;
const DEFAULTS = { project: "", url: "", error: "", callback: "", status_code: "", kind: "", of: "", code: "", offset: 0 };

const state = read(DEFAULTS);
let now; // the time of the last response
let opened = false; // a kind, whose tasks are to be led to
const pages = cursorPages(() => { // of tasks
  write(state, DEFAULTS);
  page.refresh();
});

const again = (text, press) => ({ sign: text, node: () => h("button", { type: "button", "aria-label": text, onclick: press }, "Fetch again…") });

const kinds = new Table(byId("kinds"), [
  { title: "Kind", cls: "first full", show: (each) => ({ sign: each.kind, node: () => h("button", { type: "button", class: "link", onclick: () => open(each) }, each.kind) }) },
  { title: "Callback", show: (each) => each.callback || "–" },
  { title: "Status code", cls: "num", show: (each) => each.status_code || "–" },
  { title: "Tasks", cls: "num", show: (each) => count(each.tasks) },
  { title: "Given up", cls: "num", about: "of these, tasks that are not tried again", show: (each) => count(each.given_up) },
  { title: "Projects", cls: "num", show: (each) => count(each.projects) },
  { title: "For", cls: "num nowrap", about: "how long the first of these tasks has been failing", show: (each) => since(each.first_at, now) },
  { title: "Last", cls: "nowrap", show: (each) => when(each.last_at) },
  { title: "", cls: "operates", show: (each) => again(`fetch all tasks again that fail with ${each.kind}`, () => refetchKind(each)) },
], { key: (each) => JSON.stringify([each.kind, each.callback, each.status_code]) });

const tasks = new Table(byId("tasks"), [
  { title: "Project", cls: "first", show: (each) => ({ text: each.project, href: projectPage(each.project) }) },
  { title: "URL", cls: "full", show: (each) => ({ text: each.url, href: taskPage(each.project, each.taskid) }) },
  { title: "Error", cls: "full", show: (each) => ({ sign: each.error + each.logs, node: () => error(each) }) },
  { title: "Last try", cls: "nowrap", show: (each) => when(each.last_at) },
  { title: "Next", show: (each) => (each.is_given_up ? "given up" : "is tried again") },
  { title: "", cls: "operates", show: (each) => again(`fetch ${each.url} again`, () => refetchTask(each)) },
], { key: (each) => `${each.project}:${each.taskid}` });

const exactly = (callback) => callback || [""]; // in a list, for `ask` leaves out what is empty

const filter = () => ({ project: state.project, url: state.url, error: state.error, callback: state.callback, status_code: state.status_code });

/** The filter of the tasks of the kind that is open. */
const chosen = () => ({ ...filter(), kind: state.kind, callback: exactly(state.of), status_code: state.code });

async function load() {
  const found = await ask("/failures", { query: { ...filter(), offset: state.offset, limit: SIZE } });
  const query = { ...chosen(), limit: TASKS, ...pages.query() };
  return { ...found, failed: state.kind ? await ask("/failures/tasks", { query }) : null };
}

const page = live(load, show);

bind(byId("filters"), state, () => go(0));

function show(data) {
  if (!pager(data, SIZE, go)) return;
  now = data.at;
  kinds.show(data.items, (each) => (each.kind === state.kind && each.callback === state.of && String(each.status_code) === state.code ? "chosen" : ""));
  say(byId("empty"), Object.values(filter()).some(Boolean) ? "No failure matches." : "Nothing fails.");
  byId("failed").hidden = !data.failed;
  if (!data.failed) return;
  say(byId("kind"), state.kind);
  tasks.show(data.failed.items);
  pages.shown(data.failed.next);
  if (opened) lead(byId("tasks-title"));
  opened = false;
}

function go(offset) {
  state.offset = offset;
  pages.latest();
}

function open({ kind, callback, status_code: code }) {
  Object.assign(state, { kind, of: callback, code: String(code) });
  opened = Boolean(kind);
  if (!kind) lead(byId("kinds-title")); // the button is about to vanish
  pages.latest();
}

byId("close").addEventListener("click", () => open({ kind: "", callback: "", status_code: "" }));

const error = (task) => (task.logs ? h("details", {}, h("summary", {}, task.error), h("pre", {}, task.logs)) : h("span", {}, task.error));

// --- fetching again ---

async function refetchKind({ kind, callback, status_code: code }) {
  const which = { kind, callback, status_code: code, ...(state.url && { url: state.url }), ...(state.error && { error: state.error }) };
  const { items, fault } = await ask("/failures/projects", { query: { ...filter(), ...which, callback: exactly(callback) } }).catch((error) => ({ fault: error }));
  if (fault) return refused("refetch", fault);
  if (!items.length) return page.refresh(); // nothing fails so any more
  const left = items.reduce((sum, each) => sum + each.tasks, 0);
  return refetch(`${plural(left, "task")} of ${plural(items.length, "project")}`, {
    names: items.map((each) => each.name),
    arguments: which,
  }, () => page.refresh());
}

const refetchTask = ({ project, taskid, url }) => refetch(url, { names: [project], arguments: { tasks: [taskid] } }, () => page.refresh());
