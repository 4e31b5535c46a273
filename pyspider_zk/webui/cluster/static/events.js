import { bind, read, write } from "./address.js";
import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { when } from "./format.js";
import { live } from "./live.js";
import { pager } from "./pager.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 50;
const KEPT = 1000; // the cluster keeps no more
const DEFAULTS = { kind: "", q: "", offset: 0 };
const COLOURS = { died: "bad", left: "warn", drain: "warn", evict: "warn", maintenance: "warn", rebalance: "warn", joined: "good", leader: "accent", batch: "accent" };

const state = read(DEFAULTS);
const form = byId("filters");
const events = new Map(); // by sequence number, in the order of the log
let after;

const table = new Table(byId("events"), [
  { title: "When", cls: "nowrap first", show: (each) => when(each.at) },
  { title: "Kind", show: (each) => badges([[each.kind, COLOURS[each.kind] ?? ""]]) },
  { title: "What", cls: "wide full", show: (each) => each.text },
  { title: "Who", cls: "wide full", show: (each) => each.who || "–" },
  { title: "More", cls: "full", show: (each) => ({ sign: "", node: () => more(each) }) },
], { key: (each) => each.sequence });

const page = live(load, show);

kinds();
bind(form, state, () => go(0));

async function load() {
  const query = after === undefined ? { limit: KEPT } : { after, limit: KEPT };
  const { items, last } = await ask("/events", { query });
  for (const each of items) events.set(each.sequence, each);
  for (const old of [...events.keys()].slice(0, Math.max(0, events.size - KEPT))) events.delete(old);
  after = last ?? after;
  return {};
}

function go(offset) {
  state.offset = offset;
  write(state, DEFAULTS);
  show();
}

function show() {
  kinds();
  const found = [...events.values()].reverse().filter(wanted);
  if (found.length && state.offset >= found.length) state.offset = 0;
  const items = found.slice(state.offset, state.offset + SIZE);
  table.show(items);
  byId("empty").hidden = found.length > 0;
  pager(found.length, state.offset, SIZE, items.length, go);
}

function wanted(event) {
  if (state.kind && event.kind !== state.kind) return false;
  const text = `${event.text} ${event.who} ${JSON.stringify(event.data)}`.toLowerCase();
  return text.includes(state.q.toLowerCase());
}

/** Offer the kinds of the known events, and the one in the address. */
function kinds() {
  const select = form.elements.kind;
  const there = new Set([...events.values()].map((each) => each.kind));
  if (state.kind) there.add(state.kind);
  const known = new Set([...select.options].map((each) => each.value));
  for (const kind of [...there].sort()) if (!known.has(kind)) select.append(h("option", { value: kind }, kind));
  if (!known.has(state.kind)) select.value = state.kind; // else another may just have been chosen
}

function more(event) {
  const facts = Object.keys(event.data).length;
  if (!facts) return "–";
  const { batch } = event.data; // anybody may have written it
  const link = typeof batch === "string" && h("a", { href: `/cluster/batches?id=${encodeURIComponent(batch)}` }, "the batch");
  return h("details", {}, h("summary", {}, "details"), h("pre", {}, JSON.stringify(event.data, null, 1)), link);
}
