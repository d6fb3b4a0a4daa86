// Elements made from data. Every text becomes a text node, so that a label can never become markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "line", "text"]);

/** An element with attributes (those that are functions are listeners) and children (elements or texts). */
export function element(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

let count = 0;

/** A name for an element that a label or a description refers to. */
export function newId() {
  count += 1;
  return `part-${count}`;
}

/** A label above a control, which may stand in a row of controls. */
export function labelled(text, control) {
  if (!control.id) control.id = newId();
  return element("div", { class: "field" }, element("label", { for: control.id }, text), control);
}

/** A number for people: four digits that count. */
export function plain(number) {
  if (!Number.isFinite(number)) return String(number);
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return String(number);
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e6)
    ? number.toExponential(2)
    : String(+number.toPrecision(4));
}

/** What went wrong, in the words of the error. */
export function reason(error) {
  return error instanceof Error ? error.message : String(error);
}
