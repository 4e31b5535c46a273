// Orders to the whole cluster. Each says what will happen and asks first; each resolves with the
// API's answer, or undefined if nothing was done.

import { ask, post } from "./api.js";
import { MODES } from "./banner.js";
import { alone, dialog, notice } from "./dialog.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { movesContent } from "./moves.js";

const text = (...words) => h("p", {}, ...words);
const fault = (...words) => h("p", { class: "fault" }, ...words);

/** Ask for confirmation, by a dialog that `request` shows, once it is known what would move. */
function confirmMoves(title, query, request) {
  return alone(async () => {
    let plan;
    try {
      plan = await ask("/assignment/preview", { query });
    } catch (error) {
      return notice(`Cannot ${title}`, fault(error.message));
    }
    return request(plan);
  });
}

/** members: those that run now. */
export async function drain(number, members) {
  const member = members.find((each) => each.number === number);
  if (!member) return notice(`Member ${number} is not running any more`);
  const others = members.filter((each) => each.number !== number && !each.draining).length;
  return confirmMoves(`drain member ${number}`, { leaves: number }, (plan) => dialog({
    title: `Drain member ${number}?`,
    content: [
      text(`Its ${plural(member.slots, "slot")} move to ${plural(others, "other member")}; then its process (${member.host}, ${member.pid}) ends. A supervisor may start it again. This cannot be undone.`),
      movesContent(plan),
      !others && fault("There is no other member: its projects pause until one joins."),
      others > 0 && member.slots > 0 && !plan.total && fault(`${HELD} On hold its process ends at once, and they wait for its number.`),
    ],
    confirm: `Drain member ${number}`,
    busy: "Draining…",
    danger: true,
    accept: () => post(`/members/${number}/drain`, { incarnation: member.incarnation }),
  }));
}

const HELD = "No slot moves now: maintenance holds them, or nobody can take them. They move once that is over.";

/** member: as the page shows it; one that does not run has `gone`. */
export function evict(member) {
  const { number } = member;
  const request = (plan) => dialog({
    title: `Evict member ${number}?`,
    content: [
      text(member.gone ? "It does not run. A member that takes this number gets no slots until it is admitted." : `Its ${plural(member.slots, "slot")} move to others, without asking it. Its process runs on and gets no slots until it is admitted.`),
      plan && movesContent(plan),
      plan && member.slots > 0 && !plan.total && fault(HELD),
    ],
    confirm: `Evict member ${number}`,
    danger: true,
    accept: () => post(`/members/${number}/evict`, {}),
  });
  if (member.gone) return request(null);
  return confirmMoves(`evict member ${number}`, { leaves: number }, request);
}

export const admit = ({ number }) =>
  dialog({
    title: `Admit member ${number}?`,
    content: text("It may get slots again: the leader moves some to it, unless maintenance is on."),
    confirm: `Admit member ${number}`,
    accept: () => post(`/members/${number}/evict`, { undo: true }),
  });

const MAINTENANCE = { off: "End maintenance", on: "Turn maintenance on", hold: "Hold all slots" };

/** mode: off, on or hold. */
export function maintain(mode) {
  const request = (plan) => dialog({
    title: `${MAINTENANCE[mode]}?`,
    content: [
      text(MODES[mode]),
      plan && text(plan.total ? `${plural(plan.total, "slot")} will move at once:` : "No slot will move at once."),
      plan && movesContent(plan),
    ],
    confirm: MAINTENANCE[mode],
    danger: mode === "hold",
    accept: () => post("/maintenance", { mode }),
  });
  if (mode !== "off") return request(null);
  return confirmMoves("end maintenance", { without_maintenance: true }, request);
}

/** maintenance: the mode now. Resolves with the beginning progress. */
export function rebalance(maintenance) {
  return confirmMoves("rebalance", { without_maintenance: true }, (plan) => {
    if (!plan.total) return notice("Nothing would move", text("The slots are as even as they can be."));
    const suspended = maintenance !== "off" && text("Maintenance is suspended while they move, and goes on then.");
    return dialog({
      title: `Move ${plural(plan.total, "slot")}?`,
      content: [text("Owners hand them over one after the other; nothing is fetched twice."), movesContent(plan), suspended],
      confirm: `Move ${plural(plan.total, "slot")}`,
      accept: () => post("/assignment/rebalance", { plan: plan.digest }),
    });
  });
}

/** owner: of the slot now, or null; until: what must happen before it can move, or empty. */
export function pin(slot, number, owner, until) {
  const source = owner === null ? "nobody" : `member ${owner}`;
  const moves = owner === number ? "It is there, and stays." : `It moves there from ${source} ${until ? `once ${until}` : "now"}.`;
  return dialog({
    title: `Pin slot ${slot} to member ${number}?`,
    content: text(moves, " All projects of the slot go with it. Whenever that member is away, the slot is elsewhere."),
    confirm: `Pin slot ${slot}`,
    accept: () => post(`/slots/${slot}/pin`, { member: number }),
  });
}

export const unpin = (slot, number) =>
  dialog({
    title: `Unpin slot ${slot}?`,
    content: text(`It need not be at member ${number} any more: the leader may move it to even out the slots.`),
    confirm: `Unpin slot ${slot}`,
    accept: () => post(`/slots/${slot}/pin`, { member: null }),
  });
