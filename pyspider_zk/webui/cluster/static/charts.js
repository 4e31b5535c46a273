// Small charts. Each has a label with its figures.

import { h, s, say } from "./dom.js";
import { age, count, inSeconds, when } from "./format.js";

const EVENTS = 3; // of a step, that are told in words

/** A line of values, scaled to the highest. */
export function sparkline(values) {
  const [width, height] = [90, 18];
  const top = Math.max(...values, 1);
  const step = width / (values.length - 1);
  const points = values.map((value, place) => `${(place * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`);
  const total = values.reduce((sum, value) => sum + value, 0);
  const label = `${count(total)} in the last hour, at most ${count(Math.max(...values))} a minute`;
  return s("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    s("title", {}, label),
    s("polyline", { points: points.join(" ") }),
  );
}

// What a bar is made of, from the bottom up: its class, and the word for it.
const PARTS = { failed: "failed", retry: "retried", success: "succeeded", ended: "ended" };
const [WIDTH, HEIGHT] = [600, 120];

const sum = (values) => values.reduce((all, value) => all + value, 0);

/**
 * A chart of bars, one per step of time. A pointer on it, or the slider below it, tells what the bar stands for.
 *
 * The slider and its text are kept when the chart is shown again, so that focus survives updates.
 */
export class BarChart {
  constructor(box) {
    this.sign = "";
    this.axis = h("div", { class: "axis" });
    this.drawing = s("svg", {});
    this.slider = h("input", { type: "range", min: 0, "aria-label": "step of the chart", oninput: () => this.choose(Number(this.slider.value)) });
    this.figures = h("p", { class: "figures" });
    this.ends = h("div", { class: "below" });
    this.caption = h("figcaption", {});
    this.chosen = s("rect", { class: "chosen", y: 0, height: HEIGHT });
    this.unknown = h("p", { class: "empty", hidden: true }, "Not known.");
    this.figure = h("figure", { hidden: true }, h("div", { class: "plot" }, this.axis, this.drawing, this.slider, this.ends), this.caption, this.figures);
    box.replaceChildren(this.figure, this.unknown);
  }

  /**
   * Show what was counted: a list for each of PARTS that is known, and the averages of the history.
   *
   * data: null: not known; at: when the first step began; step: its seconds; words: of the span; marks: events.
   */
  show(data, words, marks = []) {
    this.figure.hidden = !data;
    this.unknown.hidden = Boolean(data);
    if (!data) return;
    const sign = JSON.stringify([data, words, marks.length]);
    if (sign === this.sign) return;
    const isNew = this.data?.step !== data.step || this.words !== words;
    Object.assign(this, { sign, data, words, marks });
    this.kinds = Object.keys(PARTS).filter((kind) => data[kind]);
    this.totals = data[this.kinds[0]].map((_, place) => sum(this.kinds.map((kind) => data[kind][place])));
    this.draw();
    this.slider.max = this.totals.length - 1;
    if (isNew) this.slider.value = this.slider.max;
    this.choose(Number(this.slider.value));
    this.ends.replaceChildren(h("span", {}, when(data.at)), h("span", {}, "now"));
    const keys = this.kinds.map((kind) => h("span", { class: `key ${kind}` }, `${PARTS[kind]} ${count(sum(data[kind]))}`));
    const marked = [...new Set(marks.map((each) => each.kind))].map((kind) => h("span", { class: `key mark-${kind}` }, kind));
    this.caption.replaceChildren(...keys.reverse(), ...marked);
  }

  draw() {
    const { data, kinds, totals } = this;
    const top = nice(Math.max(...totals, 1));
    const step = WIDTH / totals.length;
    const gap = Math.min(2, step / 4);
    const bar = (place) => {
      let from = 0;
      return kinds.map((kind) => {
        const tall = (data[kind][place] / top) * HEIGHT;
        from += tall;
        return tall > 0 && s("rect", { class: kind, x: (place * step + gap / 2).toFixed(2), width: (step - gap).toFixed(2), y: (HEIGHT - from).toFixed(1), height: tall.toFixed(1) });
      });
    };
    const told = kinds.map((kind) => `${count(sum(data[kind]))} ${PARTS[kind]}`).reverse().join(", ");
    const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${told}, ${this.words}`, preserveAspectRatio: "none", onpointermove: (event) => this.point(event) },
      [0.5, 1].map((part) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * (1 - part) + 0.5, y2: HEIGHT * (1 - part) + 0.5 })),
      this.chosen,
      this.marks.map((each) => s("line", { class: `mark mark-${each.kind}`, x1: this.across(each.at), x2: this.across(each.at), y1: 0, y2: HEIGHT })),
      totals.flatMap((_, place) => bar(place)),
    );
    this.axis.replaceChildren(...[top, top / 2, 0].map((value) => h("span", {}, count(value))));
    this.drawing.replaceWith(drawing);
    this.drawing = drawing;
  }

  across(at) {
    return ((at - this.data.at) / (this.data.step * this.totals.length)) * WIDTH;
  }

  point(event) {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    const place = Math.floor(((event.clientX - left) / width) * this.totals.length);
    this.slider.value = place;
    this.choose(Number(this.slider.value));
  }

  /** Tell what the bar at a place stands for. */
  choose(place) {
    const { data, totals } = this;
    const began = data.at + place * data.step;
    const averages = [
      ["fetch_time", (value) => `a fetch ${inSeconds(value)}`],
      ["process_time", (value) => `a call ${inSeconds(value)}`],
      ["pending", (value) => `pending ${count(Math.round(value))}`],
    ].filter(([name]) => typeof data[name]?.[place] === "number").map(([name, words]) => words(data[name][place]));
    const there = this.marks.filter((each) => each.at >= began && each.at < began + data.step);
    const parts = this.kinds.map((kind) => `${count(data[kind][place])} ${PARTS[kind]}`).reverse();
    const events = there.slice(-EVENTS).map((each) => each.text);
    const more = there.length > EVENTS ? [`and ${count(there.length - EVENTS)} more events`] : [];
    const text = `${when(began)}, ${age(data.step)}: ${[...parts, ...averages, ...events, ...more].join("; ")}`;
    say(this.figures, text);
    this.slider.setAttribute("aria-valuetext", text);
    this.chosen.setAttribute("x", (place * WIDTH) / totals.length);
    this.chosen.setAttribute("width", WIDTH / totals.length);
  }
}

/** The next round number that can be halved. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const round = [1, 2, 4, 6, 8, 10].find((each) => each * power >= value) * power;
  return Math.max(2, round);
}

/** A progress bar with its figures. */
export function progress(done, failed, total) {
  const label = `${count(done + failed)} of ${count(total)}`;
  return h("span", { class: "progress" },
    h("progress", { max: Math.max(1, total), value: done + failed, "aria-label": label }),
    h("span", { class: "num" }, label),
  );
}
