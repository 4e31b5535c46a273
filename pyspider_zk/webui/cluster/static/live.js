// Keeping a page up to date, and telling how old it is and what is missing.

import { byId, h, say } from "./dom.js";
import { age } from "./format.js";

const EVERY = 2000; // milliseconds between an answer and the next question
const OLD = 10; // seconds; older than that is not "live"

/**
 * Ask again and again, unless paused or hidden. What is shown stays when no answer comes.
 *
 * load() gives data; `missing` in them, or the error, is said on top of the page. The age is that
 * of the last answer in which nothing was missing.
 */
export function live(load, show) {
  const state = { paused: false, at: null, some: false, missing: [], asking: false, again: false, changed: false, timer: 0 };
  const pause = byId("pause");

  async function turn() {
    clearTimeout(state.timer);
    if (state.asking) {
      state.again = true; // what was asked for has changed meanwhile
      return;
    }
    state.asking = true;
    try {
      const data = await load();
      if (!state.again) {
        state.missing = data.missing ?? [];
        state.some = true;
        state.changed = false;
        if (!state.missing.length) state.at = Date.now();
        show(data);
      }
    } catch (error) {
      state.missing = [error.message];
      if (!("status" in error)) console.error(error);
    }
    state.asking = false;
    tell();
    if (state.again) {
      state.again = false;
      turn();
    } else {
      state.timer = setTimeout(next, EVERY);
    }
  }

  function next() {
    if (!state.paused && !document.hidden) turn();
    else state.timer = setTimeout(next, EVERY);
  }

  function tell() {
    const seconds = state.at === null ? null : (Date.now() - state.at) / 1000;
    const partial = state.missing.length > 0;
    const stale = partial || seconds === null || seconds > OLD;
    const word = state.paused ? "paused" : partial ? "in part" : stale ? "not up to date" : "live";
    const badge = byId("freshness");
    badge.className = `freshness ${state.paused ? "paused" : stale ? "stale" : "live"}`;
    if (seconds !== null) say(badge, `${word} · ${age(seconds)} old`);
    else say(badge, state.some ? word : partial ? "no data yet" : "loading");
    report(state);
  }

  pause.addEventListener("click", () => {
    state.paused = !state.paused;
    pause.setAttribute("aria-pressed", String(state.paused));
    say(pause, state.paused ? "Resume" : "Pause");
    if (state.paused) tell();
    else turn();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !state.paused) turn();
  });
  setInterval(tell, 1000);
  turn();
  return {
    /** Ask at once; something else may be wanted than what is shown. */
    refresh() {
      state.changed = true;
      turn();
    },
  };
}

function report({ missing, some, changed }) {
  const box = byId("missing");
  const known = changed ? " Below is what was shown before you asked." : " What is known stays below.";
  const text = `${missing.map((each) => each.replace(/\.$/, "")).join("; ")}.${some ? known : ""}`;
  box.hidden = !missing.length;
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...(missing.length ? [h("strong", {}, "Missing: "), text] : []));
}
