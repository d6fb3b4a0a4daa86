// Images: drawn, loaded from a picture, or a bundled sample. Beside them, what the model sees.

import { overImage } from "./attention.js";
import { DrawPad } from "./draw_pad.js";
import { element, labelled, plain } from "./dom.js";
import { fromRgba, paint, readPicture } from "./pictures.js";
import { rasterize, styleOf } from "./strokes.js";
import { denormalize, normalize } from "./tensors.js";

const LARGEST_DRAWING = 64;
const LEVELS = 255;

/** An image of the model's size. `samples` are the file's real values, which tell the range of pixels. */
export class ImageInput {
  constructor(tensor, changed, samples) {
    const [height, width, channels] = tensor.shape.slice(1);
    Object.assign(this, { tensor, changed, height, width, channels });
    const raw = samples.map((real) => denormalize(real, tensor.normalization));
    this.range = rangeOf(raw, tensor);
    this.values = new Float64Array(height * width * channels);
    this.seen = element("canvas", {
      class: "seen",
      role: "img",
      "aria-label": "The image that the model is given.",
    });
    this.note = element("p", { class: "soft" });
    this.problem = element("p", { class: "problem", role: "alert" });
    const parts = [];
    if (channels === 1 && Math.max(height, width) <= LARGEST_DRAWING) parts.push(this.makePad(raw));
    parts.push(element("div", { class: "view" }, this.seen, this.note));
    this.element = element("div", { class: "beside" }, ...parts);
    this.sources = element("div", {}, this.makePicker(), this.problem);
    this.show(null);
  }

  makePad(raw) {
    const images = raw.map((image) => image.map((value) => this.toShare(value)));
    // Ink is what differs from the paper at the edge.
    this.darkInk = images.length > 0 && images.every((image) => image[0] > 0.5);
    const inked = images.map((image) => (this.darkInk ? image.map((share) => 1 - share) : image));
    const style = styleOf(inked, this.height, this.width);
    this.pad = new DrawPad(() => {
      const ink = rasterize(this.pad.strokes, this.height, this.width, style);
      this.take(this.darkInk ? ink.map((share) => 1 - share) : ink);
    });
    const clear = element("button", { type: "button", click: () => this.clear() }, "Clear");
    return element("div", { class: "view" }, this.pad.canvas, clear);
  }

  makePicker() {
    this.file = element("input", { type: "file", accept: "image/*", change: () => this.load() });
    const row = element("div", { class: "row" }, labelled("Load a picture", this.file));
    if (this.channels === 1) {
      this.invert = element("input", { type: "checkbox", change: () => this.load() });
      row.append(element("label", { class: "check" }, this.invert, " Swap dark and light"));
    }
    return row;
  }

  clear() {
    this.pad.clear();
    this.take(new Float64Array(this.values.length).fill(this.darkInk ? 1 : 0));
  }

  async load() {
    this.problem.textContent = "";
    if (!this.file.files.length) return;
    try {
      const shares = fromRgba(await readPicture(this.file.files[0], this.height, this.width), this.channels);
      this.pad?.clear();
      this.take(this.invert?.checked ? shares.map((share) => 1 - share) : shares);
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  take(shares) {
    this.values = Float64Array.from(shares, (share) => this.fromShare(share));
    this.show(null);
    this.changed();
  }

  /** What the model is to be given, in real values. */
  read() {
    return normalize(this.values, this.tensor.normalization);
  }

  /** Take a sample, given as the file's real values. */
  fill(real) {
    this.pad?.clear();
    this.values = Float64Array.from(denormalize(real, this.tensor.normalization));
    this.show(null);
  }

  /** Show what the model was given and where it looked; returns whether this output could be shown. */
  showAttention(real, output) {
    const attention = overImage(real, output, this.height, this.width);
    if (attention) this.show(attention);
    return attention !== null;
  }

  show(attention) {
    const shares = this.values.map((value) => this.toShare(value));
    paint(this.seen, shares, this.height, this.width, this.channels, attention);
    const size = `${this.height} × ${this.width} pixels, ${this.range.map(plain).join(" to ")}`;
    this.note.textContent = `What the model sees: ${size}.${attention ? " Orange: where it looks." : ""}`;
  }

  toShare(value) {
    const [least, most] = this.range;
    return Math.min(1, Math.max(0, (value - least) / (most - least)));
  }

  fromShare(share) {
    const [least, most] = this.range;
    const value = least + share * (most - least);
    return most === LEVELS ? Math.round(value) : value;
  }
}

/** A thumbnail of a sample. */
export function thumbnail(real, tensor, samples) {
  const raw = samples.map((sample) => denormalize(sample, tensor.normalization));
  const [least, most] = rangeOf(raw, tensor);
  const [height, width, channels] = tensor.shape.slice(1);
  const canvas = element("canvas", { "aria-hidden": "true" });
  const shares = denormalize(real, tensor.normalization).map((value) => (value - least) / (most - least));
  paint(canvas, shares, height, width, channels);
  return canvas;
}

/** The pixels' least and most value. A file doesn't say it, so the samples are looked at. */
function rangeOf(raw, tensor) {
  if (tensor.dtype === "uint8" && tensor.scale === null) return [0, LEVELS];
  const least = Math.min(...raw.map((image) => image.reduce((found, value) => Math.min(found, value), 0)));
  const most = Math.max(...raw.map((image) => image.reduce((found, value) => Math.max(found, value), 0)));
  if (!raw.length || most > 2) return [0, LEVELS];
  return least < -0.01 ? [-1, 1] : [0, 1];
}
