// Small charts. Each has a label with its figures.

import { h, s } from "./dom.js";
import { count } from "./format.js";

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

/** Bars, one per minute, with the failures at the bottom. */
export function bars({ success, failed, retry }) {
  const totals = success.map((value, place) => value + failed[place] + retry[place]);
  const top = nice(Math.max(...totals, 1));
  const [width, height] = [600, 120];
  const step = width / totals.length;
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  const label = `${count(sum(success))} succeeded, ${count(sum(failed))} failed and ${count(sum(retry))} were retried, in the last hour`;
  const bar = (place, from, value, kind) => {
    const tall = (value / top) * height;
    return value > 0 && s("rect", { class: kind, x: (place * step + 1).toFixed(1), width: (step - 2).toFixed(1), y: (height - (from / top) * height - tall).toFixed(1), height: tall.toFixed(1) });
  };
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    [0.5, 1].map((part) => s("line", { class: "grid", x1: 0, x2: width, y1: height * (1 - part) + 0.5, y2: height * (1 - part) + 0.5 })),
    totals.map((_, place) => [
      bar(place, 0, failed[place], "failed"),
      bar(place, failed[place], retry[place], "retry"),
      bar(place, failed[place] + retry[place], success[place], "success"),
    ]),
  );
  return h("figure", {},
    h("div", { class: "plot" }, h("div", { class: "axis" }, h("span", {}, count(top)), h("span", {}, count(top / 2)), h("span", {}, "0")), drawing),
    h("div", { class: "below" }, h("span", {}, "60 min ago"), h("span", {}, "now")),
    h("figcaption", {},
      h("span", { class: "key success" }, `succeeded ${count(sum(success))}`),
      h("span", { class: "key retry" }, `retried ${count(sum(retry))}`),
      h("span", { class: "key failed" }, `failed ${count(sum(failed))}`),
    ),
  );
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
