// Which numbers a picture's 0 and 255 become: asked where the file's manifest doesn't say it.

import { element, labelled, plain } from "./dom.js";

const USUAL = [
  [0, 255],
  [0, 1],
  [-1, 1],
];
const OWN = "own";

/** Why a picture can't be answered before the range is chosen. */
export const UNKNOWN =
  "The file doesn't say which numbers a picture's 0 and 255 become, and a wrong guess gives wrong answers: " +
  "choose them. Whoever converts the model says it by “pixel_range” in the manifest.";

/** A choice; `range` is `[low, high]`, or null while nothing is chosen. */
export class RangeChoice {
  constructor(changed) {
    this.range = null;
    this.changed = changed;
    this.choice = element(
      "select",
      { change: () => this.take() },
      element("option", { value: "" }, "choose"),
      ...USUAL.map((range, at) => element("option", { value: at }, nameOf(range))),
      element("option", { value: OWN }, "other numbers"),
    );
    this.ends = ["0 becomes", "255 becomes"].map((text) => {
      const field = element("input", { type: "number", step: "any", input: () => this.take() });
      return { field, element: labelled(text, field) };
    });
    this.element = element(
      "div",
      { class: "row" },
      labelled("A picture's 0 and 255 become", this.choice),
      ...this.ends.map((end) => end.element),
    );
    this.take();
  }

  take() {
    const own = this.choice.value === OWN;
    for (const end of this.ends) end.element.hidden = !own;
    const ends = own
      ? this.ends.map(({ field }) => (field.value === "" ? NaN : Number(field.value)))
      : (USUAL[this.choice.value] ?? [NaN, NaN]);
    this.range = ends.every(Number.isFinite) && ends[0] !== ends[1] ? ends : null;
    this.changed();
  }
}

/** A range for people. */
export function nameOf(range) {
  return range.map(plain).join(" to ");
}
