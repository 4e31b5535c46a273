// A few figures in large type.

import { byId, h } from "./dom.js";

/** Show [{ name, value, cls, title }]. */
export function tiles(items) {
  const list = byId("tiles");
  const sign = JSON.stringify(items);
  if (list.dataset.sign === sign) return;
  list.dataset.sign = sign;
  list.replaceChildren(
    ...items.map((item) =>
      h("div", { class: item.cls, title: item.title }, h("dt", {}, item.name), h("dd", {}, item.value)),
    ),
  );
}

/** A word with a background, in a table. */
export function badges(words) {
  return {
    sign: JSON.stringify(words),
    node: () => h("span", { class: "badges" }, words.map(([text, cls]) => h("span", { class: `badge ${cls}` }, text))),
  };
}
