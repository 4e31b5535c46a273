// The chart of a page: the last hour, or the history of a day, a week or two.

import { write } from "./address.js";
import { ask } from "./api.js";
import { BarChart } from "./charts.js";
import { byId, h } from "./dom.js";

const SPANS = { hour: ["Hour", "in the last hour"], day: ["Day", "in a day"], week: ["Week", "in a week"], fortnight: ["Two weeks", "in two weeks"] };
const FRESH = 60000; // milliseconds: what is counted is added once a minute
const MOST = 1000; // marks of a kind, the latest
const MARKED = ["died", "joined", "moved", "batch"];
const MINUTES = 60;

/** The chart, with buttons for its span, which is state.span. project: empty: the cluster, with its events. */
export class HistoryChart {
  constructor(state, defaults, project, changed) {
    this.state = state;
    this.project = project;
    this.known = {};
    this.chart = new BarChart(byId("chart"));
    this.buttons = Object.entries(SPANS).map(([span, [word]]) => h("button", { type: "button", value: span, onclick: () => this.choose(span) }, word));
    this.choose(Object.hasOwn(SPANS, state.span) ? state.span : defaults.span);
    this.changed = () => {
      write(state, defaults);
      changed();
    };
    byId("spans").replaceChildren(...this.buttons);
  }

  choose(span) {
    this.state.span = span;
    for (const each of this.buttons) each.setAttribute("aria-pressed", String(each.value === span));
    this.changed?.();
  }

  /** Ask for the history if it is shown and a minute old, or came too late a minute ago; return what is missing. */
  async load() {
    const { span } = this.state;
    if (span === "hour") return [];
    if (this.known.span === span && Date.now() - this.known.asked < FRESH) return this.known.missing;
    const asked = Date.now();
    try {
      const data = await ask("/history", { query: { span, project: this.project } });
      const { marks, missing } = this.project ? { marks: [], missing: [] } : await events(data.at);
      this.known = { span, asked, data, marks, missing };
      return missing;
    } catch (error) {
      const missing = [`the history: ${error.message}`];
      if (error.isSlow) this.known = { ...(this.known.span === span && this.known), span, asked, missing };
      return missing;
    }
  }

  /** Show it, or the last hour: a list of 60 minutes for each part, null: unknown. at: the time of the answer. */
  show(hour, at) {
    const { span } = this.state;
    const words = SPANS[span][1];
    const { data, marks } = this.known;
    if (span === "hour") {
      const minute = Math.floor(at / 60) * 60;
      this.chart.show(hour && { ...hour, at: minute - (MINUTES - 1) * 60, step: 60 }, words);
    } else if (this.known.span !== span || !data) {
      this.chart.show(null);
    } else {
      this.chart.show(data, words, marks.filter((each) => each.at >= data.at && each.at < data.at + data.step * data.success.length));
    }
  }
}

async function events(since) {
  const found = await Promise.all(MARKED.map((kind) => ask("/events/archive", { query: { kind, since, limit: MOST } })));
  const marks = found.flatMap(({ items }) => items).sort((a, b) => a.at - b.at);
  return { marks, missing: [...new Set(found.flatMap(({ missing }) => missing))] };
}
