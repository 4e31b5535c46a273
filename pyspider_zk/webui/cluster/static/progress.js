// Lines with a bar for what takes time; one that is over stays until it is closed.

import { byId, h, say } from "./dom.js";

const lines = new Map();

function newLine(key) {
  const [text, bar] = [h("span", { role: "status" }), h("progress", { "aria-label": "progress" })];
  const close = h("button", { type: "button", onclick: () => drop(key) }, "Close");
  const element = h("div", { class: "batch" }, text, bar, close);
  byId("progress").append(element);
  const line = { text, bar, close, element };
  lines.set(key, line);
  return line;
}

/** Show a line; value of max is done, and null is over. */
export function progress(key, text, value, max) {
  const line = lines.get(key) ?? newLine(key);
  line.text.setAttribute("aria-busy", String(value !== null)); // only the end is read out
  say(line.text, text);
  line.bar.hidden = value === null;
  line.close.hidden = value !== null;
  line.bar.max = Math.max(1, max);
  line.bar.value = value ?? 0;
}

function drop(key) {
  lines.get(key)?.element.remove();
  lines.delete(key);
}
