import { projectPage, read } from "./address.js";
import { ask } from "./api.js";
import { byId, differs, h, say } from "./dom.js";
import { UNKNOWN, age, count, megabytes, rate, since } from "./format.js";
import { HistoryChart } from "./history.js";
import { live } from "./live.js";
import { CPU, HOST, LEASE, NAME, PENDING, PROJECTS, RATE, SLOTS, STATE } from "./member.js";
import { Table } from "./table.js";
import { slots, tiles } from "./tiles.js";

let at = 0; // the time of the response, by the web UI's clock

const members = new Table(byId("members"), [
  NAME, STATE, SLOTS, PROJECTS, PENDING, RATE, CPU, LEASE,
  { title: "Up", cls: "num", show: (each) => since(each.started, at) },
  HOST,
  { title: "Address", cls: "full", show: (each) => each.address },
  { title: "Version", show: (each) => each.version },
], { key: (each) => `${each.number}-${each.incarnation}` });

const components = new Table(byId("components"), [
  { title: "Component", cls: "first", show: (each) => each.kind.replace("-", " ") },
  { title: "Host", cls: "wide", show: (each) => each.host },
  { title: "Process", cls: "num", show: (each) => each.pid },
  { title: "Up", cls: "num", show: (each) => since(each.started, at) },
  { title: "Tasks/s", cls: "num", show: (each) => rate(each.tasks_per_s), about: "over the last ten seconds" },
  { title: "Memory", cls: "num", show: (each) => megabytes(each.memory) },
  { title: "Under way", cls: "num", show: (each) => count(each.under_way) },
  { title: "Oldest", cls: "full", show: (each) => (each.oldest ? { text: `${each.oldest}, ${since(each.oldest_began, at)}` } : UNKNOWN), about: "the task that it began first, and for how long it has had it" },
  { title: "Address", cls: "full", show: (each) => each.address || "–" },
  { title: "Version", show: (each) => each.version },
], { key: (each) => each.id });

const queues = new Table(byId("queues"), [
  { title: "Queue", show: (each) => (each.name === "dead letters" ? { text: each.name, href: "/cluster/dead-letters" } : each.name) },
  { title: "Messages", cls: "num", show: (each) => ({ text: count(each.length), cls: each.name === "dead letters" && each.length ? "bad" : "" }) },
  { title: "Oldest", cls: "num", show: (each) => (each.oldest === null ? { text: "–", title: "empty, or this queue does not report it" } : age(each.oldest)), about: "how long the oldest message has waited" },
], { key: (each) => each.name });

const quarantine = new Table(byId("quarantine"), [
  { title: "Project", cls: "first", show: (each) => ({ text: each.project, href: projectPage(each.project) }) },
  { title: "Reason", cls: "full", show: (each) => each.reason },
  { title: "Member", cls: "num", show: (each) => each.member },
  { title: "Since", cls: "num", show: (each) => since(each.since, at) },
  { title: "Next try", cls: "num", show: (each) => (each.next_look > 0 ? `in ${age(each.next_look)}` : "now"), about: "sooner if its row changes" },
], { key: (each) => each.project });

const unreadable = new Table(byId("unreadable"), [
  { title: "Znode or key", cls: "first", show: (each) => each.place },
  { title: "Problem", cls: "full", show: (each) => each.reason },
], { key: (each) => each.place });

function show(data) {
  at = data.at;
  alerts(data.alerts, data.isWhole);
  if (data.members) {
    const sum = (name) => data.members.reduce((all, each) => all + each[name], 0);
    tiles([
      { name: "Members", value: count(data.members.length), cls: data.members.length ? "" : "bad" },
      { name: "Leader", value: data.leader === null ? "none" : `member ${data.leader}`, cls: data.leader === null ? "bad" : "" },
      { name: "Slots", value: slots(data) },
      { name: "Without owner", value: count(data.unserved), cls: data.unserved ? "bad" : "" },
      { name: "Projects", value: count(sum("projects")) },
      { name: "Pending tasks", value: count(sum("pending")) },
      { name: "Tasks/s", value: rate(sum("tasks_per_s")) },
      { name: "Epoch", value: count(data.epoch), title: "grows by one with every change of the assignment" },
    ]);
    members.show(data.members.map((each) => ({ ...each, evicted: data.settings.evicted.includes(each.number) })));
    const kinds = Object.entries(data.components);
    components.show(kinds.flatMap(([kind, found]) => found.map((each) => ({ ...each, kind }))));
    list(quarantine, data.quarantine);
    list(unreadable, data.unreadable);
  }
  if (data.queues) {
    queues.show([...data.queues, { name: "dead letters", length: data.dead_letters, oldest: null }]);
  }
  chart.show(data.throughput, data.at);
}

/** Show a panel's table, or hide the panel if the table is empty. */
function list(table, items) {
  table.body.closest(".panel").hidden = items.length === 0;
  table.show(items);
}

const PAGES = { "dead-letters": "/cluster/dead-letters", "failing-tasks": "/cluster/failures", "paused-projects": "/cluster/projects?trouble=paused", "broken-projects": "/cluster/projects?trouble=cannot_start", quarantine: "/cluster/projects?trouble=quarantined" };
const lines = new Map(); // of alerts; the elements are kept, so that focus survives updates

function alerts(found, complete) {
  const well = complete
    ? { kind: "well", severity: "good", text: "All is well." }
    : { kind: "unknown", severity: "warning", text: "The state is unknown: something does not answer." };
  const shown = (found.length ? found : [well]).map((alert, place, all) => {
    const nth = all.slice(0, place).filter((each) => each.kind === alert.kind).length;
    return [`${alert.kind} ${nth}`, alert];
  });
  const keys = new Set(shown.map(([key]) => key));
  for (const [key, line] of lines) {
    if (keys.has(key)) continue;
    line.element.remove();
    lines.delete(key);
  }
  shown.forEach(([key, alert], place) => {
    const line = lines.get(key) ?? newLine(alert.kind);
    lines.set(key, line);
    line.element.className = alert.severity;
    say(line.word, { serious: "Serious: ", warning: found.length ? "Warning: " : "" }[alert.severity] ?? "");
    say(line.text, alert.text);
    const list = byId("alerts");
    if (list.children[place] !== line.element) list.insertBefore(line.element, list.children[place] ?? null);
  });
  const told = shown.map(([, alert]) => alert.text).join("; ");
  const heard = byId("alerts-heard");
  if (differs(heard, told.replace(/[\d.,]+/g, ""))) say(heard, told); // a number that changes is not read out again
}

function newLine(kind) {
  const [word, text] = [h("strong", {}), h("span", {})];
  const link = PAGES[kind] && [" ", h("a", { href: PAGES[kind] }, "Show them")];
  return { word, text, element: h("li", {}, word, text, link) };
}

async function load() {
  const [data, missing] = await Promise.all([ask("/overview"), chart.load()]);
  return { ...data, isWhole: !data.missing.length, missing: [...data.missing, ...missing] };
}

const DEFAULTS = { span: "hour" };
const chart = new HistoryChart(read(DEFAULTS), DEFAULTS, "", () => page.refresh());
const page = live(load, show);
