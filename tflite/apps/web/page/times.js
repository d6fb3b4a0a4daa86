// The column of times in a recording: which it is, in which unit, at which rate, and what is missing.

const NAMED =
  /^(time|timestamp|seconds_elapsed|seconds|t)(?:(?:[\s_]+|[\s_]*[[(])(s|sec|seconds|ms|us|µs|ns)[\])]?)?$/i;
const DATE = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:?\d\d)?$/i;
const SECONDS = { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };
const WORDS = { s: "seconds", ms: "milliseconds", us: "microseconds", ns: "nanoseconds" };
const UNITS = { sec: "s", seconds: "s", µs: "us" };
const USUAL_RATE = 50;
const GAP = 1.5; // of the usual step: then a sample is missing

/** Which column holds times: `{at, unit}`, the unit null where its name doesn't say it; null without one. */
export function clockOf(names, features) {
  const found = names.flatMap((name, at) => {
    const parts = NAMED.exec(name);
    // "T" is a temperature, and a feature is no clock.
    if (!parts || parts[1] === "T" || features.includes(name)) return [];
    const said = (parts[2] ?? (parts[1].toLowerCase().startsWith("seconds") ? "s" : "")).toLowerCase();
    return [{ at, unit: UNITS[said] ?? (said || null) }];
  });
  return found.find((clock) => clock.unit !== null) ?? found[0] ?? null;
}

/**
 * What a column of times tells: `{seconds, rate, unit, gaps}`, seconds from the first row on.
 *
 * Args: cells as `{line, cell}`, the column's name and unit, how a number is read, and the model's rate.
 */
export function readTimes(cells, name, unit, read, rate) {
  const areDates = DATE.test(cells[0].cell);
  const stored = cells.map(({ line, cell }) => {
    const number = areDates ? secondsOf(cell) : read(cell);
    if (Number.isFinite(number)) return number;
    throw new Error(
      `Line ${line} of the recording: "${cell}" in column "${name}" is no ` +
        (areDates
          ? "date and time like those above it."
          : "number, nor a date like 2026-05-01T12:00:00.02Z."),
    );
  });
  const steps = stored.slice(1).map((time, at) => time - stored[at]);
  const back = steps.findIndex((step) => !(step > 0));
  if (back >= 0) {
    const [before, after] = [cells[back], cells[back + 1]];
    throw new Error(
      `Line ${after.line} of the recording: the time ${after.cell} in column "${name}" doesn't come after ` +
        `${before.cell} in the line before. Put the rows in order, or rename the column and say how many ` +
        "samples a second there are.",
    );
  }
  const usual = [...steps].sort((first, second) => first - second)[steps.length >> 1];
  const told = areDates ? "s" : (unit ?? nearestUnit(usual, rate ?? USUAL_RATE));
  const scale = SECONDS[told];
  const even = steps.filter((step) => step <= GAP * usual);
  return {
    seconds: Float64Array.from(stored, (time) => (time - stored[0]) * scale),
    rate: even.length / (even.reduce((sum, step) => sum + step, 0) * scale),
    unit: areDates ? "dates" : WORDS[told],
    gaps: steps.flatMap((step, at) =>
      step > GAP * usual ? [{ line: cells[at].line, seconds: step * scale }] : [],
    ),
  };
}

/** The unit in which such steps give the rate that is nearest to the expected one. */
function nearestUnit(step, rate) {
  const distance = (unit) => Math.abs(Math.log(step * SECONDS[unit] * rate));
  return Object.keys(SECONDS).reduce((best, unit) => (distance(unit) < distance(best) ? unit : best));
}

/** Seconds since 1970, to the last digit; a time without a zone is taken as it is. */
function secondsOf(text) {
  const [, day, minute, second = "00", fraction = "0", zone = "Z"] = DATE.exec(text) ?? [];
  const whole = day ? Date.parse(`${day}T${minute}:${second}${zone.toUpperCase()}`) : NaN;
  return whole / 1000 + Number(`0.${fraction}`);
}
