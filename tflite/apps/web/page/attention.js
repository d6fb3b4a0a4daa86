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

/** The same for an image: `{rows, columns, weights}`, or null. */
export function overImage(real, tensor, height, width) {
  const shape = tensor.shape.slice(1);
  if (shape.length === 3 && shape[0] > 1 && Math.abs(shape[0] / shape[1] - height / width) < 0.01) {
    const [rows, columns, channels] = shape;
    const weights = Array.from({ length: rows * columns }, (_, at) => mean(real, at * channels, channels));
    return { rows, columns, weights: relative(weights) };
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
