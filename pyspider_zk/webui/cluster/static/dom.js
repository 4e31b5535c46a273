// Elements. Data becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      node.setAttribute(name, value);
  }
  node.append(...children.flat(2).filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

/** Make an HTML element; children are nodes or text. */
export function h(tag, attributes, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function s(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Lead the eye and the keyboard to a heading, which has a tabindex. */
export function lead(heading) {
  heading.scrollIntoView({ block: "nearest" });
  heading.focus({ preventScroll: true });
}

/** Tell whether a node is to show something else than when this was asked last; what is the same stays, and what is open or selected in it. */
export function differs(node, shown) {
  const sign = JSON.stringify(shown);
  const isOther = node.dataset.sign !== sign;
  node.dataset.sign = sign;
  return isOther;
}

/** Set the text if it differs, so that a selection within it stays. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
