// What a step gave: its log, what it follows, its messages, and what was fetched.

import { pretty, showCode } from "./code-editor.js";
import { byId, h, say } from "./dom.js";
import { count } from "./format.js";
import { showFetched, typeOf } from "./preview.js";

/** Empty the panels, while a step runs. */
export function clearResult(helper) {
  showResult({ logs: "", follows: [], messages: [], fetch_result: "" }, { helper });
  byId("fetched").replaceChildren();
}

/**
 * Show what /debug/PROJECT/run has answered.
 *
 * run(task) is called for a link to follow, goTo(number) for a line of the script that the log names.
 */
export async function showResult({ logs, follows, messages, fetch_result: fetched }, { name, helper, run, goTo }) {
  showLog(logs, name, goTo);
  number("follows", follows);
  byId("follows").replaceChildren(h("ul", {}, follows.map((task) => follow(task, run))));
  number("messages", messages);
  showCode(byId("messages").firstElementChild, messages.length ? pretty(messages) : "", "application/json");
  helper.over(null);
  const { content = "" } = fetched || {};
  showCode(byId("html").firstElementChild, content, fetched ? typeOf(fetched).split(";")[0] : "");
  if (fetched) helper.over(await showFetched(byId("fetched"), fetched));
}

const number = (id, items) => say(document.querySelector(`#tab-${id} span`), items.length ? ` ${count(items.length)}` : "");

const literal = (text = "") => text.replace(/\W/g, "\\$&");

/** Show the log; its lines of the script are links. */
function showLog(logs, name, goTo) {
  const [pre] = byId("log").children;
  const parts = logs.split(new RegExp(`(?<=File "<${literal(name)}>", )line (\\d+)`));
  pre.replaceChildren(...parts.map((part, place) => (place % 2 ? h("button", { type: "button", class: "link", onclick: () => goTo(Number(part)) }, `line ${part}`) : part)));
  byId("log").hidden = !logs;
  pre.scrollTop = pre.scrollHeight; // an error is told at the end
}

/** Return the last line of the script that a traceback names, and the error; null: there is none. */
export function faultIn(logs, name) {
  const found = [...logs.matchAll(new RegExp(`File "<${literal(name)}>", line (\\d+)`, "g"))].at(-1);
  if (!found) return null;
  const indent = found.index - logs.lastIndexOf("\n", found.index) - 1;
  const [, ...after] = logs.slice(found.index).split("\n");
  const error = after.find((each) => each.trim() && each.search(/\S/) < indent);
  return { line: Number(found[1]), message: error?.trim() ?? "error" };
}

function follow(task, run) {
  const callback = task.process?.callback ?? "__call__";
  const pre = h("pre", { class: "cm-s-default" });
  return h("li", {},
    h("details", { ontoggle: () => showCode(pre, pretty(task), "application/json") },
      h("summary", {}, h("b", {}, callback), " > ", h("span", { class: "url" }, task.url || "no URL")),
      pre,
    ),
    h("button", { type: "button", "aria-label": `run ${callback} of ${task.url}`, onclick: () => run(task) }, "Run"),
  );
}
