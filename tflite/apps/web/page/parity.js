// Does this browser answer as Python did? The golden pairs of the manifest, replayed.

import { asArray, bytesOf, decode } from "./tensors.js";

/**
 * Run the pairs of a model.
 *
 * Returns how many were run, whether all answers are within what the manifest allows, and the answer that
 * comes nearest to its bound, or furthest beyond it.
 */
export async function replay(model, signature, pairs) {
  const found = { count: pairs.length, passed: true, worst: null };
  for (const pair of pairs) {
    const inputs = {};
    for (const tensor of signature.inputs)
      inputs[tensor.name] = bytesOf(decode(pair.inputs[tensor.name], tensor));
    const { outputs } = await model.run(signature.key, inputs);
    for (const tensor of signature.outputs) {
      const stored = decode(pair.outputs[tensor.name], tensor);
      const difference = largestDifference(stored, asArray(outputs[tensor.name], tensor));
      const allowed = pair.allowed[tensor.name];
      const worst = { sample: pair.sample, output: tensor, difference, allowed };
      if (!(difference <= allowed)) found.passed = false;
      if (!found.worst || excess(worst) > excess(found.worst)) found.worst = worst;
    }
  }
  return found;
}

function largestDifference(first, second) {
  let largest = 0;
  for (let at = 0; at < first.length; at += 1) {
    const difference = Math.abs(Number(first[at]) - Number(second[at]));
    if (!(difference <= largest)) largest = Number.isNaN(difference) ? Infinity : difference;
  }
  return largest;
}

function excess({ difference, allowed }) {
  if (difference === 0) return 0;
  return allowed === 0 ? Infinity : difference / allowed;
}
