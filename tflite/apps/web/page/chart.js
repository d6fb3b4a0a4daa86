// The channels of a window over time, with the attention behind them.

import { element, newId } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 240;
const BAND = 18;
const COLOURS = 8;
const STRONGEST = 0.5;

/** A chart with a legend; `draw` shows a window. */
export class Chart {
  constructor(names) {
    this.title = element("p", { class: "soft", id: newId() });
    this.bands = element("g", { class: "attention" });
    this.lines = names.map((_, at) => element("path", { class: `line colour-${at % COLOURS}` }));
    this.zero = element("line", { class: "zero", x1: 0, x2: WIDTH });
    const drawing = element(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT + BAND}`, role: "img", "aria-labelledby": this.title.id },
      this.bands,
      this.zero,
      ...this.lines,
    );
    const legend = element(
      "ul",
      { class: "legend" },
      ...names.map((name, at) =>
        element(
          "li",
          {},
          element("span", { class: `key colour-${at % COLOURS}`, "aria-hidden": "true" }),
          name,
        ),
      ),
    );
    this.element = element("div", { class: "chart" }, drawing, legend, this.title);
  }

  /** Show `values` (row after row) and, unless null, one weight from 0 to 1 for each row. */
  draw(values, length, weights, title) {
    const width = values.length / length;
    const least = values.reduce((found, value) => Math.min(found, value), 0);
    const most = values.reduce((found, value) => Math.max(found, value), 0);
    const spread = most - least || 1;
    const y = (value) => (HEIGHT * (1 - (value - least) / spread)).toFixed(1);
    this.lines.forEach((line, channel) => {
      let path = "";
      for (let row = 0; row < length; row += 1) {
        const x = ((row / Math.max(1, length - 1)) * WIDTH).toFixed(1);
        path += `${row ? "L" : "M"}${x} ${y(values[row * width + channel])}`;
      }
      line.setAttribute("d", path);
    });
    this.zero.setAttribute("y1", y(0));
    this.zero.setAttribute("y2", y(0));
    this.bands.replaceChildren(...bandsOf(weights ?? [], WIDTH / length));
    const range = ` Values from ${least.toPrecision(3)} to ${most.toPrecision(3)}.`;
    this.title.textContent = title + range + (weights ? " Shaded: where the model looks." : "");
  }
}

/** One rectangle for each stretch of equal weights. */
function bandsOf(weights, step) {
  const starts = weights.flatMap((weight, at) => (weight === weights[at - 1] ? [] : [at]));
  return starts.map((start, at) =>
    element("rect", {
      x: (start * step).toFixed(2),
      y: 0,
      width: (((starts[at + 1] ?? weights.length) - start) * step).toFixed(2),
      height: HEIGHT + BAND,
      "fill-opacity": (weights[start] * STRONGEST).toFixed(3),
    }),
  );
}
