import { bind, projectPage, read, taskPage, write } from "./address.js";
import { Problem, ask, now } from "./api.js";
import { byId, say } from "./dom.js";
import { count, plural, when } from "./format.js";
import { live } from "./live.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";
import { triesTable } from "./tries-table.js";

const TRIES = 100;
const ENOUGH = 100; // tasks that are found before somebody must say to look on
const DEFAULTS = { url: "", project: "", state: "", within: "" };
const LOOKS = { SUCCESS: "good", FAILED: "bad", BAD: "bad" };

const state = read(DEFAULTS);
const isSearch = () => Boolean(state.url || state.state || state.within);
const tries = triesTable(byId("tries"), true);
const found = new Table(byId("tasks"), [
  { title: "Project", cls: "first", show: (each) => ({ text: each.project, href: projectPage(each.project) }) },
  { title: "URL", cls: "full", show: (each) => ({ text: each.url, href: taskPage(each.project, each.taskid) }) },
  { title: "State", show: (each) => badges([[each.state, LOOKS[each.state] ?? ""]]) },
  { title: "Last try", cls: "nowrap", show: (each) => when(each.crawled_at) },
], { key: (each) => `${each.project}:${each.taskid}` });

// The search that is shown. read: when its last answer came; wanted: how many tasks it looks for; going: until these are found; asking: a request is on its way.
let search = null;

// The latest tries are shown until something is looked for.
const page = live(
  () => (isSearch() ? { items: [], missing: [], read: search?.read } : latest()),
  ({ items }) => {
    tries.show(items);
    byId("empty").hidden = isSearch() || items.length > 0;
  },
);

/** Return the latest tries; none while something is missing is no answer, and what is known stays. */
async function latest() {
  const found = await ask("/tries", { query: { project: state.project, limit: TRIES } });
  if (found.missing.length && !found.items.length) throw new Problem(503, found.missing.join("; "));
  return found;
}

// --- the search ---

function begin() {
  if (search) search.going = false; // its answer comes too late
  search = isSearch() ? { query: query(), tasks: [], next: null, read: null, rows: 0, projects: 0, of: 0, wanted: ENOUGH, going: false, asking: false } : null;
  byId("found").hidden = !search;
  byId("latest").hidden = Boolean(search);
  if (search) lookOn(search);
}

const query = () => ({
  url: state.url,
  project: state.project,
  state: state.state,
  ...(state.within && { since: now() - Number(state.within) }),
});

/** Look until enough is found, nothing is left, or somebody stops it. */
async function lookOn(mine) {
  mine.going = mine.asking = true;
  show(mine);
  let fault = "";
  try {
    do {
      const look = await ask("/tasks", { query: { ...mine.query, ...(mine.next && { cursor: mine.next }), limit: ENOUGH } });
      if (mine !== search) return;
      mine.read = Date.now();
      mine.tasks.push(...look.items);
      mine.rows += look.rows;
      Object.assign(mine, { next: look.next, projects: look.projects, of: look.of });
      mine.going &&= Boolean(mine.next) && mine.tasks.length < mine.wanted;
      show(mine);
    } while (mine.going);
  } catch (error) {
    mine.going = false;
    fault = error.message;
  }
  mine.asking = false;
  if (mine === search) show(mine, fault);
}

function show({ tasks, next, rows, projects, of, going, asking }, error = "") {
  found.show(tasks);
  const among = `${plural(rows, "task")}, ${count(projects)} of ${plural(of, "project")} done`;
  const end = error || (going ? "looking on…" : next ? "there may be more" : "that is all");
  say(byId("progress"), `${count(tasks.length)} found among ${among}; ${end}.`);
  byId("progress").setAttribute("aria-busy", String(going)); // only its end is read out
  byId("stop").disabled = !going;
  byId("more").disabled = asking || !(next || error);
}

byId("stop").addEventListener("click", () => {
  search.going = false;
  show(search);
});
byId("more").addEventListener("click", () => {
  search.wanted = search.tasks.length + ENOUGH;
  lookOn(search);
});

bind(byId("filters"), state, () => {
  write(state, DEFAULTS);
  page.refresh();
  begin();
});
begin();
