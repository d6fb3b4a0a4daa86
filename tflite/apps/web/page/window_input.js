// Windows of a recording: scrubbed by a slider, played, loaded from CSV, or a bundled sample.

import { overTime } from "./attention.js";
import { readAsset } from "./assets.js";
import { Chart } from "./chart.js";
import { atRate, listed, readRecording } from "./csv.js";
import { element, labelled, plain } from "./dom.js";
import { denormalize, normalize, size } from "./tensors.js";

const TICK = 100; // milliseconds between two windows while playing
const UNKNOWN_RATE = 50;

/** A window of the model's length. */
export class WindowInput {
  constructor(tensor, changed, recordings, rate) {
    const [length, width] = tensor.shape.slice(1);
    Object.assign(this, { tensor, changed, length, rate, timer: null });
    this.names = tensor.names.length
      ? tensor.names
      : Array.from({ length: width }, (_, at) => `channel ${at}`);
    this.recording = { length, rate, values: new Float64Array(size(tensor)) };
    this.chart = new Chart(
      this.names.map((name, at) => (tensor.units[at] ? `${name} (${tensor.units[at]})` : name)),
    );
    this.problem = element("p", { class: "problem", role: "alert" });
    this.notes = element("div", { role: "status" });
    this.element = element("div", {}, this.chart.element, this.makePlayer());
    this.sources = element("div", {}, this.makeSource(recordings), this.notes, this.problem);
    this.show(null);
  }

  makeSource(recordings) {
    this.file = element("input", {
      type: "file",
      accept: ".csv,.tsv,.txt,text/csv",
      change: () => this.load(),
    });
    this.fileRate = element("input", {
      type: "number",
      min: 0.001,
      step: "any",
      value: this.rate ?? "",
      change: () => this.again(),
    });
    const row = element(
      "div",
      { class: "row" },
      labelled(`Load a CSV file with the columns ${listed(this.names)}`, this.file),
      labelled("Samples a second, where the file has no column of times", this.fileRate),
    );
    this.recordings = recordings;
    if (recordings.length) {
      this.choice = element(
        "select",
        { change: () => this.choose() },
        element("option", { value: "" }, "choose"),
        ...recordings.map((recording, at) => element("option", { value: at }, recording.name)),
      );
      row.prepend(labelled("Bundled recording", this.choice));
    }
    return row;
  }

  makePlayer() {
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, input: () => this.scrub() });
    this.play = element(
      "button",
      { type: "button", "aria-pressed": "false", click: () => this.toggle() },
      "Play",
    );
    this.player = element(
      "div",
      { class: "player" },
      this.play,
      labelled("Start of the window", this.slider),
    );
    return this.player;
  }

  async choose() {
    if (this.choice.value === "") return;
    await this.attempt(async () => {
      const text = new TextDecoder().decode(await readAsset(this.recordings[this.choice.value].path));
      this.file.value = "";
      this.open(text);
    });
  }

  async load() {
    if (!this.file.files.length) return;
    await this.attempt(async () => {
      const text = await this.file.files[0].text();
      if (this.choice) this.choice.value = "";
      this.open(text);
    });
  }

  /** The same recording at another rate. */
  async again() {
    if (this.file.files.length) await this.load();
    else if (this.choice) await this.choose();
  }

  async attempt(work) {
    this.problem.textContent = "";
    this.notes.replaceChildren();
    this.stop();
    try {
      await work();
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  open(text) {
    const told = Number(this.fileRate.value);
    const { notes, ...found } = atRate(
      readRecording(text, this.names, this.rate),
      this.rate,
      told > 0 ? told : this.rate,
    );
    this.notes.replaceChildren(...notes.map((note) => element("p", { class: "soft" }, note)));
    if (found.length < this.length) {
      throw new Error(
        `The recording has ${found.length} samples at the model's rate; a window takes ${this.length}.`,
      );
    }
    this.recording = found;
    this.slider.max = found.length - this.length;
    this.slider.value = 0;
    this.scrub();
  }

  scrub() {
    this.show(null);
    this.changed();
  }

  toggle() {
    if (this.timer !== null) {
      this.stop();
      return;
    }
    const hop = Math.max(1, Math.round(((this.recording.rate ?? UNKNOWN_RATE) * TICK) / 1000));
    if (Number(this.slider.value) >= Number(this.slider.max)) this.slider.value = 0;
    this.play.textContent = "Pause";
    this.play.setAttribute("aria-pressed", "true");
    this.timer = setInterval(() => {
      const next = Math.min(Number(this.slider.value) + hop, Number(this.slider.max));
      this.slider.value = next;
      this.scrub();
      if (next >= Number(this.slider.max)) this.stop();
    }, TICK);
  }

  /** Stop playing. */
  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
    this.play.setAttribute("aria-pressed", "false");
  }

  /** The window at the slider, as measured. */
  window() {
    const width = size(this.tensor) / this.length;
    const start = Number(this.slider.value) * width;
    return this.recording.values.slice(start, start + size(this.tensor));
  }

  /** What the model is to be given, in real values. */
  read() {
    return normalize(this.window(), this.tensor.normalization);
  }

  /** Take a sample, given as the file's real values. */
  fill(real) {
    this.stop();
    this.recording = {
      length: this.length,
      rate: this.rate,
      values: denormalize(real, this.tensor.normalization),
    };
    if (this.choice) this.choice.value = "";
    this.file.value = "";
    this.notes.replaceChildren();
    this.slider.max = this.slider.value = 0;
    this.show(null);
  }

  /** Show where the model looked; returns whether this output could be shown. */
  showAttention(real, output) {
    const weights = overTime(real, output, this.length);
    if (weights) this.show(weights);
    return weights !== null;
  }

  show(weights) {
    const moving = Number(this.slider.max) > 0;
    this.player.hidden = !moving;
    const { rate } = this.recording;
    const at = (sample) => (rate ? `${plain(sample / rate)} s` : `sample ${sample}`);
    const start = Number(this.slider.value);
    const title = moving
      ? `From ${at(start)} to ${at(start + this.length)} of ${at(this.recording.length)}.`
      : "One window.";
    this.slider.setAttribute("aria-valuetext", at(start));
    this.chart.draw(this.window(), this.length, weights, title);
  }
}
