// Buttons for the pages of a long list, by position or by cursors.

import { byId, h, say } from "./dom.js";
import { count } from "./format.js";

let turn; // to another page

const button = (title) =>
  h("button", { type: "button", onclick: ({ currentTarget }) => turn(Number(currentTarget.value)) }, title);

// The elements are kept, so that focus and clicks survive updates.
const [previous, where, next] = [button("Previous"), h("span", {}), button("Next")];

/**
 * Show the position of a page of the API in the list, and hide what is said of an empty one. go(offset) is called
 * for another page; at once, with false returned, if the list has become shorter and ends before this one.
 */
export function pager({ items, total, offset }, size, go) {
  if (total && offset >= total) {
    go(0);
    return false;
  }
  turn = go;
  if (!where.isConnected) byId("pager").append(previous, where, next);
  previous.value = Math.max(0, offset - size);
  previous.disabled = offset <= 0;
  next.value = offset + size;
  next.disabled = offset + size >= total;
  say(where, total ? `${count(offset + 1)} to ${count(offset + items.length)} of ${count(total)}` : "none");
  byId("empty").hidden = total > 0;
  return true;
}

/** The pages of a list with cursors, by the buttons *Older* and *Latest*; go() is called for another page. */
export function cursorPages(go) {
  let cursor = null; // of the page that is shown; null: the latest
  let next = null; // of the page behind it

  function turn(to) {
    cursor = to;
    go();
  }

  byId("older").addEventListener("click", () => turn(next));
  byId("latest").addEventListener("click", () => turn(null));
  return {
    latest: () => turn(null),
    query: () => (cursor ? { cursor } : {}),
    shown(behind) {
      next = behind;
      byId("older").disabled = !next;
      byId("latest").disabled = !cursor;
    },
  };
}
