// Who else works at a script: it knows of it by the events of runs and saves.

import { ask, now, pace } from "./api.js";
import { say } from "./dom.js";
import { age } from "./format.js";

const EVERY = 15000; // milliseconds
const LATELY = 600; // seconds

/** Tell in a badge who else has run or saved a project's script lately. me: who is logged in; "": nobody. */
export function tellColleagues(badge, project, me) {
  async function look() {
    if (document.hidden) return;
    const query = { group: "scripts", q: JSON.stringify(project), since: now() - LATELY, limit: 100 };
    const { items } = await ask("/events/archive", { query });
    const theirs = items.filter(({ who, data }) => who && who !== me && data.projects?.includes?.(project));
    const latest = new Map(theirs.reverse().map((each) => [each.who, `${each.who}, ${age(now() - each.at)} ago`]));
    show([...latest.keys()], [...latest.values()].join("; "));
  }

  /** Tell names, which is heard when they change, and since when in a hint. */
  function show(names, since) {
    say(badge, names.length ? `also at it: ${names.sort().join(", ")}` : "");
    badge.title = since;
    badge.hidden = !names.length;
  }

  async function turn(wait) {
    const fault = await look().catch((error) => error);
    if (fault) show([], ""); // what a save needs to know, it asks itself
    const next = pace(wait, EVERY, fault);
    setTimeout(turn, next, next);
  }

  turn(EVERY);
}
