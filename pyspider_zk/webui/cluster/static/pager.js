// Pages of a long list.

import { byId, h } from "./dom.js";
import { count } from "./format.js";

/** Show where in the list we are; go(offset) is called for another page. */
export function pager(total, offset, size, shown, go) {
  const nav = byId("pager");
  const sign = `${total} ${offset} ${size} ${shown}`;
  if (nav.dataset.sign === sign) return;
  const focused = document.activeElement?.dataset?.to;
  nav.dataset.sign = sign;
  const button = (to, title, off) =>
    h("button", { type: "button", disabled: off, "data-to": title, onclick: () => go(to) }, title);
  nav.replaceChildren(
    button(Math.max(0, offset - size), "Previous", offset <= 0),
    h("span", {}, total ? `${count(offset + 1)} to ${count(offset + shown)} of ${count(total)}` : "none"),
    button(offset + size, "Next", offset + size >= total),
  );
  if (focused) nav.querySelector(`[data-to=${focused}]`)?.focus();
}
