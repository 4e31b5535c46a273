// A few figures in large type.

import { byId, differs, h } from "./dom.js";
import { count } from "./format.js";

/** Show [{ name, value, cls, title }]. */
export function tiles(items) {
  const list = byId("tiles");
  if (!differs(list, items)) return;
  list.replaceChildren(
    ...items.map((item) =>
      h("div", { class: item.cls, title: item.title }, h("dt", {}, item.name), h("dd", {}, item.value)),
    ),
  );
}

/** Show what must be known, as [[class, text]]. */
export function alerts(told) {
  const list = byId("alerts");
  if (differs(list, told)) list.replaceChildren(...told.map(([cls, text]) => h("li", { class: cls }, text)));
}

/** The number of slots in an overview, and what is special about some of them. */
export function slots({ slots: all, moving, settings }) {
  const special = [[moving, "moving"], [settings.pins.length, "pinned"]].filter(([number]) => number > 0);
  return [count(all), ...special.map(([number, what]) => `${count(number)} ${what}`)].join(", ");
}

/** A word with a background, in a table. */
export function badges(words) {
  return {
    sign: JSON.stringify(words),
    node: () => h("span", { class: "badges" }, words.map(([text, cls]) => h("span", { class: `badge ${cls}` }, text))),
  };
}
