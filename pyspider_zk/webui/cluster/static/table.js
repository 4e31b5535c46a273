// A table that is updated in place: rows keep their element, so focus and selection survive.

import { h, say } from "./dom.js";

/**
 * onOrder(sort) is called with the column's `sort`, prefixed with "-" for descending order.
 *
 * columns: [{ title, show(item), cls, sort, label }]. show() returns text, or
 * { text, cls, title, href }, or { sign, node() } where node() is only called when the sign changes.
 */
export class Table {
  constructor(table, columns, { key, order, onOrder } = {}) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    const press = onOrder && ((name) => onOrder(this.sort === name ? `-${name}` : name));
    this.heads = columns.map((column) => head(column, press));
    this.body = h("tbody", { role: "rowgroup" });
    this.orders = onOrder && orders(columns, onOrder);
    if (this.orders) table.before(h("div", { class: "orders" }, h("span", { "aria-hidden": "true" }, "Sort by"), this.orders));
    table.setAttribute("role", "table");
    table.replaceChildren(
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.heads)),
      this.body,
    );
    if (order) this.order(order);
  }

  /** Show which column the rows are sorted by; "-name" is descending. */
  order(sort) {
    const name = sort.replace(/^-/, "");
    this.sort = sort;
    if (this.orders) this.orders.value = sort;
    this.columns.forEach((column, place) => {
      if (!column.sort) return;
      const sorted = column.sort === name ? (sort.startsWith("-") ? "descending" : "ascending") : "none";
      this.heads[place].setAttribute("aria-sort", sorted);
    });
  }

  /** view: by what the items were chosen and sorted; as long as it stays, rows that are used keep their places. */
  show(items, rowClass = () => "", view = null) {
    const found = items.map((item) => {
      const key = String(this.key(item));
      const row = this.rows.get(key) ?? this.newRow();
      row.element.className = rowClass(item);
      this.columns.forEach((column, place) => update(row.cells[place], column.show(item)));
      return [key, row];
    });
    const isHeld = view !== null && view === this.view && this.isUsed();
    this.view = view;
    const rows = isHeld ? held([...this.rows.keys()], found) : found;
    this.rows = new Map(rows);
    const focused = document.activeElement;
    const kept = new Set(rows.map(([, row]) => row.element));
    for (const element of [...this.body.children]) if (!kept.has(element)) element.remove();
    let place = this.body.firstChild;
    for (const [, row] of rows) {
      if (row.element === place) place = place.nextSibling;
      else this.body.insertBefore(row.element, place);
    }
    if (this.body.contains(focused)) focused.focus({ preventScroll: true }); // a row that is moved loses it
  }

  /** Whether somebody points at a row, or is in one by keyboard. */
  isUsed() {
    return this.body.matches(":hover") || this.body.contains(document.querySelector(":focus-visible"));
  }

  newRow() {
    const cells = this.columns.map((column) => ({
      sign: null,
      column,
      element: h("td", { role: "cell", class: column.cls, "data-label": column.label ?? text(column.title) }),
    }));
    return { cells, element: h("tr", { role: "row" }, cells.map((cell) => cell.element)) };
  }
}

/** Rows in the places that they have: those that are new take the places of those that are gone, and the end. */
function held(keys, found) {
  const rows = new Map(found);
  const fresh = found.filter(([key]) => !keys.includes(key));
  const placed = keys.map((key) => (rows.has(key) ? [key, rows.get(key)] : fresh.shift()));
  return [...placed.filter(Boolean), ...fresh];
}

/** A menu for small screens, where rows are cards and there are no headings to click. */
function orders(columns, onOrder) {
  const options = columns.filter((column) => column.sort).flatMap(({ sort, title }) => [
    h("option", { value: sort }, title),
    h("option", { value: `-${sort}` }, `${title}, descending`),
  ]);
  return h("select", { "aria-label": "Sort by", onchange: (event) => onOrder(event.target.value) }, options);
}

const text = (title) => (typeof title === "string" ? title : "");

function head(column, onPress) {
  const attributes = { role: "columnheader", scope: "col", class: column.cls, title: column.about };
  if (!column.sort || !onPress) return h("th", attributes, column.title);
  const button = h("button", { type: "button", class: "sort", onclick: () => onPress(column.sort) }, column.title);
  return h("th", { ...attributes, "aria-sort": "none" }, button);
}

function update(cell, value) {
  const given = value !== null && typeof value === "object" ? value : { text: String(value) };
  const sign = given.sign ?? JSON.stringify([given.text, given.cls, given.title, given.href]);
  if (cell.sign === sign) return;
  cell.sign = sign;
  const hasFocus = cell.element.contains(document.activeElement);
  cell.element.className = [cell.column.cls, given.cls].filter(Boolean).join(" ");
  if (given.title) cell.element.title = given.title;
  else cell.element.removeAttribute("title");
  if (given.node) cell.element.replaceChildren(given.node());
  else if (given.href) cell.element.replaceChildren(h("a", { href: given.href }, given.text));
  else say(cell.element, given.text);
  if (hasFocus) cell.element.querySelector("button, a, input, summary")?.focus({ preventScroll: true });
}
