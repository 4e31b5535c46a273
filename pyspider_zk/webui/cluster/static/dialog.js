// The dialog that asks for confirmation, or only tells something.

import { byId, h, say } from "./dom.js";

/**
 * Show a form in the page's dialog. content: nodes; confirm: the submit button's text, busy: its text
 * while accept runs; dismiss: the other button's, null for none. accept(form) is called when the form is submitted;
 * if it throws, the error is shown and the dialog stays. typed: what must be typed first. Resolves
 * with the result of accept, or undefined.
 */
export function dialog({ title, content, confirm, busy = confirm, dismiss = "Cancel", danger = false, typed, accept }) {
  const box = byId("dialog");
  return new Promise((resolve) => {
    const fault = h("p", { class: "fault", role: "alert" });
    const go = h("button", { type: "submit", class: `primary${danger ? " danger" : ""}` }, confirm);
    const proof = typed ? h("input", { type: "text", name: "typed", autocomplete: "off", spellcheck: "false" }) : null;
    const cancel = h("button", { type: "button", onclick: () => box.close() }, dismiss);
    const check = () => {
      go.disabled = Boolean(typed) && proof.value.trim() !== typed;
    };
    let result;
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
      go.disabled = cancel.disabled = true;
      say(go, busy);
      box.addEventListener("cancel", stay);
      fault.textContent = "";
      try {
        result = await accept(form);
        if (form.isConnected) box.close(); // a second Escape closes it anyway
      } catch (error) {
        fault.textContent = error.message;
        check();
      } finally {
        say(go, confirm);
        cancel.disabled = false;
        box.removeEventListener("cancel", stay);
      }
    }
    proof?.addEventListener("input", check);
    check();
    box.setAttribute("aria-labelledby", "dialog-title");
    box.replaceChildren(form);
    box.addEventListener("close", () => resolve(result), { once: true });
    box.showModal();
    (form.querySelector("input:not([type=checkbox])") ?? go).focus();
  });
}

/** Tell something in the page's dialog; resolves once it is closed. */
export const notice = (title, ...content) => dialog({ title, content, confirm: "Close", dismiss: null, accept: () => undefined });
