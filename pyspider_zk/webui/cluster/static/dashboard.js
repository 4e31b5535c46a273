// Operations on the rows of pyspider's dashboard.

import { ask, newId, post } from "./api.js";
import { summary } from "./batch.js";
import { dialog } from "./dialog.js";
import { h, say } from "./dom.js";
import { deletionArguments, deletionContent, follow } from "./operating.js";

const OPERATIONS = ["start", "stop", "restart", "delete"];

const title = (operation) => operation[0].toUpperCase() + operation.slice(1);

const message = h("p", { class: "cluster-message text-muted", role: "status" });

function menu(row) {
  const entries = OPERATIONS.map((operation) =>
    h("li", {}, h("a", { href: "#", "data-operation": operation, onclick: (event) => { event.preventDefault(); operate(operation, row); } }, title(operation))),
  );
  // Opened and closed by Bootstrap.
  return h("span", { class: "btn-group" },
    h("button", { type: "button", class: "btn btn-default btn-xs dropdown-toggle", "data-toggle": "dropdown", "aria-haspopup": "true", "aria-label": `operations on ${row.dataset.name}` }, "More ", h("span", { class: "caret" })),
    h("ul", { class: "dropdown-menu dropdown-menu-right" }, entries),
  );
}

async function operate(operation, row) {
  const { name } = row.dataset;
  const id = newId(); // a repeated request with the same id is done once
  const send = (args) => post("/batches", { operation, names: [name], arguments: args, id });
  let batch;
  try {
    batch = operation === "delete" ? await confirmDelete(name, send) : await send({});
  } catch (error) {
    say(message, `Cannot ${operation} ${name}: ${error.message}`);
  }
  if (!batch) return;
  const { state } = await follow(batch, showProgress);
  if (operation === "delete" && state === "done" && !batch.arguments.wait) row.remove();
  else await refresh(row);
}

const confirmDelete = (name, send) =>
  dialog({
    title: `Delete ${name}?`,
    content: deletionContent(),
    confirm: `Delete ${name}`,
    busy: "Deleting…",
    danger: true,
    typed: name,
    accept: (form) => send(deletionArguments(form)),
  });

function showProgress(batch, fault) {
  const faults = [...Object.entries(batch.errors).map(([name, reason]) => `${name}: ${reason}`), ...(fault ? [fault.message] : [])];
  say(message, [summary(batch), ...faults].join("; "));
}

/** Update the row; pyspider's script redraws what changes in its `projects`. */
async function refresh(row) {
  const { name } = row.dataset;
  try {
    const { status, group } = await ask(`/projects/${encodeURIComponent(name)}`);
    Object.assign(projects.find((each) => each.name === name), { status, group });
  } catch (error) {
    say(message, `${message.textContent}; its row may be outdated: ${error.message}`);
  }
}

// pyspider's script creates the rows in a jQuery callback that was registered before this one.
$(() => {
  for (const row of document.querySelectorAll("table.projects tr[data-name]"))
    row.querySelector(".project-actions").append(menu(row));
  document.querySelector("table.projects").before(message);
  document.body.append(h("dialog", { id: "dialog" }));
});
