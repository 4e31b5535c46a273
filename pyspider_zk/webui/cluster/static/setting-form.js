// The form of the cluster-wide settings. What somebody types stays while the page is updated.
// It fires "saved": a response that was asked for before is out of date then.

import { isUnclear, post } from "./api.js";
import { byId, say } from "./dom.js";

const form = byId("settings");
const fields = [...form.querySelectorAll("input, select")];
const told = byId("settings-told");
const save = byId("save-settings");
let isSending = false;

const dirty = (field) => field.value.trim() !== field.dataset.stands;
const edited = () => fields.filter(dirty);

/** Show the settings, except in the fields that differ because somebody types. */
export function showSettings(settings) {
  for (const field of fields) {
    const value = String(settings[field.name] ?? "");
    const kept = field.dataset.stands !== undefined && dirty(field);
    field.dataset.stands = value;
    if (!kept) field.value = value;
  }
  check();
}

function check() {
  save.disabled = isSending || !edited().length;
  byId("discard-settings").disabled = save.disabled;
}

/** The value for the API, which judges it: what is no number is sent as it is. */
function given(text) {
  if (!text) return null;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

function blame(faults) {
  for (const field of fields) {
    const fault = [faults[field.name] ?? []].flat().join(" ");
    say(byId(`fault-${field.name}`), fault);
    field.setAttribute("aria-invalid", String(Boolean(fault)));
  }
  fields.find((field) => faults[field.name])?.focus();
}

async function send() {
  const sent = new Map(edited().map((field) => [field, field.value.trim()]));
  const body = Object.fromEntries([...sent].map(([field, text]) => [field.name, given(text)]));
  say(told, "Saving…");
  isSending = true;
  check();
  try {
    const settings = await post("/settings", body);
    for (const [field, text] of sent) field.dataset.stands = text; // what was typed meanwhile differs from it, and stays
    showSettings(settings);
    blame({});
    say(told, "Saved. All schedulers take it over within moments.");
    form.dispatchEvent(new Event("saved"));
  } catch (error) {
    blame(error.fields ?? {});
    const known = fields.some((field) => error.fields?.[field.name]);
    const outcome = isUnclear(error) ? "It is not known whether anything was changed" : "Nothing was changed";
    say(told, `${outcome}: ${known ? "see the field." : error.message}`);
  }
  isSending = false;
  check();
}

form.addEventListener("input", check);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!save.disabled) send();
});
form.addEventListener("reset", (event) => {
  event.preventDefault();
  for (const field of fields) field.value = field.dataset.stands ?? "";
  blame({});
  say(told, "");
  check();
});
