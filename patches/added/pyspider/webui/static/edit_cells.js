// The form that opens at a click on a project's group, status or rate on the dashboard.
// Added by pyspider-zk, in place of x-editable, which nobody maintains any more.

const STATES = ["TODO", "STOP", "CHECKING", "DEBUG", "RUNNING"];
const CELLS = ".project-group > span, .project-status > span, .project-rate > span";

/** Let the cells of the table be edited; what is saved is written into the row's data, too. */
function editCells(projects) {
  const table = document.querySelector("table.projects");
  const edit = (event) => {
    const cell = event.target.closest(CELLS);
    if (!cell || (event.type === "keydown" && event.key !== "Enter")) return;
    event.preventDefault();
    openForm(cell, projects[cell.closest("tr").dataset.name]);
  };
  table.addEventListener("click", edit);
  table.addEventListener("keydown", edit);
  document.addEventListener("mousedown", (event) => {
    if (!event.target.closest(".cell-form")) closeForm();
  });
}

function closeForm() {
  document.querySelector(".cell-form")?.remove();
}

function openForm(cell, project) {
  closeForm();
  const name = cell.parentElement.className.match(/project-(group|status|rate)/)[1];
  const form = element("form", { className: "cell-form" });
  const field = name === "status" ? choice(STATES) : element("input", { type: "text", className: "form-control input-sm" });
  field.value = valueOf(name, project);
  field.setAttribute("aria-label", `${name} of ${project.name}`);
  const cancel = element("button", { type: "button", className: "btn btn-default btn-sm", textContent: "Cancel", onclick: closeForm });
  const fault = element("p", { className: "fault" });
  fault.setAttribute("role", "alert");
  form.append(field, element("button", { type: "submit", className: "btn btn-primary btn-sm", textContent: "Save" }), cancel, fault);
  form.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") closeForm();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fault.textContent = await save(name, field.value.trim(), project);
    if (!fault.textContent) form.remove();
  });
  cell.after(form);
  field.focus();
}

/** Save a value; return what is wrong with it, or nothing. */
async function save(name, value, project) {
  const [rate, burst, ...rest] = value.split("/").map((each) => (each.trim() === "" ? NaN : Number(each)));
  if (name === "rate" && (rest.length || !Number.isFinite(rate) || !Number.isFinite(burst))) return "format error: rate/burst";
  try {
    const body = new URLSearchParams({ pk: project.name, name, value });
    const answer = await fetch("/update", { method: "POST", body });
    if (!answer.ok) return (await answer.text()).slice(0, 300) || answer.statusText || "it was refused";
  } catch (error) {
    return `the web UI does not answer: ${error.message}`;
  }
  Object.assign(project, name === "rate" ? { rate, burst } : { [name]: value });
  return "";
}

const valueOf = (name, project) => (name === "rate" ? `${project.rate}/${project.burst}` : project[name] || "");

const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

function choice(values) {
  const select = element("select", { className: "form-control input-sm" });
  select.append(...values.map((each) => new Option(each, each)));
  return select;
}
