import { ask } from "./api.js";
import { MODES, showMaintenance } from "./banner.js";
import { byId, h, say } from "./dom.js";
import { count, plural } from "./format.js";
import { live } from "./live.js";
import { CPU, HOST, LEASE, NAME, PENDING, PROJECTS, RATE, SLOTS, STATE } from "./member.js";
import { admit, drain, evict, maintain, pin, rebalance, unpin } from "./orders.js";
import { progress } from "./progress.js";
import { showSettings } from "./setting-form.js";
import { Table } from "./table.js";
import { slots, tiles } from "./tiles.js";

let last = null;
let rebalancing = false; // as this page has seen it
const leaving = new Map(); // the members that were told to give up their slots, by number

const page = live(async () => ({ ...(await ask("/overview")), rebalance: await ask("/assignment/rebalance") }), show);
byId("settings").addEventListener("saved", page.refresh);

// --- members ---

const members = new Table(byId("members"), [
  NAME, HOST, STATE, SLOTS,
  { title: "Pinned", cls: "num", show: (each) => count(each.pins), about: "slots that are pinned to it" },
  PROJECTS, PENDING, RATE, CPU, LEASE,
  { title: "", label: "", cls: "num full operates", show: (each) => ({ sign: `${each.draining} ${each.evicted} ${each.gone}`, node: () => actions(each) }) },
], { key: (each) => `${each.number}-${each.incarnation}` });

const button = (title, label, onclick, more = {}) => h("button", { type: "button", "aria-label": label, onclick, ...more }, title);

function actions({ number, draining, evicted, gone }) {
  const now = () => rows(last).find((each) => each.number === number) ?? { number, gone: true };
  return h("span", { class: "buttons" },
    !gone && button(draining ? "Draining" : "Drain…", `drain member ${number}`, () => leave("drain", now()), { disabled: draining }),
    evicted
      ? button("Admit…", `admit member ${number}`, () => order(admit(now())))
      : button("Evict…", `evict member ${number}`, () => leave("evict", now())),
  );
}

/** The members that run, and the numbers without one that evictions and pins name. */
function rows({ members: running, settings: { evicted, pins } }) {
  const numbers = new Set(running.map((each) => each.number));
  const absent = [...new Set([...evicted, ...pins.map((each) => each.member)])].filter((number) => !numbers.has(number));
  const all = [...running, ...absent.sort((a, b) => a - b).map((number) => ({ number, incarnation: "none", gone: true }))];
  return all.map((each) => ({ ...each, evicted: evicted.includes(each.number), pins: pins.filter((pinned) => pinned.member === each.number).length }));
}

/** Wait for an order; what it changed is shown at once. */
async function order(asked) {
  const answer = await asked;
  if (answer?.maintenance) showMaintenance(answer);
  if (answer) page.refresh();
  return answer;
}

async function leave(how, member) {
  const { number, incarnation, slots: before } = member;
  const done = await order(how === "drain" ? drain(number, last.members) : evict(member));
  if (done && !member.gone) leaving.set(number, { how, incarnation, before });
}

function showLeaving({ members: running, settings: { evicted } }) {
  for (const [number, { how, incarnation, before }] of leaving) {
    const member = running.find((each) => each.number === number && each.incarnation === incarnation);
    const isAdmitted = how === "evict" && !evicted.includes(number);
    const over = isAdmitted || (how === "drain" ? !member : !member?.slots);
    if (over) leaving.delete(number);
    const text = isAdmitted ? `Member ${number} is admitted again.` : over ? ENDED[how](number) : `Member ${number}: ${count(before - member.slots)} of ${plural(before, "slot")} moved away`;
    progress(`leave ${number}`, text, over ? null : before - member.slots, before);
  }
}

const ENDED = {
  drain: (number) => `Member ${number} has left the cluster.`,
  evict: (number) => `Member ${number} is evicted: it has no slots any more.`,
};

// --- maintenance and rebalancing ---

for (const each of document.querySelectorAll("[data-mode]")) each.addEventListener("click", () => order(maintain(each.dataset.mode)));
byId("rebalance").addEventListener("click", async () => {
  rebalancing = Boolean(await order(rebalance(last.settings.maintenance))) || rebalancing;
});

function showMode({ maintenance }) {
  showMaintenance({ maintenance });
  const text = `Maintenance is ${maintenance === "hold" ? "on hold" : maintenance}. ${MODES[maintenance]}`;
  say(byId("maintenance-text"), text);
  for (const each of document.querySelectorAll("[data-mode]")) each.hidden = each.dataset.mode === maintenance;
}

function showRebalance({ state, total, left, fault }) {
  const running = state === "running";
  byId("rebalance").disabled = running || !last;
  if (!running && !rebalancing) return;
  rebalancing = running;
  const text = {
    running: `Rebalancing: ${count(Math.max(0, total - left))} of ${plural(total, "slot")} moved`,
    done: `Rebalanced: ${plural(total, "slot")} moved.`,
    failed: `Rebalancing failed: ${fault}`,
    none: "The web UI that was rebalancing has ended: the events say how far it came.",
  }[state];
  progress("rebalance", text, running ? Math.max(0, total - left) : null, total);
}

// --- pins ---

const pins = new Table(byId("pins"), [
  { title: "Slot", cls: "first", show: (each) => ({ text: String(each.slot), href: `/cluster/assignment?slot=${each.slot}`, title: "the slot on the map" }) },
  { title: "Member", show: (each) => `member ${each.member}${each.runs ? "" : ", not running: the slot is elsewhere"}` },
  { title: "", label: "", cls: "num operates", show: (each) => ({ sign: `${each.member}`, node: () => button("Unpin…", `unpin slot ${each.slot}`, () => order(unpin(each.slot, each.member))) }) },
], { key: (each) => each.slot });

const form = byId("pin");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const what = form.elements.what.value.trim();
  const number = form.elements.member.value.trim();
  say(byId("pin-fault"), "");
  try {
    if (!what || !/^\d+$/.test(number)) throw new Error("Give a project or slot, and the number of a member.");
    if (await order(pinned(await slotOf(what), Number(number)))) form.reset();
  } catch (error) {
    say(byId("pin-fault"), error.message);
  }
});

/** The slot with this number, or of this project. */
async function slotOf(what) {
  if (!/^\d+$/.test(what)) return (await ask(`/projects/${encodeURIComponent(what)}`)).slot;
  const slot = Number(what);
  if (slot >= last.slots) throw new Error(`There is no slot ${slot}: the cluster has ${last.slots}, from 0 on.`);
  const { items: [project] } = await ask("/projects", { query: { pattern: what } }).catch(() => ({ items: [] })); // a pin needs no database
  if (project && project.slot !== slot) throw new Error(`${what} is also a project, in slot ${project.slot}: say ${project.slot} if that is meant, and 0${what} for slot ${slot}.`);
  return slot;
}

async function pinned(slot, number) {
  const { items } = await ask("/assignment");
  return pin(slot, number, items[slot].owner, obstacle(number));
}

/** What must happen before a slot can move to a member, or nothing. */
function obstacle(number) {
  const member = last.members.find((each) => each.number === number);
  if (!member || member.draining) return `another process is member ${number}`;
  if (last.settings.evicted.includes(number)) return `member ${number} is admitted`;
  return last.settings.maintenance === "off" ? "" : "maintenance is over";
}

// --- everything ---

function show(data) {
  if (data.members) last = data;
  showRebalance(data.rebalance);
  if (!data.members) return;
  const { settings } = data;
  const runs = new Set(data.members.map((each) => each.number));
  tiles([
    { name: "Members", value: count(runs.size), cls: runs.size ? "" : "bad" },
    { name: "Leader", value: data.leader === null ? "none" : `member ${data.leader}`, cls: data.leader === null ? "bad" : "" },
    { name: "Slots", value: slots(data) },
    { name: "Without owner", value: count(data.unserved), cls: data.unserved ? "bad" : "" },
    { name: "Maintenance", value: settings.maintenance },
    { name: "Epoch", value: count(data.epoch), title: "grows by one with every change of the assignment" },
  ]);
  members.show(rows(data));
  showLeaving(data);
  showMode(settings);
  showSettings(settings);
  pins.show(settings.pins.map((each) => ({ ...each, runs: runs.has(each.member) })));
  byId("no-pins").hidden = settings.pins.length > 0;
  byId("pins").hidden = !settings.pins.length;
  form.querySelector("button").disabled = false;
}
