// Tries of tasks in a table, as pages share it.

import { projectPage, taskPage } from "./address.js";
import { count, inSeconds, when } from "./format.js";
import { Table } from "./table.js";
import { badges } from "./tiles.js";

const TICK = "_on_cronjob"; // calls the script, and has no row

/** Make a table of what the API lists as tries; withProjects: of all projects. */
export function triesTable(element, withProjects) {
  const project = { title: "Project", show: (each) => ({ text: each.project, href: projectPage(each.project) }) };
  return new Table(element, [
    { title: "When", cls: "nowrap first", show: (each) => when(each.at) },
    ...(withProjects ? [project] : []),
    { title: "URL", cls: "full", show: (each) => ({ text: each.url, href: each.taskid === TICK ? null : taskPage(each.project, each.taskid) }) },
    { title: "State", show: (each) => badges([ending(each)]) },
    { title: "Status code", cls: "num", show: (each) => each.status_code ?? "–" },
    { title: "Fetched in", cls: "num", show: (each) => inSeconds(each.fetch_time) },
    { title: "Processed in", cls: "num", show: (each) => inSeconds(each.process_time) },
    { title: "Links", cls: "num", show: (each) => count(each.follows) },
  ], { key: (each) => `${each.at} ${each.project} ${each.taskid} ${each.ok}` });
}

const ending = ({ ok }) => (ok === null ? ["sent", ""] : ok ? ["done", "good"] : ["failed", "bad"]);
