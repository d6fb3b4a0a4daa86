// What the model answered: classes as bars, other values as numbers.

import { element, plain } from "./dom.js";

const MOST_NUMBERS = 64;
const MOST_BARS = 12;

/** A view of one output that is no attention. */
export class OutputView {
  constructor(tensor, alone) {
    this.tensor = tensor;
    this.answer = element("p", { class: "answer" });
    this.list = element("div", { class: "bars" });
    this.remark = element("p", { class: "soft" });
    this.element = element(
      "div",
      {},
      alone ? null : element("h3", {}, tensor.name),
      this.answer,
      this.list,
      this.remark,
    );
  }

  /** Show an answer, given in real values. */
  show(real) {
    if (this.tensor.kind !== "classes") this.showNumbers(real);
    else if (this.tensor.task === "labels") this.showLabels(real);
    else this.showClasses(real);
  }

  /** Show nothing, where there is no answer. */
  clear() {
    this.answer.textContent = this.remark.textContent = "";
    this.list.replaceChildren();
  }

  showNumbers(real) {
    const { names, shape } = this.tensor;
    if (real.length === 1) {
      this.answer.textContent = (names.length === 1 ? `${this.label(0)}: ` : "") + plain(real[0]);
      return;
    }
    const named = names.length === shape.at(-1);
    const columns = named && real.length > names.length ? names.length : 1;
    const count = Math.ceil(Math.min(real.length, MOST_NUMBERS) / columns);
    const title = (row) => (named && columns === 1 ? this.label(row) : String(row));
    const rows = Array.from({ length: count }, (_, row) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, title(row)),
        ...Array.from(real.slice(row * columns, (row + 1) * columns), (value) =>
          element("td", {}, plain(value)),
        ),
      ),
    );
    if (columns > 1) {
      const heads = names.map((_, at) => element("th", { scope: "col" }, this.label(at)));
      rows.unshift(element("tr", {}, element("td", {}), ...heads));
    }
    this.list.replaceChildren(element("table", {}, element("tbody", {}, ...rows)));
    const rest = real.length - count * columns;
    const size = shape.slice(1).join(" × ");
    this.remark.textContent = `Shape ${size}${rest > 0 ? `; ${rest} further numbers` : ""}.`;
  }

  showLabels(real) {
    this.answer.textContent = Array.from(real.slice(0, MOST_NUMBERS), (label) => this.label(label)).join(
      ", ",
    );
  }

  showClasses(real) {
    const scores = classScores(real, this.tensor);
    if (scores.some(Number.isNaN)) throw new Error(`The model answers NaN in "${this.tensor.name}".`);
    const order = scores.map((_, at) => at).sort((first, second) => scores[second] - scores[first]);
    if (isPair(real, this.tensor) && scores[0] === scores[1]) order.reverse(); // the second from 0.5 on
    const sum = scores.reduce((total, score) => total + score, 0);
    const sure = scores.every((score) => score >= 0 && score <= 1.001);
    const one = sure && Math.abs(sum - 1) < 0.05;
    this.answer.textContent = this.label(order[0]) + (sure ? ` (${percent(scores[order[0]])})` : "");
    // In the order of the labels, so that bars don't jump about.
    const shown = new Set(order.slice(0, MOST_BARS));
    this.list.replaceChildren(
      ...scores.flatMap((score, at) => (shown.has(at) ? [this.bar(at, score, sure, at === order[0])] : [])),
    );
    const rest = scores.length - shown.size;
    const remarks = [];
    if (rest > 0) remarks.push(`The ${MOST_BARS} highest of ${scores.length} classes.`);
    if (!one) remarks.push(sure ? "Each class has its own probability." : "Scores, no probabilities.");
    this.remark.textContent = remarks.join(" ");
  }

  bar(at, score, sure, best) {
    const share = Math.max(0, Math.min(1, score));
    const track = element("span", { class: "track", "aria-hidden": "true" });
    const fill = element("span", { class: "fill" });
    fill.style.width = sure ? `${share * 100}%` : "0";
    track.append(fill);
    return element(
      "div",
      { class: best ? "bar best" : "bar" },
      element("span", { class: "label" }, this.label(at)),
      track,
      element("span", { class: "number" }, sure ? percent(score) : plain(score)),
    );
  }

  label(at) {
    const name = this.tensor.names[at];
    const kind = this.tensor.kind === "classes" ? "class" : "value";
    return name === undefined ? `${kind} ${at}` : name.trim() || `${kind} ${at} (no name)`;
  }
}

/** One score per class; an output of one unit with two labels is the probability of the second. */
export function classScores(real, tensor) {
  if (isPair(real, tensor)) return [1 - real[0], real[0]];
  const classes = tensor.shape.at(-1);
  const places = real.length / classes;
  // An answer for each step of a sequence: the mean over the steps.
  return Array.from({ length: classes }, (_, at) => {
    let sum = 0;
    for (let place = 0; place < places; place += 1) sum += real[place * classes + at];
    return sum / places;
  });
}

function isPair(real, tensor) {
  return real.length === 1 && tensor.names.length === 2;
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
