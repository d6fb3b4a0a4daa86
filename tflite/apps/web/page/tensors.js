// Numbers between the page and the file: stored types, and steps of a quantized tensor.

import { fromBase64 } from "./assets.js";

const ARRAYS = {
  bool: Uint8Array,
  float32: Float32Array,
  float64: Float64Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  int8: Int8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint8: Uint8Array,
};
const LIMITS = {
  bool: [0, 1],
  int16: [-32768, 32767],
  int32: [-2147483648, 2147483647],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  int8: [-128, 127],
  uint16: [0, 65535],
  uint32: [0, 4294967295],
  uint8: [0, 255],
};

/** The tensor as it is for one sample of a batch. */
export function single(tensor, batch) {
  return batch === 1 ? tensor : { ...tensor, shape: [1, ...tensor.shape.slice(1)] };
}

/** The same bytes so many times. */
export function repeated(bytes, times) {
  const found = new Uint8Array(bytes.length * times);
  for (let at = 0; at < times; at += 1) found.set(bytes, at * bytes.length);
  return found;
}

/** Refuse numbers that choose a row which the model's table lacks: the runtime would answer nonsense. */
export function checkRows(numbers, tensor) {
  if (tensor.below === null) return;
  const wrong = numbers.findIndex((number) => !(number >= 0 && number < tensor.below));
  if (wrong < 0) return;
  throw new Error(
    `"${tensor.name}" takes numbers from 0 to ${tensor.below - 1}, the rows of its table; ` +
      `there is ${numbers[wrong]} at place ${wrong + 1}.`,
  );
}

/** How many numbers a tensor has. */
export function size(tensor) {
  return tensor.shape.reduce((product, length) => product * length, 1);
}

/** Bytes as numbers of the tensor's type. */
export function asArray(bytes, tensor) {
  const kind = ARRAYS[tensor.dtype];
  if (!kind) throw new Error(`"${tensor.name}" has the type ${tensor.dtype}, which this page doesn't know.`);
  const expected = size(tensor) * kind.BYTES_PER_ELEMENT;
  if (bytes.length !== expected) {
    throw new Error(`"${tensor.name}" has ${bytes.length} bytes, not the ${expected} of its shape.`);
  }
  return new kind(bytes.slice().buffer);
}

/** The numbers of a base64 text, in the tensor's type. */
export function decode(text, tensor) {
  return asArray(fromBase64(text), tensor);
}

/** Stored numbers as real ones, in float64. */
export function toReal(stored, tensor) {
  const real = Float64Array.from(stored, Number);
  if (tensor.scale === null || tensor.dtype.startsWith("float")) return real;
  return real.map((step) => Math.fround((step - tensor.zero_point) * tensor.scale));
}

/** Real numbers as the file stores them: rounded to steps, and kept within the type's limits. */
export function toStored(real, tensor) {
  if (real.length !== size(tensor)) {
    throw new Error(`"${tensor.name}" takes ${size(tensor)} numbers, not ${real.length}.`);
  }
  checkRows(real, tensor);
  const kind = ARRAYS[tensor.dtype];
  if (tensor.dtype.startsWith("float")) return kind.from(real);
  const [least, most] = LIMITS[tensor.dtype];
  const steps = Array.from(real, (value) => {
    const step = tensor.scale === null ? value : value / tensor.scale;
    return Math.min(
      most,
      Math.max(least, roundToEven(step) + (tensor.scale === null ? 0 : tensor.zero_point)),
    );
  });
  return tensor.dtype === "int64" ? kind.from(steps, BigInt) : kind.from(steps);
}

/** The bytes of an array of numbers. */
export function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** (x - mean) / std for each entry of the last axis, in float32 as the training did it. */
export function normalize(real, normalization) {
  if (!normalization) return real;
  const { mean, std } = normalization;
  const round = Math.fround;
  return real.map((value, at) => {
    const entry = at % mean.length;
    return round(round(round(value) - round(mean[entry])) / round(std[entry]));
  });
}

/** The other way round: what was measured, from what the file was given. */
export function denormalize(real, normalization) {
  if (!normalization) return real;
  const { mean, std } = normalization;
  return real.map((value, at) => value * std[at % std.length] + mean[at % mean.length]);
}

/** As NumPy rounds: halves to the even neighbour. */
function roundToEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}
