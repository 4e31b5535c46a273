// Asking before something is done.

import { byId, h } from "./dom.js";

/**
 * Show a form in the page's dialog. content: nodes; confirm: the button's word.
 * accept(form) is called with the form when it is sent; what it raises is shown and the dialog
 * stays. typed: what must be typed first. Resolves with what accept gives, or undefined.
 */
export function dialog({ title, content, confirm, danger = false, typed, accept }) {
  const box = byId("dialog");
  return new Promise((resolve) => {
    const fault = h("p", { class: "fault", role: "alert" });
    const go = h("button", { type: "submit", class: `primary${danger ? " danger" : ""}` }, confirm);
    const proof = typed ? h("input", { type: "text", name: "typed", autocomplete: "off", spellcheck: "false" }) : null;
    const cancel = h("button", { type: "button", onclick: () => box.close() }, "Cancel");
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
        cancel,
        go,
      ),
    );
    async function send(event) {
      event.preventDefault();
      const stay = (closing) => closing.preventDefault(); // what was sent cannot be taken back
      go.disabled = cancel.disabled = true;
      box.addEventListener("cancel", stay);
      fault.textContent = "";
      try {
        result = await accept(form);
        if (form.isConnected) box.close(); // a browser closes it at a second Escape all the same
      } catch (error) {
        fault.textContent = error.message;
        check();
      } finally {
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
