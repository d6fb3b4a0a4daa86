// Attention outputs as one weight per time step or place of an input.

/**
 * How much attention each of `length` time steps gets, 1 for the most; null if the output doesn't say.
 *
 * The last axis longer than one is the one attended to; heads and queries are averaged. A model that
 * shortens its sequence attends to stretches of several steps.
 */
export function overTime(real, tensor, length) {
  const weights = averageOverQueries(real, tensor);
  if (weights.length < 2 || weights.length > length) return null;
  return relative(Array.from({ length }, (_, at) => weights[Math.floor((at * weights.length) / length)]));
}

/**
 * The same for an image: `{rows, columns, weights}`, or null.
 *
 * A map of rows and columns (and channels, which are averaged) lies over the image as it is; else the last
 * axis counts patches, row after row.
 */
export function overImage(real, tensor, height, width) {
  const [rows, columns, channels = 1] = tensor.shape.slice(1);
  const isMap = tensor.shape.length >= 3 && rows <= height && columns <= width && rows > 1;
  if (isMap && Math.abs(rows / columns - height / width) < 0.01) {
    const places = Array.from({ length: rows * columns }, (_, at) => mean(real, at * channels, channels));
    return { rows, columns, weights: relative(places) };
  }
  const weights = averageOverQueries(real, tensor);
  // A class token stands before the patches.
  for (const first of [0, 1]) {
    const rows = Math.round(Math.sqrt(((weights.length - first) * height) / width));
    const columns = Math.round((rows * width) / height);
    if (rows > 1 && rows * columns === weights.length - first) {
      return { rows, columns, weights: relative(weights.slice(first)) };
    }
  }
  return null;
}

function averageOverQueries(real, tensor) {
  const shape = tensor.shape.slice(1).filter((length) => length > 1);
  const keys = shape.at(-1) ?? 1;
  const queries = real.length / keys;
  return Array.from({ length: keys }, (_, key) => {
    let sum = 0;
    for (let query = 0; query < queries; query += 1) sum += real[query * keys + key];
    return sum / queries;
  });
}

function mean(numbers, start, count) {
  let sum = 0;
  for (let at = start; at < start + count; at += 1) sum += numbers[at];
  return sum / count;
}

/** Between the least and the most attention, so that small differences are seen. */
function relative(weights) {
  const least = Math.min(...weights);
  const most = Math.max(...weights);
  return weights.map((weight) => (most > least ? (weight - least) / (most - least) : 0));
}
