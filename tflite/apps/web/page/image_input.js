// Images: drawn, loaded from a picture, or a bundled sample. Beside them, what the model sees.

import { overImage } from "./attention.js";
import { DrawPad } from "./draw_pad.js";
import { element, labelled } from "./dom.js";
import { fromRgba, paint, readPicture } from "./pictures.js";
import { RangeChoice, UNKNOWN, nameOf } from "./pixel_range.js";
import { rasterize, styleOf } from "./strokes.js";
import { denormalize, normalize } from "./tensors.js";

const LARGEST_DRAWING = 64;
const LEVELS = 255;

/**
 * An image of the model's size. `samples` are real values of the file; `areReal` tells whether they are
 * images, and not random numbers.
 */
export class ImageInput {
  constructor(tensor, changed, samples, areReal) {
    const [height, width, channels] = tensor.shape.slice(1);
    Object.assign(this, { tensor, changed, height, width, channels, range: tensor.pixel_range });
    this.samples = samples.map((real) => denormalize(real, tensor.normalization));
    this.examples = areReal ? this.samples : [];
    this.seen = element("canvas", {
      class: "seen",
      role: "img",
      "aria-label": "The image that the model is given.",
    });
    this.note = element("p", { class: "soft" });
    this.problem = element("p", { class: "problem", role: "alert" });
    const views = [];
    if (channels === 1 && Math.max(height, width) <= LARGEST_DRAWING) views.push(this.makePad());
    views.push(element("div", { class: "view" }, this.seen, this.note));
    this.sources = element("div", {}, this.makePicker(), this.problem);
    this.element = element("div", {}, element("div", { class: "beside" }, ...views), ...this.makeRemarks());
    this.useRange();
    this.take(this.paper());
  }

  makePad() {
    this.pad = new DrawPad(() => this.drawn());
    const clear = element("button", { type: "button", click: () => this.clear() }, "Clear");
    return element("div", { class: "view" }, this.pad.canvas, clear);
  }

  makeRemarks() {
    const parts = [];
    if (!this.range) {
      this.choice = new RangeChoice(() => this.chosen());
      parts.push(this.choice.element);
    }
    if (this.pad && !this.examples.length) {
      parts.push(
        element(
          "p",
          { class: "soft" },
          "No image that the model was made with is at hand, so drawings are light on dark and fill the " +
            "middle, as in most sets of signs. “Swap dark and light” turns them round.",
        ),
      );
    }
    return parts;
  }

  makePicker() {
    this.file = element("input", { type: "file", accept: "image/*", change: () => this.load() });
    const row = element("div", { class: "row" }, labelled("Load a picture", this.file));
    if (this.channels === 1) {
      this.invert = element("input", { type: "checkbox", change: () => this.swap() });
      row.append(element("label", { class: "check" }, this.invert, " Swap dark and light"));
    }
    return row;
  }

  chosen() {
    this.range = this.choice?.range ?? null;
    if (!this.values) return;
    this.useRange();
    if (this.pad?.strokes.length) this.drawn();
    else if (this.own) this.give(this.own);
    else this.show(null);
  }

  /** How drawings lie in the image, as the samples show it: ink is what differs from the paper at the edge. */
  useRange() {
    const images = this.range ? this.examples.map((image) => this.sharesOf(image)) : [];
    this.darkInk = images.length > 0 && images.every((image) => image[0] > 0.5);
    const inked = this.darkInk ? images.map(swapped) : images;
    this.style = styleOf(inked, this.height, this.width);
  }

  clear() {
    this.pad.clear();
    this.give(this.paper());
  }

  paper() {
    const paper = new Float64Array(this.height * this.width * this.channels);
    return this.pad && this.darkInk !== this.isSwapped() ? swapped(paper) : paper;
  }

  drawn() {
    const ink = rasterize(this.pad.strokes, this.height, this.width, this.style);
    this.file.value = "";
    this.give(this.darkInk !== this.isSwapped() ? swapped(ink) : ink);
  }

  isSwapped() {
    return this.invert?.checked ?? false;
  }

  swap() {
    if (this.own) this.give(swapped(this.own));
  }

  async load() {
    this.problem.textContent = "";
    if (!this.file.files.length) return;
    try {
      const shares = fromRgba(await readPicture(this.file.files[0], this.height, this.width), this.channels);
      this.pad?.clear();
      this.give(this.isSwapped() ? swapped(shares) : shares);
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  give(shares) {
    this.take(shares);
    this.changed();
  }

  /** Take a picture or a drawing, from 0 to 1. */
  take(shares) {
    this.own = shares;
    this.values = this.range
      ? Float64Array.from(shares, (share) => this.fromShare(share))
      : new Float64Array(shares.length);
    this.show(null);
  }

  /** What the model is to be given, in real values; throws where the numbers of a picture are not known. */
  read() {
    if (this.own && !this.range) throw new Error(UNKNOWN);
    return normalize(this.values, this.tensor.normalization);
  }

  /** Take a sample, given as the file's real values. */
  fill(real) {
    this.pad?.clear();
    this.file.value = "";
    this.own = null;
    this.values = Float64Array.from(denormalize(real, this.tensor.normalization));
    this.show(null);
  }

  /** Show where the model looked; returns whether this output could be shown. */
  showAttention(real, output) {
    const attention = overImage(real, output, this.height, this.width);
    if (attention) this.show(attention);
    return attention !== null;
  }

  show(attention) {
    const shares = this.own && !this.range ? this.own : this.sharesOf(this.values);
    paint(this.seen, shares, this.height, this.width, this.channels, attention);
    const size = `${this.height} × ${this.width} pixels`;
    const numbers = this.range
      ? `, ${nameOf(this.range)}`
      : this.own
        ? "; which numbers, is not known"
        : `, in this sample ${nameOf(endsOf(this.values))}`;
    this.note.textContent = `What the model sees: ${size}${numbers}.${attention ? " Orange: where it looks." : ""}`;
  }

  /** A thumbnail of a sample, given as the file's real values. */
  thumbnail(real) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const shares = this.sharesOf(denormalize(real, this.tensor.normalization));
    paint(canvas, shares, this.height, this.width, this.channels);
    return canvas;
  }

  /** Values from 0 to 1 as they are shown; without a known range from the least to the most. */
  sharesOf(values) {
    const [least, most] = this.range ?? endsOf(values);
    const spread = most - least || 1;
    return values.map((value) => Math.min(1, Math.max(0, (value - least) / spread)));
  }

  fromShare(share) {
    const [least, most] = this.range;
    const value = least + share * (most - least);
    return Math.abs(most - least) === LEVELS ? Math.round(value) : value;
  }
}

function swapped(shares) {
  return shares.map((share) => 1 - share);
}

function endsOf(values) {
  return [Math.min, Math.max].map((choose) => values.reduce((found, value) => choose(found, value)));
}
