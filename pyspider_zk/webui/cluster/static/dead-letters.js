import { read, write } from "./address.js";
import { ask, post } from "./api.js";
import { dialog } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { plural, when } from "./format.js";
import { live } from "./live.js";
import { pager } from "./pager.js";
import { Selection } from "./selection.js";
import { Table } from "./table.js";

const SIZE = 25;
const PREVIEW = 90; // characters
const DEFAULTS = { offset: 0 };
const state = read(DEFAULTS);
let last = null;

const selection = new Selection("letter", () => last && show(last));

const table = new Table(byId("letters"), [
  selection.column((each) => each.tag),
  { title: "Found", cls: "nowrap first", show: (each) => when(each.time) },
  { title: "Queue", cls: "nowrap full", show: (each) => each.queue },
  { title: "Reason", cls: "full", show: (each) => each.reason },
  { title: "Message", cls: "full", show: (each) => ({ sign: each.tag, node: () => message(each) }) },
], { key: (each) => each.tag });

const page = live(() => ask("/dead-letters", { query: { offset: state.offset, limit: SIZE } }), show);

function show(data) {
  last = data;
  if (!pager(data, SIZE, go)) return;
  selection.list(data.items.map((each) => each.tag), data.total);
  table.show(data.items, (each) => (selection.has(each.tag) ? "chosen" : ""));
}

function go(offset) {
  state.offset = offset;
  write(state, DEFAULTS);
  page.refresh();
}

function message(letter) {
  const text = typeof letter.message === "string" ? letter.message : JSON.stringify(letter.message);
  const brief = text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text;
  const whole = typeof letter.message === "string" ? letter.message : JSON.stringify(letter.message, null, 1);
  return h("details", {}, h("summary", {}, brief), h("pre", {}, whole));
}

const WORDS = {
  replay: ["Replay", "Replaying", "They go back into the queues that they were found in, oldest first. Those that still cannot be processed come back here."],
  drop: ["Drop", "Dropping", "They are deleted permanently."],
};

async function confirmAndSend(act) {
  const [word, progress, consequence] = WORDS[act];
  const size = selection.size;
  const asked = selection.all ? { all: true, until: last.newest } : { tags: [...selection.keys] };
  const answer = await dialog({
    title: `${word} ${plural(size, "dead letter")}?`,
    content: h("p", {}, consequence),
    confirm: `${word} ${plural(size, "dead letter")}`,
    busy: `${progress}…`,
    danger: act === "drop",
    typed: act === "drop" && size > 1 && String(size),
    accept: () => post(`/dead-letters/${act}`, asked),
  });
  if (!answer) return;
  selection.clear();
  const notice = byId("notice");
  notice.hidden = false;
  say(notice, `${plural(answer.count, "dead letter")} ${act === "drop" ? "dropped" : "replayed"}.`);
  page.refresh();
}

for (const button of document.querySelectorAll("[data-act]"))
  button.addEventListener("click", () => confirmAndSend(button.dataset.act));
