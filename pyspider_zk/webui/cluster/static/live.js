// Updates of a page, and the display of its age and of what is missing.

import { pace } from "./api.js";
import { byId, differs, h, say } from "./dom.js";
import { age } from "./format.js";

const EVERY = 2000; // milliseconds
const OLD = 10; // seconds more than that; older is not "live"

/**
 * Poll, unless paused or hidden. The last data stays when a request fails.
 *
 * load() returns data; its `missing`, or the error, is shown at the top of the page. The age is that
 * of the last response in which nothing was missing, or the data's own, `read`. every: milliseconds between a response and the
 * next request; after a time-out they are more.
 */
export function live(load, show, every = EVERY) {
  const state = { paused: false, at: null, some: false, missing: [], asking: false, again: false, changed: false, due: false, wait: every, timer: 0 };
  const pause = byId("pause");

  async function turn() {
    clearTimeout(state.timer);
    if (state.asking) return;
    let fault;
    state.asking = true;
    state.due = false;
    try {
      const data = await load();
      if (!state.again) {
        state.missing = data.missing ?? [];
        state.some = true;
        state.changed = false;
        if (!state.missing.length) state.at = data.read === undefined ? Date.now() : data.read;
        show(data);
      }
    } catch (error) {
      fault = error;
      state.missing = [error.message];
      if (!("status" in error)) console.error(error);
    }
    state.asking = false;
    state.wait = pace(state.wait, every, fault);
    showAge();
    if (state.again) {
      state.again = false;
      turn();
    } else {
      state.timer = setTimeout(next, state.wait);
    }
  }

  /** Ask, or once somebody looks again. */
  function next() {
    state.due = state.paused || document.hidden;
    if (!state.due) turn();
  }

  function showAge() {
    const seconds = state.at === null ? null : (Date.now() - state.at) / 1000;
    const partial = state.missing.length > 0;
    const stale = partial || seconds === null || seconds > OLD + (every - EVERY) / 1000;
    const word = state.paused ? "paused" : partial ? "partial" : stale ? "not up to date" : "live";
    const badge = byId("freshness");
    badge.className = `freshness ${state.paused ? "paused" : stale ? "stale" : "live"}`;
    if (seconds !== null) say(badge, `${word} · ${age(seconds)} old`);
    else say(badge, state.some ? word : partial ? "no data yet" : "loading");
    report(state);
  }

  pause.addEventListener("click", () => {
    state.paused = !state.paused;
    pause.dataset.paused = state.paused;
    say(pause, state.paused ? "Resume" : "Pause");
    if (state.paused) showAge();
    else turn();
  });
  document.addEventListener("visibilitychange", () => {
    if (state.due) next();
  });
  setInterval(showAge, 1000);
  turn();
  return {
    /** Request at once; the query may have changed. */
    refresh() {
      state.changed = true;
      state.again = state.asking; // what is on its way answers the query before
      turn();
    },
  };
}

function report({ missing, some, changed }) {
  const box = byId("missing");
  const known = changed ? " Below is the previous data." : " Below is the last known data.";
  const text = `${missing.map((each) => each.replace(/\.$/, "")).join("; ")}.${some ? known : ""}`;
  box.hidden = !missing.length;
  if (differs(box, text)) box.replaceChildren(...(missing.length ? [h("strong", {}, "Missing: "), text] : []));
}
