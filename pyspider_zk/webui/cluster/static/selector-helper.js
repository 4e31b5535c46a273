// The selector helper: a press in the preview shows the path to an element, of which parts are chosen for a selector.

import { byId, h, say } from "./dom.js";
import { plural } from "./format.js";
import { boundsOf, create, listen, localName, rootOf, select, viewOf } from "./hostile-dom.js";
import { selectorOf, shorten, stepOf } from "./selector.js";

const MARK = "pyspider-mark"; // the elements that are drawn over a page
const MOST_MARKS = 500;
const LOOKS = {
  chosen: "border: 2px solid #c00;",
  pointed: "background: rgb(255 165 0 / 0.3);",
};

export class SelectorHelper {
  /** add(selector) is called to have one written into the script. */
  constructor(add) {
    this.page = null;
    this.steps = [];
    this.buttons = []; // each with the step or feature that it takes in and out
    this.switch = byId("helps");
    this.field = byId("selector");
    this.switch.addEventListener("click", () => this.turn(!this.isOn));
    byId("add").addEventListener("click", () => add(this.field.value));
    byId("copy").addEventListener("click", () => {
      this.field.select();
      document.execCommand("copy"); // navigator.clipboard needs HTTPS
    });
    this.over(null);
  }

  get isOn() {
    return this.switch.getAttribute("aria-pressed") === "true";
  }

  /** Help with another page, a document; null: there is none. */
  over(page) {
    this.page = null;
    this.turn(false);
    this.page = page;
    byId("helper").hidden = !page;
    if (!page) return;
    listen(page, "mouseover", ({ target }) => this.isOn && this.mark("pointed", [target]));
    listen(page, "click", (event) => this.isOn && this.choose(event.composedPath()));
  }

  turn(on) {
    this.switch.setAttribute("aria-pressed", String(on));
    this.mark("pointed", []);
    this.mark("chosen", []);
    this.steps = [];
    byId("path").replaceChildren();
    byId("chosen").hidden = true;
    say(byId("matches"), on ? "Press something in the page." : "");
  }

  select(selector) {
    return [...select(this.page, selector)].filter((each) => localName(each) !== MARK);
  }

  /** Show the steps to an element; path: it and what it is in, up to the window. */
  choose(path) {
    this.steps = path.filter((each) => each instanceof viewOf(this.page).Element).reverse().map(stepOf);
    const seen = this.steps.filter((each) => each.isChosen);
    shorten(this.steps, (selector) => this.select(selector));
    this.buttons = [];
    byId("path").replaceChildren(...seen.map((step) => this.chip(step)));
    this.update();
  }

  chip(step) {
    const point = () => this.mark("pointed", [step.element]);
    const tag = localName(step.element);
    const features = step.features.map((each) => this.toggle(each.pattern, each));
    return h("span", { class: "chip", role: "group", "aria-label": tag, onmouseenter: point }, this.toggle(`<${tag}>`, step), features);
  }

  toggle(text, part) {
    const press = () => {
      part.isChosen = !part.isChosen;
      this.update();
    };
    const button = h("button", { type: "button", onclick: press }, text);
    this.buttons.push([button, part]);
    return button;
  }

  update() {
    for (const [button, part] of this.buttons) button.setAttribute("aria-pressed", String(part.isChosen));
    this.field.value = selectorOf(this.steps);
    byId("chosen").hidden = false;
    const found = this.select(this.field.value);
    this.mark("chosen", found);
    say(byId("matches"), `${plural(found.length, "element")} selected`);
  }

  /** Draw boxes over elements in place of those that were. */
  mark(kind, elements) {
    const { page } = this;
    if (!page || !viewOf(page)) return;
    for (const each of select(page, `${MARK}.${kind}`)) each.remove();
    const { scrollX, scrollY } = viewOf(page);
    const boxes = elements.slice(0, MOST_MARKS).map((each) => boundsOf(each)).map(({ left, top, width, height }) => {
      const box = Object.assign(create(page, MARK), { className: kind });
      box.style.cssText = `${LOOKS[kind]} position: absolute; z-index: 2147483647; box-sizing: border-box; pointer-events: none; left: ${left + scrollX}px; top: ${top + scrollY}px; width: ${width}px; height: ${height}px`;
      return box;
    });
    rootOf(page).append(...boxes);
  }
}
