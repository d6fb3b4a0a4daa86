// Recordings as text: columns found by name in any order, and brought to the model's sampling rate.

import { plain } from "./dom.js";
import { clockOf, readTimes } from "./times.js";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const SEPARATORS = [",", ";", "\t"];

/**
 * Read a CSV text.
 *
 * Returns `{length, values, clock}`: values row after row in the order of `features`, and what the column of
 * times tells (see `readTimes`), or null without one. `rate` is the model's, which tells units of time apart.
 */
export function readRecording(text, features, rate = null) {
  const { separator, rows: all } = parse(text);
  const [head, ...rows] = all;
  if (rows.length < 2) {
    throw new Error("The recording needs a line of column names and two or more of numbers.");
  }
  const names = head.cells;
  const columns = features.map((feature) => columnOf(names, feature));
  const clock = clockOf(names, features);
  const read = (cell) => {
    const plainCell = separator === "," ? cell : cell.replace(",", ".");
    return NUMBER.test(plainCell) ? Number(plainCell) : NaN;
  };
  const values = new Float64Array(rows.length * columns.length);
  rows.forEach(({ line, cells }, row) => {
    if (cells.length !== names.length) {
      throw new Error(
        `Line ${line} of the recording has ${cells.length} fields, and the first line names ${names.length}.`,
      );
    }
    columns.forEach((at, column) => {
      const number = read(cells[at]);
      if (!Number.isFinite(number)) {
        throw new Error(
          `Line ${line} of the recording: "${cells[at]}" in column "${names[at]}" is no number.`,
        );
      }
      values[row * columns.length + column] = number;
    });
  });
  const times = clock && {
    name: names[clock.at],
    ...readTimes(
      rows.map(({ line, cells }) => ({ line, cell: cells[clock.at] })),
      names[clock.at],
      clock.unit,
      read,
      rate,
    ),
  };
  return { length: rows.length, values, clock: times };
}

/**
 * The recording at the model's rate, by straight lines between its samples, and what to say of it.
 *
 * `told` is the rate where there is no column of times; null where nobody knows it.
 */
export function atRate({ length, values, clock }, rate, told) {
  const found = clock ? clock.rate : told;
  const notes = [describe(clock, found, told !== rate)];
  const differs = Boolean(found && rate && Math.abs(found / rate - 1) >= 0.005);
  if (differs) {
    notes[0] += ` The model takes ${plain(rate)}: brought to that by straight lines between the samples.`;
  }
  if (clock?.gaps.length) notes.push(describeGaps(clock.gaps));
  if (!rate || !(differs || clock?.gaps.length)) return { length, values, rate: rate ?? found, notes };
  const seconds = clock?.seconds ?? Float64Array.from({ length }, (_, at) => at / found);
  return { ...resample(values, seconds, rate), rate, notes };
}

function resample(values, seconds, rate) {
  const width = values.length / seconds.length;
  const duration = seconds.at(-1) - seconds[0];
  const length = Math.floor(duration * rate + 1e-6) + 1;
  const found = new Float64Array(length * width);
  let before = 0;
  for (let row = 0; row < length; row += 1) {
    const now = Math.min(seconds[0] + row / rate, seconds.at(-1));
    while (before < seconds.length - 2 && seconds[before + 1] <= now) before += 1;
    const share = (now - seconds[before]) / (seconds[before + 1] - seconds[before]);
    for (let column = 0; column < width; column += 1) {
      const [first, second] = [before, before + 1].map((at) => values[at * width + column]);
      found[row * width + column] = first + share * (second - first);
    }
  }
  return { length, values: found };
}

function describe(clock, rate, isTold) {
  if (clock) return `Times from column "${clock.name}", in ${clock.unit}: ${plain(rate)} samples a second.`;
  if (!rate) return "There is no column of times, and no sampling rate is known.";
  const origin = isTold ? "as told above" : "as the model takes them";
  return `There is no column of times: taken for ${plain(rate)} samples a second, ${origin}.`;
}

function describeGaps(gaps) {
  const longest = gaps.reduce((most, gap) => (gap.seconds > most.seconds ? gap : most));
  const count = gaps.length === 1 ? "There is a gap" : `There are ${gaps.length} gaps, the longest`;
  return `${count} of ${plain(longest.seconds)} s behind line ${longest.line}: nothing was measured there.`;
}

function columnOf(names, feature) {
  const at = names.indexOf(feature);
  if (at < 0) throw new Error(`The recording has no column "${feature}". Its columns: ${listed(names)}.`);
  if (names.includes(feature, at + 1)) throw new Error(`The recording has two columns "${feature}".`);
  return at;
}

/** Names as a line of a CSV file has them. */
export function listed(names) {
  return names.map((name) => (/[",;\t]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(", ");
}

/** The rows of a CSV text as RFC 4180 has it, each with its line: quoted fields may hold anything. */
export function parse(text) {
  const source = text.replace(/^\ufeff/, "");
  const separator = separatorOf(source);
  const rows = [];
  const bare = new RegExp(`[^${separator}\\r\\n]*`, "y");
  let [at, line] = [0, 1];
  while (at < source.length) {
    const row = { line, cells: [] };
    let goesOn = true;
    while (goesOn) {
      const field = readField(source, at, bare, line);
      row.cells.push(field.text);
      line += field.breaks;
      at = field.end;
      goesOn = source[at] === separator;
      if (goesOn) at += 1;
    }
    at += source.startsWith("\r\n", at) ? 2 : 1;
    line += 1;
    if (row.cells.some((cell) => cell !== "")) rows.push(row);
  }
  return { separator, rows };
}

/** The mark that is most frequent between the names in the first line. */
function separatorOf(source) {
  const [head] = source
    .replace(/"[^"]*"/g, "")
    .trimStart()
    .split(/[\r\n]/, 1);
  const counts = SEPARATORS.map((mark) => head.split(mark).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))];
}

function readField(source, start, bare, line) {
  let at = start;
  while (source[at] === " ") at += 1;
  if (source[at] !== '"') {
    bare.lastIndex = start;
    const [text] = bare.exec(source);
    return { text: text.trim(), end: start + text.length, breaks: 0 };
  }
  let end = source.indexOf('"', at + 1);
  while (end >= 0 && source[end + 1] === '"') end = source.indexOf('"', end + 2);
  if (end < 0) throw new Error(`Line ${line} of the recording: a quotation mark is never closed.`);
  const quoted = source.slice(at + 1, end).replaceAll('""', '"');
  bare.lastIndex = end + 1;
  const [rest] = bare.exec(source);
  if (rest.trim() !== "") {
    throw new Error(`Line ${line} of the recording: "${rest.trim()}" follows a closed quotation mark.`);
  }
  return {
    text: quoted.trim(),
    end: end + 1 + rest.length,
    breaks: quoted.split(/\r\n|\r|\n/).length - 1,
  };
}
