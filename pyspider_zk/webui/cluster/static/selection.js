// Choosing rows of a list, on several of its pages, or all that match.

import { byId, h, say } from "./dom.js";
import { count } from "./format.js";

export class Selection {
  /** what: a word for one of the things; changed() is called when rows must be drawn anew. */
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
    this.tell();
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
    this.tell();
    this.changed();
  }

  /** Tell what is on the page now, and how many match in all. */
  list(keys, total) {
    this.shown = keys;
    this.total = total;
    this.tell();
  }

  column(key) {
    return {
      title: this.head,
      label: "",
      cls: "tick",
      show: (item) => ({
        sign: key(item), // the box stays, and with it the focus; tell() ticks it
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
      this.all = false; // all but one of what is on the page
      this.keys = new Set(this.shown);
    }
    if (box.checked) this.keys.add(key);
    else this.keys.delete(key);
    this.tell();
    this.changed();
  }

  page() {
    const on = this.head.checked;
    this.all = false;
    for (const key of this.shown) {
      if (on) this.keys.add(key);
      else this.keys.delete(key);
    }
    this.tell();
    this.changed();
  }

  everything() {
    if (this.size) {
      this.clear();
      return;
    }
    this.all = true;
    this.tell();
    this.changed();
  }

  tell() {
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
    this.head.indeterminate = on > 0 && on < this.shown.length;
    for (const button of document.querySelectorAll("#actions .buttons button")) button.disabled = !size;
  }
}
