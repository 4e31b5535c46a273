// Operations on the rows of pyspider's dashboard.

import { ask, newId, post } from "./api.js";
import { summary } from "./batch.js";
import { dialog } from "./dialog.js";
import { h, say } from "./dom.js";
import { deletionArguments, deletionContent, follow } from "./operating.js";

const OPERATIONS = ["start", "stop", "restart", "delete"];

const title = (operation) => operation[0].toUpperCase() + operation.slice(1);

const said = h("p", { class: "cluster-said text-muted", role: "status" });

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
  const id = newId(); // sent again with the same id it is done once
  const send = (args) => post("/batches", { operation, names: [name], arguments: args, id });
  let batch;
  try {
    batch = operation === "delete" ? await askDelete(name, send) : await send({});
  } catch (error) {
    say(said, `Cannot ${operation} ${name}: ${error.message}`);
  }
  if (!batch) return;
  const { state } = await follow(batch, tell);
  if (operation === "delete" && state === "done" && !batch.arguments.wait) row.remove();
  else await refresh(row);
}

const askDelete = (name, send) =>
  dialog({
    title: `Delete ${name}?`,
    content: deletionContent(),
    confirm: "Delete",
    danger: true,
    typed: name,
    accept: (form) => send(deletionArguments(form)),
  });

function tell(batch, fault) {
  const faults = [...Object.entries(batch.errors).map(([name, reason]) => `${name}: ${reason}`), ...(fault ? [fault.message] : [])];
  say(said, [summary(batch), ...faults].join("; "));
}

/** Show the row as it is now; pyspider's script draws what changes in its `projects`. */
async function refresh(row) {
  const { name } = row.dataset;
  try {
    const { status, group } = await ask(`/projects/${encodeURIComponent(name)}`);
    Object.assign(projects.find((each) => each.name === name), { status, group });
  } catch (error) {
    say(said, `${said.textContent}; its row may be old: ${error.message}`);
  }
}

// pyspider's script makes the rows out of a template when jQuery says so, and it asked first.
$(() => {
  for (const row of document.querySelectorAll("table.projects tr[data-name]"))
    row.querySelector(".project-actions").append(menu(row));
  document.querySelector("table.projects").before(said);
  document.body.append(h("dialog", { id: "dialog" }));
});
