import { read, write } from "./address.js";
import { ask, post } from "./api.js";
import { dialog } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { count, plural } from "./format.js";
import { live } from "./live.js";
import { Table } from "./table.js";
import { badges, tiles } from "./tiles.js";

const COLOURS = 8;
const DEFAULTS = { change: "" };
const state = read(DEFAULTS);
const form = byId("what-if");
const select = form.elements.change;
let moving = new Set();
let last = null;
let asked = Boolean(state.change); // by the address; answered once the members are known

const page = live(load, show);

const owners = new Table(byId("owners"), [
  { title: "Member", cls: "first", show: (each) => ({ sign: String(each.number), node: () => h("span", {}, h("span", { class: `slot owner-${each.number % COLOURS}` }, String(each.number)), ` ${each.name || each.host || ""}`) }) },
  { title: "State", show: (each) => badges([each.leader && ["leader", "accent"], each.draining && ["draining", "warn"], each.gone && ["gone", "bad"]].filter(Boolean)) },
  { title: "Slots", cls: "num", show: (each) => count(each.slots) },
  { title: "Projects", cls: "num", show: (each) => (each.gone ? "–" : count(each.projects)) },
  { title: "", label: "", cls: "num", show: (each) => ({ sign: `${each.number} ${each.draining} ${each.gone}`, node: () => (each.gone ? "" : h("button", { type: "button", disabled: each.draining, "aria-label": `drain member ${each.number}`, onclick: () => drain(each.number) }, each.draining ? "Draining" : "Drain…")) }) },
], { key: (each) => `${each.number}-${each.incarnation}` });

async function load() {
  const [assignment, members] = [await ask("/assignment"), await ask("/members")];
  return { assignment, members };
}

function show(data) {
  last = data;
  const { assignment, members } = data;
  const numbers = new Set(members.items.map((each) => each.number));
  tiles([
    { name: "Slots", value: count(assignment.items.length) },
    { name: "Members", value: count(members.items.length) },
    { name: "Moving", value: count(assignment.items.filter((each) => each.phase === "releasing").length) },
    { name: "Without owner", value: count(assignment.unserved), cls: assignment.unserved ? "bad" : "" },
    { name: "Epoch", value: count(assignment.epoch), title: "grows by one with every change" },
  ]);
  map(assignment, numbers);
  owners.show([...members.items, ...gone(assignment, numbers)]);
  changes(members.items);
  if (asked) {
    asked = false;
    preview();
  }
}

/** Owners that do not run, as long as the table names them. */
function gone(assignment, numbers) {
  const left = new Map();
  for (const { owner } of assignment.items)
    if (owner !== null && !numbers.has(owner)) left.set(owner, (left.get(owner) ?? 0) + 1);
  return [...left].map(([number, slots]) => ({ number, slots, incarnation: "gone", name: "", host: "", gone: true }));
}

function map(assignment, numbers) {
  const box = byId("map");
  while (box.children.length > assignment.items.length) box.lastChild.remove();
  while (box.children.length < assignment.items.length) box.append(h("span", { class: "slot" }));
  assignment.items.forEach((each, place) => {
    const cell = box.children[place];
    const served = numbers.has(each.owner);
    const cls = ["slot", served ? `owner-${each.owner % COLOURS}` : "unserved", each.next !== null && "releasing", moving.has(each.slot) && "would-move"];
    const next = each.next === null ? "" : `, moving to member ${each.next}`;
    const owner = each.owner === null ? "no owner yet" : served ? `member ${each.owner}` : `member ${each.owner}, which is gone`;
    cell.className = cls.filter(Boolean).join(" ");
    cell.title = `slot ${each.slot}: ${owner}, epoch ${each.epoch}${next}`;
    say(cell, served ? String(each.owner) : "!");
  });
  const label = `${plural(assignment.items.length, "slot")} by owner; the table beside has the numbers`;
  box.setAttribute("aria-label", label);
}

// --- what would move ---

function changes(members) {
  const wanted = [
    ["joins=1", "one member joins"], ["joins=2", "two members join"], ["joins=3", "three members join"],
    ...members.map((each) => [`leaves=${each.number}`, `member ${each.number} leaves`]),
  ];
  const sign = JSON.stringify(wanted);
  if (select.dataset.sign === sign) return;
  select.dataset.sign = sign;
  const value = select.value || state.change;
  select.replaceChildren(...wanted.map(([key, title]) => h("option", { value: key }, title)));
  if (wanted.some(([key]) => key === value)) select.value = value;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  state.change = select.value;
  write(state, DEFAULTS);
  preview();
});

byId("forget").addEventListener("click", () => {
  state.change = "";
  write(state, DEFAULTS);
  moving = new Set();
  byId("preview").replaceChildren();
  byId("forget").hidden = true;
  if (last) show(last);
});

async function preview() {
  const box = byId("preview");
  const [kind, value] = state.change.split("=");
  try {
    const found = await ask("/assignment/preview", { query: { [kind]: value } });
    moving = new Set(found.items.map((each) => each.slot));
    box.replaceChildren(told(found, kind, Number(value)));
  } catch (error) {
    moving = new Set();
    box.replaceChildren(h("p", { class: "fault" }, error.message));
  }
  byId("forget").hidden = false;
  if (last) show(last);
}

function told(found, kind, number) {
  const name = (each) => (each === null ? "nobody" : `member ${each}`);
  const rows = found.pairs.map((each) => h("tr", {}, h("td", {}, name(each.source)), h("td", {}, name(each.target)), h("td", { class: "num" }, count(each.slots))));
  const member = kind === "leaves" && last?.members.items.find((each) => each.number === number);
  return h("div", {},
    h("p", {}, found.total ? `${plural(found.total, "slot")} would move; they are framed in the map. Nothing was changed.` : "Nothing would move."),
    found.total > 0 && h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, "To"), h("th", { scope: "col", class: "num" }, "Slots"))),
      h("tbody", {}, rows),
    ),
    kind === "joins" && h("p", {}, "To do it, start a scheduler with the same settings: it joins by itself."),
    member && !member.draining && h("p", {}, h("button", { type: "button", onclick: () => drain(number) }, `Drain member ${number}…`)),
  );
}

async function drain(number) {
  const member = last.members.items.find((each) => each.number === number); // as it is now
  if (!member) return;
  const others = (last?.members.items ?? []).filter((each) => each.number !== number && !each.draining).length;
  const done = await dialog({
    title: `Drain member ${number}?`,
    content: [
      h("p", {}, `Its ${plural(member.slots, "slot")} move to ${plural(others, "other member")}; then its process (${member.host}, ${member.pid}) ends. Whatever watches over the process may start it again.`),
      !others && h("p", { class: "fault" }, "There is no other member: its projects stand still until one joins."),
    ],
    confirm: `Drain member ${number}`,
    danger: true,
    accept: () => post(`/members/${number}/drain`, { incarnation: member.incarnation }),
  });
  if (done) page.refresh();
}
