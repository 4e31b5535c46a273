// Descriptions of a batch.

import { count, plural } from "./format.js";

const COLOURS = { pending: "", running: "accent", done: "good", failed: "bad", cancelled: "warn" };

export const ended = (batch) => !["pending", "running"].includes(batch.state);

export const state = (batch) => [batch.state, COLOURS[batch.state] ?? ""];

/** Names with their values. Anybody may have written them: an object need not be able to become text. */
export const named = (values) =>
  Object.entries(values).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`);

export const about = (batch) => [batch.operation, ...named(batch.arguments)].join(", ");

/** The projects of a batch: what they were chosen by, or their names, the first of them. */
export function projects({ selection: { names, ...others }, total }) {
  const first = Array.isArray(names) ? [`${names.join(", ")}${total > names.length ? ", …" : ""}`] : [];
  return [...first, ...named(others)].join(", ") || "by name";
}

export function summary(batch) {
  const parts = [`${batch.operation}: ${count(batch.done)} of ${plural(batch.total, "project")} done`];
  if (batch.failed) parts.push(`${count(batch.failed)} failed`);
  if (batch.state === "cancelled") parts.push("then cancelled");
  return parts.join(", ");
}
