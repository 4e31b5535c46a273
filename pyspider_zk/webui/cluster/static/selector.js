// CSS selectors of an element, as steps from the root to it, of which some features are chosen.

import { attribute, localName } from "./hostile-dom.js";

const MOST = 8; // features of an element
const NAMED = ["rel", "property", "itemprop"];
const ADDED = "tbody"; // by browsers, where a script finds none

const quoted = (text) => `"${text.replace(/["\\\n\r\f]/g, (each) => CSS.escape(each))}"`;

/** Return a step for an element: { element, isChosen, features: [{ pattern, isChosen }] }, all chosen. */
export function stepOf(element) {
  const [id, classes] = ["id", "class"].map((name) => attribute(element, name) ?? "");
  const patterns = [
    CSS.escape(localName(element)),
    ...(id ? [`#${CSS.escape(id)}`] : []),
    ...classes.split(/[ \t\n\f\r]+/).filter(Boolean).map((each) => `.${CSS.escape(each)}`),
    ...NAMED.filter((name) => attribute(element, name) !== null).map((name) => `[${name}=${quoted(attribute(element, name))}]`),
  ].slice(0, MOST);
  return { element, isChosen: localName(element) !== ADDED, features: patterns.map((pattern) => ({ pattern, isChosen: true })) };
}

/** Return the selector of what is chosen. */
export function selectorOf(steps) {
  const chosen = steps.map((step, place) => {
    if (!step.isChosen) return "";
    const features = step.features.filter((each) => each.isChosen).map((each) => each.pattern);
    return `${steps[place - 1]?.isChosen ? "> " : ""}${features.join("") || "*"}`;
  });
  return chosen.filter(Boolean).join(" ") || "*";
}

/** Choose as few steps and features as select the same elements. select(selector) returns elements. */
export function shorten(steps, select) {
  const drop = (part, path) => {
    const before = select(selectorOf(path));
    part.isChosen = false;
    const after = select(selectorOf(path));
    part.isChosen = before.length !== after.length || before.some((each, place) => each !== after[place]);
  };
  const chosen = steps.filter((each) => each.isChosen);
  for (const step of chosen) {
    for (const feature of step.features) drop(feature, steps.slice(0, steps.indexOf(step) + 1));
    if (!step.features.some((each) => each.isChosen)) step.features[0].isChosen = true;
  }
  for (const step of chosen) drop(step, steps);
}
