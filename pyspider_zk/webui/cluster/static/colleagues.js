// Who else works at a script: it knows of it by the events of runs and saves.

import { ask } from "./api.js";
import { say } from "./dom.js";
import { age } from "./format.js";

const EVERY = 15000; // milliseconds
const LATELY = 600; // seconds

/** Tell in a badge who else has run or saved a project's script lately. me: who is logged in; "": nobody. */
export function tellColleagues(badge, project, me) {
  async function look() {
    if (document.hidden) return;
    const now = Date.now() / 1000;
    const { items } = await ask("/events/archive", { query: { group: "scripts", q: project, since: now - LATELY, limit: 100 } });
    const theirs = items.filter(({ who, data }) => who && who !== me && data.projects?.includes?.(project));
    const latest = new Map(theirs.reverse().map(({ who, at }) => [who, `${who}, ${age(now - at)} ago`]));
    say(badge, latest.size ? `also at it: ${[...latest.values()].join("; ")}` : "");
    badge.hidden = !latest.size;
  }

  const turn = () => look().catch(() => {}).then(() => setTimeout(turn, EVERY)); // what a save needs to know, it asks itself
  turn();
}
