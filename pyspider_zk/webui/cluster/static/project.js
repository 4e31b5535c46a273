import { editorPage, read, resultsPage } from "./address.js";
import { ask } from "./api.js";
import { dialog, notice } from "./dialog.js";
import { byId, h, lead, say } from "./dom.js";
import { age, count, rate, since, until, when } from "./format.js";
import { HistoryChart } from "./history.js";
import { live } from "./live.js";
import { operate } from "./operating.js";
import { patternOf } from "./pattern.js";
import { Table } from "./table.js";
import { alerts, tiles } from "./tiles.js";
import { triesTable } from "./tries-table.js";

const DEFAULTS = { name: "", span: "hour" };
const given = read(DEFAULTS);
const { name } = given;
const path = `/projects/${encodeURIComponent(name)}`;
const TRIES = 25;

let saved; // the last change of the row whose script is shown; null: not known
let md5 = null; // of that script

const failures = new Table(byId("failures"), [
  { title: "Kind", cls: "first full", show: (each) => ({ text: each.kind, href: `/cluster/failures?${new URLSearchParams({ project: name, kind: each.kind, of: each.callback, code: each.status_code })}` }) },
  { title: "Callback", show: (each) => each.callback || "–" },
  { title: "Status code", cls: "num", show: (each) => each.status_code || "–" },
  { title: "Tasks", cls: "num", show: (each) => count(each.tasks) },
  { title: "Given up", cls: "num", about: "of these, tasks that are not tried again", show: (each) => count(each.given_up) },
  { title: "Last", cls: "nowrap", show: (each) => when(each.last_at) },
], { key: (each) => JSON.stringify([each.kind, each.callback, each.status_code]) });

const tries = triesTable(byId("tries"));

const act = (text, cls, label, press) => ({ sign: label, node: () => h("button", { type: "button", class: cls, "aria-label": label, onclick: press }, text) });

const versions = new Table(byId("versions"), [
  { title: "Saved", cls: "wide first", show: (each) => act(when(each.saved_at), "link", `what was changed ${when(each.saved_at)}`, () => compare(each)) },
  { title: "By", show: (each) => each.who || "–" },
  { title: "", cls: "num edits", show: (each) => act("Bring back…", "", `bring back what was saved ${when(each.saved_at)}`, () => bringBack(each)) },
], { key: (each) => each.saved_at });

const version = ({ saved_at: at }) => ask(`${path}/versions/${at.toFixed(3)}`);
const asLine = (line) => h(line.startsWith("+") ? "ins" : line.startsWith("-") ? "del" : "span", {}, `${line}\n`);

/** Show what a version has changed. */
async function compare(chosen) {
  const { against, diff, fault } = await version(chosen).catch((error) => ({ fault: error.message, diff: "" }));
  say(byId("version-title"), fault ?? `Changes of ${when(chosen.saved_at)}${against === null ? "" : ` since ${when(against)}`}`);
  byId("diff").replaceChildren(...diff.split("\n").slice(2).map(asLine)); // without the names
  byId("version").hidden = false;
  lead(byId("version-title"));
}

async function bringBack(chosen) {
  const replaced = md5; // what is seen now
  const done = await dialog({
    title: `Bring back the script of ${when(chosen.saved_at)}?`,
    content: h("p", {}, "It takes the place of the script that is there now, which stays among the versions. A project that runs gets the status CHECKING."),
    confirm: "Bring back",
    busy: "Saving…",
    async accept() {
      if (replaced === null) throw new Error("It is not known which script is there now.");
      return ask(`${path}/script`, { method: "PUT", body: { script: (await version(chosen)).script, if: replaced } });
    },
  });
  page.refresh();
  if (done?.error) await notice("It is saved, but cannot run", h("p", { class: "fault" }, done.error));
}

async function load() {
  const missing = new Set();
  const known = (asked) => asked.catch(({ message }) => void missing.add(message)); // undefined: it cannot be had now
  const [{ at, items, missing: silent }, failing, latest, unknown] = await Promise.all([
    ask("/workload", { query: { pattern: patternOf(name) } }),
    known(ask("/failures", { query: { project: name } })),
    known(ask("/tries", { query: { project: name, limit: TRIES } })),
    chart.load(),
  ]);
  const project = items.find((each) => each.name === name);
  const script = project && project.updatetime !== saved ? await known(ask(`${path}/script`)) : null;
  const kept = project && await known(ask(`${path}/versions`));
  return { at, missing: [...silent, ...latest?.missing ?? [], ...unknown, ...missing], project, failing, latest, kept, script };
}

/** Show a list, and whether it is empty. What cannot be had now stays as it was. */
function list(table, empty, found) {
  if (!found || (!found.items.length && found.missing?.length)) return;
  table.show(found.items);
  byId(empty).hidden = found.items.length > 0;
}

function show({ at, missing, project, failing, latest, kept, script }) {
  byId("unknown").hidden = Boolean(project);
  byId("main").classList.toggle("gone", !project);
  say(byId("unknown"), `There is no project ${name}.`);
  list(failures, "no-failures", failing);
  list(tries, "no-tries", latest);
  list(versions, "no-versions", kept);
  chart.show(project?.history && { ended: project.history }, at);
  if (!project) return;
  if (kept) say(byId("saved"), kept.items.length ? `saved ${when(kept.items[0].saved_at)}` : "");
  state(project, at, missing.length > 0);
  if (!script) return;
  saved = project.updatetime;
  md5 = script.md5;
  say(byId("script"), script.script);
}

function state({ status, group, rate: limit, burst, slot, owner, numbers }, at, isPartial) {
  const known = (of) => (numbers ? of(numbers) : "–");
  const hour = numbers?.hour;
  tiles([
    { name: "Status", value: status, cls: status === "RUNNING" || status === "DEBUG" ? "" : "quiet" },
    { name: "Rate / limit", value: `${known((it) => rate(it.rate_now))} / ${rate(limit)}`, title: `burst ${rate(burst)}` },
    { name: "Pending", value: known((it) => count(it.pending)) },
    { name: "Due", value: known((it) => count(it.due)), title: "wait only because of the rate limit" },
    { name: "Under way", value: known((it) => count(it.sent)) },
    { name: "Next due", value: known((it) => until(it.next_due, at)) },
    { name: "@every", value: numbers?.every ? `${age(numbers.every)}, ${until(numbers.next_tick, at)}` : "–", title: "how often, and when next" },
    { name: "Success", value: known((it) => count(it.success)) },
    { name: "Failed", value: known((it) => count(it.failed)), cls: numbers?.failed ? "bad" : "" },
    { name: "Last hour", value: hour ? `${count(hour.success)} / ${count(hour.failed)} / ${count(hour.retry)}` : "–", title: "succeeded, failed, tried again" },
    { name: "Owner, slot", value: `${owner ?? (isPartial ? "–" : "none")}, ${slot}`, cls: owner === null && !isPartial ? "bad" : "" },
    { name: "Group", value: group || "–" },
  ]);
  const told = [
    numbers?.quarantined && `It is in quarantine: ${numbers.quarantined}. Correct that; it is tried again at once when its row changes.`,
    numbers?.cannot_start && `It cannot start, for its script does not run: ${numbers.cannot_start}`,
    numbers?.paused && "It is paused, because its latest tasks have failed: the next ones are tried after five minutes.",
    numbers?.due_since && at - numbers.due_since > 60 && `Its oldest due task has waited for ${since(numbers.due_since, at)}.`,
  ].filter(Boolean);
  alerts(told.map((text) => ["warning", text]));
}

say(document.querySelector("h1"), name || "Project");
document.title = `${name} - ${document.title}`;
byId("edit").href = editorPage(name);
byId("results").href = resultsPage(name);
byId("events").href = `/cluster/events?q=${encodeURIComponent(name)}`;
byId("logs").href = `/cluster/logs?project=${encodeURIComponent(name)}`;

const chart = new HistoryChart(given, DEFAULTS, name, () => page.refresh());
const page = live(load, show);

const operations = { selected: () => ({ names: [name] }), size: () => 1, ended: () => page.refresh() };
for (const button of document.querySelectorAll("[data-operation]"))
  button.addEventListener("click", () => operate(button.dataset.operation, operations));
