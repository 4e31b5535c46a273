import { read, write } from "./address.js";
import { ask } from "./api.js";
import { byId, differs, h, say } from "./dom.js";
import { count, plural } from "./format.js";
import { live } from "./live.js";
import { pairsTable } from "./moves.js";
import { drain as orderDrain } from "./orders.js";
import { Table } from "./table.js";
import { badges, tiles } from "./tiles.js";

const COLOURS = 8;
const DEFAULTS = { change: "", slot: 0 };
const state = read(DEFAULTS);
const form = byId("what-if");
const select = form.elements.change;
const slot = byId("slot");
let moving = new Set();
let last = null;
let previewed = ""; // what the preview was computed from

const page = live(() => ask("/assignment"), show);

const owners = new Table(byId("owners"), [
  { title: "Member", cls: "first", show: (each) => ({ sign: String(each.number), node: () => h("span", {}, h("span", { class: `slot owner-${each.number % COLOURS}` }, String(each.number)), ` ${each.name || each.host || ""}`) }) },
  { title: "State", show: (each) => badges([each.leader && ["leader", "accent"], each.draining && ["draining", "warn"], each.gone && ["not running", "bad"]].filter(Boolean)) },
  { title: "Slots", cls: "num", show: (each) => count(each.slots) },
  { title: "Projects", cls: "num", show: (each) => (each.gone ? "–" : count(each.projects)) },
  { title: "", label: "", cls: "num operates", show: (each) => ({ sign: `${each.number} ${each.draining} ${each.gone}`, node: () => (each.gone ? "" : h("button", { type: "button", disabled: each.draining, "aria-label": `drain member ${each.number}`, onclick: () => drain(each.number) }, each.draining ? "Draining" : "Drain…")) }) },
], { key: (each) => `${each.number}-${each.incarnation}` });

function show(assignment) {
  last = assignment;
  const { members } = assignment;
  tiles([
    { name: "Slots", value: count(assignment.items.length) },
    { name: "Members", value: count(members.length) },
    { name: "Moving", value: count(assignment.items.filter((each) => each.phase === "releasing").length) },
    { name: "Without owner", value: count(assignment.unserved), cls: assignment.unserved ? "bad" : "" },
    { name: "Epoch", value: count(assignment.epoch), title: "grows by one with every change" },
  ]);
  map();
  owners.show([...members, ...gone()]);
  changes(members);
  if (state.change && previewed !== previewKey()) preview();
}

const numbers = () => new Set(last.members.map((each) => each.number));

/** Owners that are in the table but do not run. */
function gone() {
  const running = numbers();
  const left = new Map();
  for (const { owner } of last.items)
    if (owner !== null && !running.has(owner)) left.set(owner, (left.get(owner) ?? 0) + 1);
  return [...left].map(([number, slots]) => ({ number, slots, incarnation: "gone", name: "", host: "", gone: true }));
}

function map() {
  const { items } = last;
  const running = numbers();
  const box = byId("map");
  while (box.children.length > items.length) box.lastChild.remove();
  while (box.children.length < items.length) box.append(h("span", { class: "slot" }));
  items.forEach((each, place) => {
    const cell = box.children[place];
    const served = running.has(each.owner);
    const cls = ["slot", served ? `owner-${each.owner % COLOURS}` : "unserved", each.next !== null && "releasing", moving.has(each.slot) && "would-move"];
    cell.className = cls.filter(Boolean).join(" ");
    cell.title = `slot ${each.slot}: ${describe(each, served)}`;
    say(cell, served ? String(each.owner) : "!");
  });
  box.setAttribute("aria-label", `${plural(items.length, "slot")} by owner; the table next to it has the figures`);
  showSlot();
}

function describe({ owner, epoch, next }, served) {
  const who = owner === null ? "no owner yet" : served ? `member ${owner}` : `member ${owner}, which is gone`;
  return `${who}, epoch ${epoch}${next === null ? "" : `, moving to member ${next}`}`;
}

/** Describe the selected slot. */
function showSlot() {
  const each = last.items[state.slot];
  slot.max = last.items.length - 1;
  say(byId("slot-text"), each ? describe(each, numbers().has(each.owner)) : `there are slots 0 to ${slot.max}`);
}

function choose(number) {
  state.slot = number;
  write(state, DEFAULTS);
  if (last) showSlot();
}

slot.value = state.slot;
slot.addEventListener("input", () => choose(Number(slot.value)));
byId("map").addEventListener("click", ({ target }) => {
  if (target === byId("map")) return;
  slot.value = [...byId("map").children].indexOf(target);
  choose(Number(slot.value));
});

// --- preview ---

function changes(members) {
  const wanted = [
    ["joins=1", "one member joins"], ["joins=2", "two members join"], ["joins=3", "three members join"],
    ...members.map((each) => [`leaves=${each.number}`, `member ${each.number} leaves`]),
  ];
  if (!differs(select, wanted)) return;
  const value = select.value || state.change;
  select.replaceChildren(...wanted.map(([key, title]) => h("option", { value: key }, title)));
  if (wanted.some(([key]) => key === value)) select.value = value;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  state.change = select.value;
  write(state, DEFAULTS);
  if (last) preview();
});

byId("forget").addEventListener("click", () => {
  state.change = "";
  write(state, DEFAULTS);
  if (last) preview();
});

/** Everything that a preview depends on. */
const previewKey = () => JSON.stringify([state.change, last.epoch, last.members.map((each) => [each.number, each.incarnation, each.draining])]);

async function preview() {
  previewed = previewKey();
  const { change } = state;
  const [kind, number] = change.split("=");
  let found = { total: 0, pairs: [], items: [] };
  let fault = "";
  if (change) {
    try {
      found = await ask("/assignment/preview", { query: { [kind]: number } });
    } catch (error) {
      fault = error.message;
      if (error.status !== 404) previewed = ""; // the next request may succeed
    }
  }
  if (change !== state.change) return; // the user has selected another one meanwhile
  moving = new Set(found.items.map((each) => each.slot));
  byId("forget").hidden = !change;
  say(byId("preview-text"), fault || (change && sentence(found.total)));
  byId("preview-text").className = fault && "fault";
  showPairs(fault ? [] : found.pairs, kind, Number(number));
  map();
}

const sentence = (total) => (total ? `${plural(total, "slot")} would move; they are framed in the map. Nothing has been changed.` : "Nothing would move.");

/** Show the pairs and the possible actions; keep the elements, and the focus, if nothing has changed. */
function showPairs(pairs, kind, number) {
  const box = byId("preview-more");
  const member = kind === "leaves" && last.members.find((each) => each.number === number && !each.draining);
  if (!differs(box, [pairs, kind, member && number])) return;
  const parts = [
    pairs.length > 0 && pairsTable(pairs),
    kind === "joins" && h("p", {}, "Start a scheduler with the same settings: it joins by itself."),
    member && h("p", { class: "operates" }, h("button", { type: "button", onclick: () => drain(number) }, `Drain member ${number}…`)),
  ];
  box.replaceChildren(...parts.filter(Boolean));
}

async function drain(number) {
  if (await orderDrain(number, last.members)) page.refresh(); // as they are now
}
