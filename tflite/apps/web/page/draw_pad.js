// A square to draw on with mouse, finger or pen. It keeps strokes, not pixels.

import { element } from "./dom.js";

const SIDE = 256;
const PEN = 18;

/** A canvas with `strokes`: lists of [x, y] in canvas pixels. */
export class DrawPad {
  constructor(changed) {
    this.strokes = [];
    this.changed = changed;
    this.pointer = null;
    this.canvas = element("canvas", {
      class: "pad",
      width: SIDE,
      height: SIDE,
      role: "img",
      "aria-label":
        "Drawing area for mouse, finger or pen. Without these, choose a sample or a picture below.",
      pointerdown: (event) => this.start(event),
      pointermove: (event) => this.move(event),
      pointerup: (event) => this.end(event),
      pointercancel: (event) => this.end(event),
    });
    this.draw();
  }

  /** Start anew. */
  clear() {
    this.strokes = [];
    this.draw();
  }

  start(event) {
    if (this.pointer !== null || event.button !== 0) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.pointer = event.pointerId;
    this.strokes.push([this.place(event)]);
    this.draw();
  }

  move(event) {
    if (event.pointerId !== this.pointer) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const part of events.length ? events : [event]) this.strokes.at(-1).push(this.place(part));
    this.draw();
    this.changed();
  }

  end(event) {
    if (event.pointerId !== this.pointer) return;
    this.pointer = null;
    this.changed();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  draw() {
    const context = this.canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, SIDE, SIDE);
    context.strokeStyle = "#111";
    context.lineWidth = PEN;
    context.lineCap = "round";
    context.lineJoin = "round";
    if (!this.strokes.length) {
      context.fillStyle = "#667";
      context.font = "22px system-ui, sans-serif";
      context.textAlign = "center";
      context.fillText("Draw here", SIDE / 2, SIDE / 2 + 8);
    }
    for (const stroke of this.strokes) {
      context.beginPath();
      for (const [x, y] of stroke) context.lineTo(x, y);
      if (stroke.length === 1) context.lineTo(stroke[0][0], stroke[0][1]);
      context.stroke();
    }
  }
}
