// Inputs that are neither windows nor images: fields for a few numbers, a text of numbers for many.

import { element, labelled, newId } from "./dom.js";
import { checkRows, denormalize, normalize, size } from "./tensors.js";

const MOST_FIELDS = 24;

/** Numbers that a person types. */
export class ValuesInput {
  constructor(tensor, changed) {
    this.tensor = tensor;
    this.problem = element("p", { class: "problem", role: "alert", id: newId() });
    const few = tensor.kind === "values" && size(tensor) <= MOST_FIELDS && tensor.shape.length <= 2;
    this.fields = few ? this.makeFields(changed) : null;
    this.text = few ? null : this.makeText(changed);
    this.element = element(
      "div",
      {},
      ...(this.fields ? [this.grid] : [this.text.parentElement]),
      this.problem,
    );
  }

  makeFields(changed) {
    const fields = Array.from({ length: size(this.tensor) }, () =>
      element("input", { type: "number", step: "any", value: 0, input: changed }),
    );
    this.grid = element(
      "div",
      { class: "fields" },
      ...fields.map((field, at) => labelled(this.label(at), field)),
    );
    return fields;
  }

  label(at) {
    const { name, names, units } = this.tensor;
    return `${names[at] || `${name} ${at}`}${units[at] ? ` (${units[at]})` : ""}`;
  }

  makeText(changed) {
    const area = element("textarea", {
      rows: 5,
      spellcheck: "false",
      autocomplete: "off",
      "aria-describedby": this.problem.id,
      input: changed,
    });
    area.value = JSON.stringify(Array(size(this.tensor)).fill(0));
    const shape = this.tensor.shape.slice(1).join(" × ") || "1";
    const { kind, below } = this.tensor;
    const range = below === null ? "" : ` from 0 to ${below - 1}`;
    const what = (kind === "tokens" ? "token numbers" : "numbers") + range;
    labelled(`${this.tensor.name}: ${shape} ${what}, as JSON or with commas between`, area);
    return area;
  }

  /** What the model is to be given, in real values; throws what is wrong with them. */
  read() {
    this.problem.textContent = "";
    try {
      const numbers = this.fields
        ? this.fields.map((field) => number(field.value))
        : numbersIn(this.text.value);
      if (numbers.length !== size(this.tensor)) {
        throw new Error(
          `${this.tensor.name} takes ${size(this.tensor)} numbers; there are ${numbers.length}.`,
        );
      }
      if (this.tensor.kind === "tokens" && !numbers.every(Number.isInteger)) {
        throw new Error("Tokens are whole numbers.");
      }
      checkRows(numbers, this.tensor);
      return normalize(Float64Array.from(numbers), this.tensor.normalization);
    } catch (error) {
      this.problem.textContent = error.message;
      throw error;
    }
  }

  /** Fill in a sample, given as the file's real values. */
  fill(real) {
    const numbers = Array.from(
      denormalize(real, this.tensor.normalization),
      (value) => +value.toPrecision(9),
    );
    if (this.fields) this.fields.forEach((field, at) => (field.value = numbers[at]));
    else this.text.value = JSON.stringify(numbers);
  }
}

function numbersIn(text) {
  let found;
  try {
    found = JSON.parse(
      text.trim().startsWith("[")
        ? text
        : `[${text
            .trim()
            .split(/[\s,;]+/)
            .join(",")}]`,
    );
  } catch {
    throw new Error("These are no numbers in JSON, such as [1, 2.5, -3].");
  }
  return found.flat(Infinity).map(number);
}

function number(value) {
  const found = typeof value === "string" && value.trim() === "" ? NaN : Number(value);
  if (value === null || !Number.isFinite(found)) throw new Error(`${JSON.stringify(value)} is no number.`);
  return found;
}
