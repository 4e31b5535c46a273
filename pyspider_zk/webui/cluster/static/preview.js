// What was fetched, in a frame in which nothing of it runs, and from which nothing leads on.
//
// The policy of /blank.html forbids scripts and frames; what is taken out here is what it would complain of. A proxy
// may answer in its place, without a policy, so the frame is given one. The frame keeps allow-scripts: without it Safari hears no press in it (WebKit bug 218086).

import { pretty } from "./code-editor.js";
import { h } from "./dom.js";

const SANDBOX = "allow-same-origin allow-scripts";
const POLICY = "script-src 'none'; object-src 'none'; frame-src 'none'";
const TEXT = /^text\/|\b(json|xml|javascript)\b/;

/** Return the media type of what was fetched. */
export function typeOf({ headers }) {
  const [, type = "text/plain"] = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === "content-type") ?? [];
  return String(type).toLowerCase();
}

/** Show it in a box; resolve with the frame's document if it is a page, with null if not. */
export async function showFetched(box, fetched) {
  const frame = h("iframe", { src: "/blank.html", sandbox: SANDBOX, title: "What was fetched" });
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
  box.replaceChildren(frame);
  await loaded; // before, the frame has this page's policy
  const { contentDocument: shown, contentWindow: view } = frame;
  if (!shown) return null; // the next step's has taken its place
  shown.head.append(Object.assign(shown.createElement("meta"), { httpEquiv: "Content-Security-Policy", content: POLICY }));
  shown.addEventListener("click", (event) => event.preventDefault());
  if (typeOf(fetched).startsWith("text/html")) {
    shown.replaceChild(shown.adoptNode(page(view, fetched)), shown.documentElement);
    return shown;
  }
  shown.body.append(fetched.dataurl ? picture(shown, fetched.dataurl) : text(shown, fetched));
  return null;
}

/** Parse a page in its frame: what this page parses has this page's policy, which refuses its styles. */
function page(view, { content, url }) {
  const parsed = new view.DOMParser().parseFromString(content ?? "", "text/html");
  for (const each of parsed.querySelectorAll("base, meta[http-equiv], meta[name=referrer i]")) each.remove();
  for (const each of parsed.querySelectorAll("[referrerpolicy]")) each.removeAttribute("referrerpolicy"); // no site learns our address
  for (const each of parsed.querySelectorAll("iframe, frame, object, embed"))
    for (const name of ["src", "srcdoc", "data"]) each.removeAttribute(name);
  if (/^https?:/i.test(url)) parsed.head.prepend(Object.assign(parsed.createElement("base"), { href: url }));
  return parsed.documentElement;
}

const picture = (shown, src) => Object.assign(shown.createElement("img"), { src });

function text(shown, fetched) {
  const pre = shown.createElement("pre");
  pre.style.whiteSpace = "pre-wrap";
  pre.textContent = TEXT.test(typeOf(fetched)) ? laidOut(fetched) : `This is ${typeOf(fetched)}, which is not shown.`;
  return pre;
}

function laidOut(fetched) {
  if (!typeOf(fetched).includes("json")) return fetched.content ?? "";
  try {
    return pretty(JSON.parse(fetched.content));
  } catch {
    return fetched.content;
  }
}
