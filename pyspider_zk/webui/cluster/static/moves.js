// Tables of the slots that would move.

import { h } from "./dom.js";
import { count } from "./format.js";

const name = (each) => (each === null ? "nobody" : `member ${each}`);

/** How many slots would move between whom. */
export function pairsTable(pairs) {
  const rows = pairs.map((each) => h("tr", {}, h("td", {}, name(each.source)), h("td", {}, name(each.target)), h("td", { class: "num" }, count(each.slots))));
  return h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, "To"), h("th", { scope: "col", class: "num" }, "Slots"))),
    h("tbody", {}, rows),
  );
}

/** The pairs of a preview, and behind them each slot. */
export function movesContent({ items, pairs }) {
  if (!pairs.length) return null;
  const lists = pairs.map(({ source, target }) => {
    const slots = items.filter((each) => each.source === source && each.target === target).map((each) => each.slot);
    return h("p", { class: "names", tabindex: 0 }, `${name(source)} to ${name(target)}: ${slots.join(", ")}`);
  });
  return [pairsTable(pairs), h("details", {}, h("summary", {}, "Which slots"), lists)];
}
