import { editorPage, projectPage, read } from "./address.js";
import { ask } from "./api.js";
import { byId, differs, h, say } from "./dom.js";
import { count, inSeconds, until, when } from "./format.js";
import { live } from "./live.js";
import { refetch } from "./operating.js";
import { patternOf } from "./pattern.js";
import { alerts, tiles } from "./tiles.js";

const { project: name, id } = read({ project: "", id: "" });

async function load() {
  const [{ at, items, missing }, task] = await Promise.all([
    ask("/workload", { query: { pattern: patternOf(name) } }),
    ask("/task", { query: { project: name, id } }).catch((error) => {
      if (error.status !== 404) throw error;
      return error.message;
    }),
  ]);
  return { at, missing, project: items.find((each) => each.name === name), task };
}

function show({ at, missing, project, task }) {
  const isKnown = typeof task !== "string";
  byId("unknown").hidden = isKnown;
  byId("main").classList.toggle("gone", !isKnown);
  if (isKnown) known(task, project, at, missing.length > 0);
  else say(byId("unknown"), `There is no such task: ${task}.`);
}

function known(task, project, at, isPartial) {
  const url = byId("url");
  say(url, task.url);
  if (/^https?:\/\//i.test(task.url)) url.href = task.url; // a script may have any other
  tiles([
    { name: "State", value: task.state, cls: task.state === "FAILED" || task.state === "BAD" ? "bad" : "" },
    { name: "Callback", value: task.callback || "–" },
    { name: "Last try", value: when(task.crawled_at), title: "when it ended" },
    { name: "Next try", value: task.state !== "ACTIVE" ? "–" : task.due_at > at ? until(task.due_at, at) : "due" },
    { name: "Failed tries", value: `${count(task.retried ?? 0)}${task.retries === null ? "" : ` of ${count(task.retries + 1)}`}` },
    { name: "Status code", value: task.status_code ?? "–" },
    { name: "Fetched in", value: inSeconds(task.fetch_time) },
    { name: "Processed in", value: inSeconds(task.process_time) },
    { name: "Links", value: count(task.follows) },
    { name: "Priority", value: task.priority ?? "–" },
  ]);
  const told = [task.error && ["serious", task.error], ...(task.state === "ACTIVE" ? waits(task, project, at, isPartial) : [])].filter(Boolean);
  alerts(told);
  say(byId("log"), task.logs || "Nothing.");
  documents(task.documents);
}

/** Why a task that is to be fetched is not fetched yet. */
function waits(task, project, at, isPartial) {
  if (!project) return [["warning", `It waits for its project: there is no project ${name} any more.`]];
  const { status, numbers } = project;
  if (status !== "RUNNING" && status !== "DEBUG") return [["warning", `It waits until its project runs: it is ${status}.`]];
  if (!numbers) return [["warning", isPartial ? "It is not known what it waits for: its owner does not answer." : "It waits for a scheduler: none has its project in memory."]];
  if (numbers.quarantined) return [["warning", `It waits for its project, which is in quarantine: ${numbers.quarantined}`]];
  if (numbers.paused) return [["warning", "It waits because its project is paused after failures."]];
  if (task.due_at > at) return [];
  return [["good", `It is with a fetcher or processor, or one of the ${count(numbers.due)} tasks that wait for the rate of its project.`]];
}

function documents(stored) {
  const box = byId("documents");
  if (!differs(box, stored)) return;
  const one = ([title, text]) => h("details", { class: "said", open: title === "result" }, h("summary", {}, title), h("pre", {}, text));
  box.replaceChildren(...Object.entries(stored).map(one));
}

say(document.querySelector("h1"), `Task ${id}`);
document.title = `${id} - ${document.title}`;
say(byId("project"), name);
byId("project").href = projectPage(name);
byId("edit").href = editorPage(name, { taskid: id });

const page = live(load, show);

byId("again").addEventListener("click", () => refetch(byId("url").textContent, { names: [name], arguments: { tasks: [id] } }, () => page.refresh()));
