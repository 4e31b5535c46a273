// Tabs: one of several panels is seen.

import { byId } from "./dom.js";

export function tabs(list) {
  const all = [...list.querySelectorAll("[role=tab]")];
  const select = (tab) => {
    for (const each of all) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      byId(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
  };
  for (const each of all) each.addEventListener("click", () => select(each));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = all.at((all.indexOf(document.activeElement) + step) % all.length);
    select(next);
    next.focus();
  });
  select(all[0]);
}
