// The banners on every page: while maintenance is on, and once the session has ended.

import { ask, pace } from "./api.js";
import { byId, h } from "./dom.js";
import { when } from "./format.js";

const EVERY = 5000; // milliseconds between two looks
const KEPT = 1000; // events; the cluster keeps no more
const HOME = "/cluster/steering";

/** What each mode means for the slots. */
export const MODES = {
  off: "Slots move when members come and go, and are evened out.",
  on: "Slots are not evened out, and members that join get none. Those of members that drain, leave or die still move.",
  hold: "No slot moves, not even that of a dead member: its projects stand still until a member of its number is back.",
};

let shown = "off";
let wait = EVERY;

/** Show the banner if these settings of the cluster have maintenance on; hide it if not. */
export async function showMaintenance({ maintenance: mode }) {
  if (mode === shown) return;
  shown = mode;
  const box = byId("maintenance");
  if (mode !== "off") {
    const order = await lastOrder();
    if (mode !== shown) return; // it has changed meanwhile
    const link = location.pathname !== HOME && [" ", h("a", { href: HOME }, "Change it")];
    box.replaceChildren(h("strong", {}, mode === "hold" ? "Maintenance, on hold: " : "Maintenance: "), MODES[mode], order && ` ${sentence(order)}`, ...(link || []));
  }
  box.hidden = mode === "off";
}

const sentence = ({ at, who }) => `Since ${when(at)}${who && `, by ${who}`}.`;

/** Return the event of the order that stands; undefined if the log has lost it. */
async function lastOrder() {
  try {
    const { items } = await ask("/events", { query: { limit: KEPT } });
    return items.findLast((each) => each.kind === "maintenance");
  } catch {
    return undefined; // the page itself says what does not answer
  }
}

async function look() {
  const paused = byId("pause").dataset.paused === "true";
  if (!paused && !document.hidden) {
    const fault = await ask("/settings").then(showMaintenance).catch((error) => error); // the page itself says what does not answer
    byId("ended")?.toggleAttribute("hidden", fault?.status !== 401);
    wait = pace(wait, EVERY, fault);
  }
  setTimeout(look, wait);
}

look();
