// One model: its parity check, its inputs, and what it answers.

import { element, labelled, plain, reason } from "./dom.js";
import { ImageInput } from "./image_input.js";
import { OutputView } from "./outputs.js";
import { replay } from "./parity.js";
import { asArray, bytesOf, decode, repeated, single, size, toReal, toStored } from "./tensors.js";
import { ValuesInput } from "./values_input.js";
import { WindowInput } from "./window_input.js";

const TIMED = 25;

/** The card of a model and what belongs to it. */
export class Panel {
  constructor(entry, recordings) {
    Object.assign(this, { entry, recordings, times: [], running: false, waiting: false });
    this.verdict = element("div", { class: "verdict", role: "status" });
    this.body = element("div", {});
    this.element = element("div", { class: "panel" }, this.makeHead(), this.verdict, this.body);
  }

  makeHead() {
    const { texts, precision, size_bytes: bytes } = this.entry;
    const facts = [precision && `${precision} file`, `${plain(Math.round(bytes / 1000))} kB`];
    for (const [key, value] of Object.entries(texts))
      if (key !== "description") facts.push(`${key}: ${value}`);
    return element(
      "div",
      { class: "head" },
      texts.description ? element("p", {}, texts.description) : null,
      element("p", { class: "soft" }, facts.filter(Boolean).join(" · ")),
      ...this.entry.remarks.map((remark) => element("p", { class: "soft" }, remark)),
    );
  }

  /** Load the file, check it, and show its first signature. */
  async open(runtime, bytes) {
    this.say("", "Loading …", "");
    try {
      this.model = await runtime.load(bytes);
      await this.check();
      this.select(this.entry.signatures[0]);
    } catch (error) {
      this.say("refused", "This model can't run here", reason(error));
      throw error;
    }
  }

  async check() {
    const { pairs, signatures } = this.entry;
    if (!pairs.length) {
      this.parity = null;
      this.say(
        "remarks",
        "Not checked",
        "The file has no golden pairs, so its answers can't be compared with Python's.",
      );
      return;
    }
    this.parity = await replay(this.model, signatures[0], pairs);
    const { passed, worst, count } = this.parity;
    const unit = worst.output.scale !== null && !worst.output.dtype.startsWith("float") ? " steps" : "";
    const what =
      `${count} known inputs run in this browser. Largest difference: ${plain(worst.difference)}${unit}` +
      `, allowed: ${plain(worst.allowed)}${unit}` +
      (signatures[0].outputs.length > 1 ? ` (output ${worst.output.name}, sample ${worst.sample}).` : ".");
    if (passed) this.say("right", "Answers as in Python: yes", what);
    else this.say("refused", "Answers as in Python: no", `${what} Don't trust what this page shows.`);
  }

  say(kind, word, sentence) {
    this.verdict.className = `verdict ${kind}`;
    this.verdict.replaceChildren(element("strong", {}, word), element("p", {}, sentence));
  }

  /** Show the inputs and outputs of a signature. */
  select(signature) {
    this.stop();
    this.signature = signature;
    this.times = [];
    const first = signature === this.entry.signatures[0];
    this.samples = first ? this.entry.pairs : [];
    this.inputs = signature.inputs.map((tensor) => this.makeInput(tensor));
    const outputs = signature.outputs.map((tensor) => single(tensor, signature.batch));
    const shown = outputs.filter((tensor) => tensor.kind !== "attention");
    this.views = new Map(shown.map((tensor) => [tensor.name, new OutputView(tensor, shown.length === 1)]));
    this.problem = element("p", { class: "problem", role: "alert" });
    this.clock = element("p", { class: "soft clock" });
    this.unseen = element("p", { class: "soft" });
    const answers = [element("h2", {}, "Answer"), ...Array.from(this.views.values(), (view) => view.element)];
    this.body.replaceChildren(
      element(
        "div",
        { class: "columns" },
        element("section", {}, element("h2", {}, "Input"), ...this.namedInputs(), this.makeBatch()),
        element("section", {}, ...answers, this.clock, this.unseen, this.problem),
      ),
      ...this.makeSources(),
    );
    if (this.samples.length) this.take(0);
    else this.answer();
  }

  makeInput(whole) {
    const tensor = single(whole, this.signature.batch);
    const changed = () => this.answer();
    if (tensor.kind === "image") {
      const samples = this.samples.map((pair) => this.sample(pair, whole));
      return new ImageInput(tensor, changed, samples, this.entry.source !== "random");
    }
    if (tensor.kind === "window") {
      const fitting = this.recordings.filter((recording) =>
        tensor.names.every((name) => recording.columns.includes(name)),
      );
      return new WindowInput(
        tensor,
        changed,
        tensor.names.length ? fitting : [],
        this.entry.sampling_rate_hz,
      );
    }
    return new ValuesInput(tensor, changed);
  }

  /** One sample of a golden pair, in real values. */
  sample(pair, tensor) {
    const real = toReal(decode(pair.inputs[tensor.name], tensor), tensor);
    return real.slice(0, size(single(tensor, this.signature.batch)));
  }

  makeBatch() {
    const { batch } = this.signature;
    if (batch === 1) return null;
    return element(
      "p",
      { class: "soft" },
      `The file takes ${batch} inputs at a time. It is given this one ${batch} times, and the first answer is shown.`,
    );
  }

  namedInputs() {
    if (this.inputs.length === 1) return [this.inputs[0].element];
    return this.signature.inputs.flatMap(({ name }, at) => [
      element("h3", {}, name),
      this.inputs[at].element,
    ]);
  }

  makeSources() {
    const sources = this.inputs.map((input) => input.sources ?? null);
    const parts = [this.makeSignatures(), this.makeSamples(), ...sources].filter((part) => part !== null);
    return parts.length ? [element("section", {}, element("h2", {}, "Other inputs"), ...parts)] : [];
  }

  makeSignatures() {
    const { signatures } = this.entry;
    if (signatures.length === 1) return null;
    const choice = element(
      "select",
      { change: () => this.select(signatures[choice.value]) },
      ...signatures.map((signature, at) =>
        element("option", { value: at, selected: signature === this.signature }, signature.key),
      ),
    );
    return element("div", { class: "row" }, labelled("Signature", choice));
  }

  makeSamples() {
    if (!this.samples.length) return null;
    const [tensor] = this.signature.inputs;
    const [input] = this.inputs;
    const buttons = this.samples.map((pair, at) =>
      element(
        "button",
        { type: "button", click: () => this.take(at), "aria-label": `Sample ${pair.sample}` },
        input.thumbnail?.(this.sample(pair, tensor)) ?? String(pair.sample),
      ),
    );
    return element(
      "div",
      { class: "samples", role: "group", "aria-label": "Bundled samples" },
      element("span", { class: "soft" }, "Samples"),
      ...buttons,
    );
  }

  /** Answer a bundled sample. */
  take(at) {
    this.signature.inputs.forEach((tensor, position) => {
      this.inputs[position].fill(this.sample(this.samples[at], tensor));
    });
    return this.answer();
  }

  /** Answer what the inputs hold; while an answer is made, one more waits. */
  async answer() {
    if (this.running) {
      this.waiting = true;
      return;
    }
    this.running = true;
    try {
      do {
        this.waiting = false;
        await this.answerOnce();
      } while (this.waiting);
      this.problem.textContent = "";
    } catch (error) {
      for (const view of this.views.values()) view.clear();
      this.clock.textContent = this.unseen.textContent = "";
      this.problem.textContent = reason(error);
    } finally {
      this.running = false;
    }
  }

  async answerOnce() {
    const { signature } = this;
    const { batch } = signature;
    const given = {};
    signature.inputs.forEach((tensor, at) => {
      const bytes = bytesOf(toStored(this.inputs[at].read(), single(tensor, batch)));
      given[tensor.name] = repeated(bytes, batch);
    });
    const { outputs, milliseconds } = await this.model.run(signature.key, given);
    if (signature !== this.signature) return;
    this.last = outputs;
    const unseen = [];
    for (const whole of signature.outputs) {
      const tensor = single(whole, batch);
      const real = toReal(asArray(outputs[tensor.name], whole), whole).slice(0, size(tensor));
      if (tensor.kind !== "attention") this.views.get(tensor.name).show(real);
      else if (!this.inputs.some((input) => input.showAttention?.(real, tensor))) unseen.push(tensor.name);
    }
    this.unseen.textContent = unseen.length ? `Attention that fits no input: ${unseen.join(", ")}.` : "";
    this.times = [...this.times.slice(1 - TIMED), milliseconds];
    const middle = [...this.times].sort((first, second) => first - second)[this.times.length >> 1];
    this.clock.textContent = `${middle.toFixed(2)} ms per answer on this device (median of ${this.times.length}).`;
  }

  /** Stop what moves by itself. */
  stop() {
    this.inputs?.forEach((input) => input.stop?.());
  }
}
