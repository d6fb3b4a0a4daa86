// Recordings as text: columns found by name in any order, and brought to the model's sampling rate.

const SECONDS = { time: 1, t: 1, seconds: 1, time_s: 1, time_ms: 1e-3, time_us: 1e-6, time_ns: 1e-9 };

/**
 * Read a CSV text.
 *
 * Returns `{length, rate, values}`: values row after row in the order of `features`, and the sampling rate
 * that a column of times tells, or null without one.
 */
export function readRecording(text, features) {
  const lines = text
    .replace(/^\ufeff/, "")
    .split(/\r\n|\r|\n/)
    .filter((line) => line.trim() !== "");
  if (lines.length < 3)
    throw new Error("The recording needs a line of column names and two or more of numbers.");
  const separator = [",", ";", "\t"].find((character) => lines[0].includes(character)) ?? ",";
  const names = split(lines[0], separator);
  const columns = features.map((feature) => {
    const at = names.indexOf(feature);
    if (at < 0) {
      throw new Error(`The recording has no column "${feature}". Its columns: ${names.join(", ")}.`);
    }
    return at;
  });
  const clock = names.findIndex((name) => Object.hasOwn(SECONDS, name.toLowerCase()));
  const rows = lines.slice(1).map((line, row) =>
    split(line, separator).map((cell, at) => {
      const number = cell === "" ? NaN : Number(separator === ";" ? cell.replace(",", ".") : cell);
      if (!Number.isFinite(number) && (columns.includes(at) || at === clock)) {
        throw new Error(`Line ${row + 2} of the recording: "${cell}" in column "${names[at]}" is no number.`);
      }
      return number;
    }),
  );
  const short = rows.findIndex((row) => columns.some((at) => at >= row.length));
  if (short >= 0) throw new Error(`Line ${short + 2} of the recording has too few columns.`);
  const values = Float64Array.from(rows.flatMap((row) => columns.map((at) => row[at])));
  return { length: rows.length, rate: clock < 0 ? null : rateOf(rows, clock, names[clock]), values };
}

/** The same recording with so many samples a second, by straight lines between its samples. */
export function resample(recording, rate) {
  if (!recording.rate || !rate || Math.abs(recording.rate / rate - 1) < 0.005) return { ...recording, rate };
  const width = recording.values.length / recording.length;
  const length = Math.floor(((recording.length - 1) * rate) / recording.rate) + 1;
  const values = new Float64Array(length * width);
  for (let row = 0; row < length; row += 1) {
    const position = Math.min((row * recording.rate) / rate, recording.length - 1);
    const before = Math.min(Math.floor(position), recording.length - 2);
    const share = position - before;
    for (let column = 0; column < width; column += 1) {
      const [first, second] = [before, before + 1].map((at) => recording.values[at * width + column]);
      values[row * width + column] = first + share * (second - first);
    }
  }
  return { length, rate, values };
}

function rateOf(rows, clock, name) {
  const unit = SECONDS[name.toLowerCase()];
  const duration = (rows.at(-1)[clock] - rows[0][clock]) * unit;
  if (!(duration > 0)) throw new Error(`The times in column "${name}" don't grow.`);
  return (rows.length - 1) / duration;
}

function split(line, separator) {
  return line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
}
