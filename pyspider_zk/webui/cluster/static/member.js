// Descriptions of a member, as several pages show it.

import { count, percent, rate } from "./format.js";
import { badges } from "./tiles.js";

/** The words for what a member is doing; `evicted` and `pins` are not in every answer. */
function states(member) {
  return [
    member.leader && ["leader", "accent"],
    member.gone && ["not running", "bad"],
    member.draining && ["draining", "warn"],
    member.evicted && ["evicted", "warn"],
    member.suspect && ["suspect", "bad"],
    ...(member.away ?? []).map((name) => [`${name} unavailable`, "bad"]),
    member.quarantined > 0 && [`${count(member.quarantined)} in quarantine`, "warn"],
    !member.gone && !member.draining && !member.evicted && !member.suspect && ["alive", "good"],
  ].filter(Boolean);
}

// Columns; of a number that no member has, everything is unknown.

const known = (show) => (each) => (each.gone ? "–" : show(each));

export const NAME = { title: "Member", cls: "first", show: (each) => ({ text: each.name ? `${each.number} (${each.name})` : String(each.number), href: `/cluster/projects?owner=${each.number}`, title: "its projects" }) };
export const STATE = { title: "State", show: (each) => badges(states(each)) };
export const SLOTS = { title: "Slots", cls: "num", show: known((each) => count(each.slots)) };
export const PROJECTS = { title: "Projects", cls: "num", show: known((each) => count(each.projects)) };
export const PENDING = { title: "Pending", cls: "num", show: known((each) => count(each.pending)), about: "tasks in memory" };
export const RATE = { title: "Tasks/s", cls: "num", show: known((each) => rate(each.tasks_per_s)), about: "tasks that ended, over the last 10 seconds" };
export const CPU = { title: "CPU", cls: "num", show: known((each) => percent(each.cpu)), about: "of one CPU core, over the last 10 seconds" };
export const LEASE = { title: "Lease age", cls: "num", show: known((each) => ({ text: `${each.lease_age.toFixed(1)} s`, cls: each.suspect ? "bad" : "" })), about: "since this web UI first saw the current renewal; the lease is at least that old" };
export const HOST = { title: "Host", show: known((each) => ({ text: each.host, title: `process ${each.pid}` })) };
