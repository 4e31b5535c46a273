import { bind, read, write } from "./address.js";
import { ask, now } from "./api.js";
import { byId, h } from "./dom.js";
import { when } from "./format.js";
import { live } from "./live.js";
import { cursorPages } from "./pager.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const SIZE = 50;
const DEFAULTS = { group: "", kind: "", who: "", q: "", within: "" };
const COLOURS = { died: "bad", left: "warn", drain: "warn", evict: "warn", maintenance: "warn", rebalance: "warn", joined: "good", leader: "accent", batch: "accent" };

const state = read(DEFAULTS);
const form = byId("filters");
const pages = cursorPages(() => {
  write(state, DEFAULTS);
  page.refresh();
});

const table = new Table(byId("events"), [
  { title: "When", cls: "nowrap first", show: (each) => when(each.at) },
  { title: "Kind", show: (each) => badges([[each.kind, COLOURS[each.kind] ?? ""]]) },
  { title: "What", cls: "full", show: (each) => each.text },
  { title: "Who", cls: "full", show: (each) => each.who || "–" },
  { title: "More", cls: "full", show: (each) => ({ sign: "", node: () => more(each) }) },
], { key: (each) => `${each.at} ${each.sequence}` });

const { kind } = form.elements;
if (![...kind.options].some((each) => each.value === state.kind)) kind.append(h("option", {}, state.kind));
bind(form, state, pages.latest);

const filter = () => {
  const { within, ...rest } = state;
  return { ...rest, ...(within && { since: Math.floor(now() - Number(within)) }) };
};

const page = live(() => ask("/events/archive", { query: { ...filter(), limit: SIZE, ...pages.query() } }), show);

function show({ items, next }) {
  table.show(items);
  pages.shown(next);
  byId("empty").hidden = items.length > 0;
  const given = Object.entries(filter()).filter(([, value]) => value);
  byId("export").href = `/api/v1/events/archive.csv?${new URLSearchParams([...given, ["style", "spreadsheet"]])}`;
}

function more(event) {
  const facts = Object.keys(event.data).length;
  if (!facts) return "–";
  const { batch } = event.data; // anybody may have written it
  const link = typeof batch === "string" && h("a", { href: `/cluster/batches?id=${encodeURIComponent(batch)}` }, "the batch");
  return h("details", {}, h("summary", {}, "details"), h("pre", {}, JSON.stringify(event.data, null, 1)), link);
}
