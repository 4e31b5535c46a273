// The dialog that asks for confirmation, or only tells something.

import { isUnclear } from "./api.js";
import { byId, h, say } from "./dom.js";

let isOrdering = false;

/** Have one order at a time prepared, confirmed and sent; undefined for another one meanwhile, of which nothing is done. */
export async function alone(order) {
  if (isOrdering) return undefined;
  isOrdering = true;
  document.body.classList.add("ordering");
  try {
    return await order();
  } finally {
    isOrdering = false;
    document.body.classList.remove("ordering");
  }
}

/**
 * Show a form in the page's dialog. content: nodes; confirm: the submit button's text, busy: its text
 * while accept runs; dismiss: the other button's, null for none. accept(form) is called when the form is submitted;
 * if it throws, the error is shown and the dialog stays. typed: what must be typed first. Resolves
 * with the result of accept, or undefined; at once if the dialog is open, for what is filled in there stays.
 */
export function dialog({ title, content, confirm, busy = confirm, dismiss = "Cancel", danger = false, typed, accept }) {
  const box = byId("dialog");
  if (box.open) return Promise.resolve();
  return new Promise((resolve) => {
    const fault = h("p", { class: "fault", role: "alert" });
    const go = h("button", { type: "submit", class: `primary${danger ? " danger" : ""}` }, confirm);
    const proof = typed ? h("input", { type: "text", name: "typed", autocomplete: "off", spellcheck: "false" }) : null;
    const cancel = h("button", { type: "button", onclick: () => box.close() }, dismiss);
    const check = () => {
      go.disabled = Boolean(typed) && proof.value.trim() !== typed.trim();
    };
    let result;
    let isSent = false;
    const form = h("form", { method: "dialog", onsubmit: send },
      h("h2", { id: "dialog-title" }, title),
      content,
      typed && h("label", {}, h("span", {}, "Type ", h("strong", {}, typed), " to confirm"), proof),
      fault,
      h("div", { class: "buttons" },
        dismiss && cancel,
        go,
      ),
    );
    async function send(event) {
      event.preventDefault();
      const stay = (closing) => closing.preventDefault(); // a request that was sent cannot be withdrawn
      const isShown = () => box.open && form.isConnected; // a second Escape closes it anyway
      isSent = go.disabled = cancel.disabled = true;
      say(go, busy);
      box.addEventListener("cancel", stay);
      fault.textContent = "";
      try {
        result = await accept(form);
        if (isShown()) box.close();
        else resolve(result);
      } catch (error) {
        fault.textContent = isUnclear(error) ? `${error.message}: it is not known whether this was done` : error.message;
        check();
        if (!isShown()) resolve(notice(title.replace("?", ""), fault));
      } finally {
        say(go, confirm);
        isSent = cancel.disabled = false;
        box.removeEventListener("cancel", stay);
      }
    }
    proof?.addEventListener("input", check);
    check();
    box.setAttribute("aria-labelledby", "dialog-title");
    box.replaceChildren(form);
    box.addEventListener("close", () => isSent || resolve(result), { once: true });
    box.showModal();
    const first = form.querySelector("input:not([type=checkbox]), select") ?? (dismiss ? cancel : go);
    first.focus(); // it may open while somebody types elsewhere: Enter and space then confirm nothing
  });
}

/** Wait until the dialog is free. */
export async function free() {
  const box = byId("dialog");
  while (box.open) await new Promise((resolve) => box.addEventListener("close", resolve, { once: true }));
}

/** Tell something in the page's dialog, once it is free; resolves once it is closed. */
export async function notice(title, ...content) {
  await free();
  return dialog({ title, content, confirm: "Close", dismiss: null, accept: () => undefined });
}
