import { projectPage, read, resultsPage, taskPage } from "./address.js";
import { goToLine, markFault, pretty, scriptEditor, taskEditor } from "./code-editor.js";
import { tellColleagues } from "./colleagues.js";
import { byId, say } from "./dom.js";
import { askPyspider } from "./pyspider.js";
import { SavedScript } from "./saved-script.js";
import { SelectorHelper } from "./selector-helper.js";
import { separator } from "./separator.js";
import { clearResult, faultIn, showResult } from "./step-result.js";
import { Steps } from "./steps.js";
import { tabs } from "./tabs.js";

const { project: name, taskid, start } = read({ project: "", taskid: "", start: "" });
const FIRST = { taskid: "data:,on_start", project: name, url: "data:,on_start", process: { callback: "on_start" } };
const looksOnly = "editsNothing" in document.documentElement.dataset;

const script = scriptEditor(byId("script"), true); // until it has been loaded
const task = taskEditor(byId("task"), looksOnly);
const helper = new SelectorHelper((selector) => {
  script.replaceSelection(selector);
  script.focus();
});
const steps = new Steps(task, byId("back"), byId("forward"), showTried);
const saved = new SavedScript({ name, start, readOnly: looksOnly }, script, tell, (fault) => {
  const [, line, message] = /^line (\d+): (.*)/s.exec(fault ?? "") ?? [];
  markFault(script, Number(line), message);
});
let latest = null; // the run whose answer is to be shown
let underWay; // the one that the server is at
let wasRefused = false; // the one before, and the notice says so

/** Show a notice in place of the last one; without content there is none. */
function tell(...content) {
  byId("told").replaceChildren(...content);
  byId("told").hidden = !content.length;
}

const isByWebdav = () => byId("webdav").getAttribute("aria-pressed") === "true";

async function run() {
  if (!saved.isLoaded) return undefined;
  steps.keep();
  if (wasRefused) tell();
  wasRefused = false;
  const sent = script.changeGeneration(true);
  const form = { webdav_mode: isByWebdav(), script: isByWebdav() ? "" : script.getValue(), task: task.getValue() };
  const mine = latest = Symbol("run");
  byId("step").setAttribute("aria-busy", "true");
  clearResult(helper);
  await underWay; // everybody's trials wait for one another
  if (latest !== mine) return undefined;
  underWay = askPyspider(`/debug/${encodeURIComponent(name)}/run`, form).catch(({ message }) => ({ refused: `It was not run: ${message}` }));
  const given = await underWay;
  if (latest !== mine) return undefined;
  byId("step").setAttribute("aria-busy", "false");
  wasRefused = Boolean(given.refused);
  if (wasRefused) return tell(given.refused);
  const { line = null, message } = faultIn(given.logs, name) ?? {};
  markFault(script, !isByWebdav() && script.isClean(sent) ? line : null, message); // else it is a line of another script
  return showResult(given, { name, helper, run: follow, goTo: (number) => goToLine(script, number) });
}

function follow(next) {
  steps.add(pretty(next));
  run();
}

/** Return the row of a task that was tried before, or null. */
async function rowOf(id) {
  const row = await askPyspider(`/task/${encodeURIComponent(`${name}:${id}`)}.json`);
  return row.status_string ? row : null;
}

async function givenTask() {
  const row = await rowOf(taskid);
  if (!row) throw new Error(`Project ${name} has no task ${taskid}.`);
  const { url, fetch, process } = row;
  return { taskid: row.taskid, project: name, url, fetch, process };
}

/** Lead to the page of a task that was tried before. Of what is no task, or not to be had, there is no link. */
async function showTried(text) {
  const link = byId("tried");
  link.hidden = true;
  const id = await Promise.resolve(text).then(JSON.parse).then((given) => given.taskid).catch(() => null);
  const row = id && await rowOf(id).catch(() => null);
  if (!row || task.getValue() !== text) return;
  say(link, `tried: ${row.status_string}`);
  link.href = taskPage(name, id);
  link.hidden = false;
}

async function toggleWebdav() {
  const on = !isByWebdav();
  byId("webdav").setAttribute("aria-pressed", String(on));
  byId("panes").classList.toggle("by-webdav", on);
  script.refresh();
  if (!on && saved.isClean && saved.md5) await saved.tried(() => saved.load());
}

const KEYS = { s: () => isByWebdav() || saved.save(), enter: run };

document.addEventListener("keydown", (event) => {
  const press = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && KEYS[event.key.toLowerCase()]; // S with Caps Lock
  if (!press || looksOnly) return;
  event.preventDefault();
  if (!event.repeat) press();
});

say(document.querySelector("h1"), name || "Editor");
document.title = `${name} - ${document.title}`;
byId("project").href = projectPage(name);
byId("results").href = resultsPage(name);
byId("run").addEventListener("click", run);
byId("save").addEventListener("click", () => saved.save());
byId("webdav").addEventListener("click", toggleWebdav);
tabs(document.querySelector("[role=tablist]"));
tellColleagues(byId("colleagues"), name, document.querySelector(".user")?.textContent ?? "");
separator(byId("separator"), byId("panes"), () => script.refresh());
steps.add(pretty(FIRST));
if (taskid) saved.tried(async () => steps.add(pretty(await givenTask())));
saved.tried(() => saved.load());
