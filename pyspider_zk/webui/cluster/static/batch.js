// Descriptions of a batch.

import { count, plural } from "./format.js";

const COLOURS = { pending: "", running: "accent", done: "good", failed: "bad", cancelled: "warn" };

export const ended = (batch) => !["pending", "running"].includes(batch.state);

export const state = (batch) => [batch.state, COLOURS[batch.state] ?? ""];

export function about(batch) {
  const values = Object.entries(batch.arguments).map(([name, value]) => `${name} ${value}`);
  return [batch.operation, ...values].join(", ");
}

export function summary(batch) {
  const parts = [`${batch.operation}: ${count(batch.done)} of ${plural(batch.total, "project")} done`];
  if (batch.failed) parts.push(`${count(batch.failed)} failed`);
  if (batch.state === "cancelled") parts.push("then cancelled");
  return parts.join(", ");
}
