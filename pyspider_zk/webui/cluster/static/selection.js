// The selected rows of a list: some, on any of its pages, or all that match.

import { byId, h, say } from "./dom.js";
import { count } from "./format.js";

export class Selection {
  /** what: a noun for one row; changed() is called when rows must be redrawn. */
  constructor(what, changed) {
    this.what = what;
    this.changed = changed;
    this.keys = new Set();
    this.all = false;
    this.total = 0;
    this.shown = [];
    this.boxes = new Map();
    this.head = h("input", { type: "checkbox", "aria-label": `select all ${what}s on this page`, onchange: () => this.page() });
    byId("all-matching").addEventListener("click", () => this.everything());
    this.render();
  }

  has(key) {
    return this.all || this.keys.has(key);
  }

  get size() {
    return this.all ? this.total : this.keys.size;
  }

  clear() {
    this.all = false;
    this.keys.clear();
    this.render();
    this.changed();
  }

  /** Set the keys on the current page, and how many rows match in total. */
  list(keys, total) {
    this.shown = keys;
    this.total = total;
    this.render();
  }

  column(key) {
    return {
      title: this.head,
      label: "",
      cls: "tick",
      show: (item) => ({
        sign: key(item), // the box is kept, and with it the focus; render() ticks it
        node: () => {
          const box = h("input", { type: "checkbox", "aria-label": `select ${key(item)}`, onchange: () => this.toggle(key(item), box) });
          box.checked = this.has(key(item));
          this.boxes.set(key(item), box);
          return box;
        },
      }),
    };
  }

  toggle(key, box) {
    if (this.all) {
      this.all = false; // keep the rows of this page, without one
      this.keys = new Set(this.shown);
    }
    if (box.checked) this.keys.add(key);
    else this.keys.delete(key);
    this.render();
    this.changed();
  }

  page() {
    const on = this.head.checked;
    this.all = false;
    for (const key of this.shown) {
      if (on) this.keys.add(key);
      else this.keys.delete(key);
    }
    this.render();
    this.changed();
  }

  everything() {
    if (this.size) {
      this.clear();
      return;
    }
    this.all = true;
    this.render();
    this.changed();
  }

  render() {
    const { size } = this;
    say(byId("selected"), size ? `${count(size)} selected` : "none selected");
    const every = byId("all-matching");
    say(every, size ? "clear the selection" : `select all ${count(this.total)} that match`);
    every.hidden = !size && !this.total;
    for (const [key, box] of this.boxes) {
      if (box.isConnected || this.shown.includes(key)) box.checked = this.has(key);
      else this.boxes.delete(key);
    }
    const on = this.shown.filter((key) => this.has(key)).length;
    this.head.checked = on > 0 && on === this.shown.length;
    this.head.disabled = !this.shown.length; // a press before there are rows would be lost
    this.head.indeterminate = on > 0 && on < this.shown.length;
    for (const button of document.querySelectorAll("#actions .buttons button")) button.disabled = !size;
  }
}
