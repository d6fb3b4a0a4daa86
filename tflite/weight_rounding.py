"""int8 weights rounded with regard to what they multiply (GPTQ, Frantar et al., https://arxiv.org/abs/2210.17323).

The nearest integer to each weight is the best choice only for inputs that know nothing of each other. Where
they move together, as the states of a recurrence do, the error of one weight can be made up for by the next
ones of its row: the product is then several dB more exact, with the same scales, size and speed.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

SAMPLES = 128
"""Calibration samples from which the inputs' second moments are taken."""
WIDEST = 1_024
"""Products with more input features are rounded to the nearest: the work grows with their cube."""
RIDGE = 0.05
"""Share of the mean moment that is added to each feature's own, for inputs that calibration did not show."""
FEW_ROWS = 1.0
"""The same for few observations: this times features over rows."""
LARGEST = 127


def round_products(
    quantized: bytes, content: bytes, products: Collection[int], samples: Mapping[str, np.ndarray]
) -> bytes:
    """Return the quantized file with the weights of matrix products rounded anew.

    Args:
        quantized: a file made from `content`, with its FULLY_CONNECTED operators in the same order.
        content: the float file.
        products: indices of the float file's operators whose weights are int8 in the quantized one; those
            that are no FULLY_CONNECTED, or too wide, stay as they are.
        samples: calibration samples by input name.
    """
    graph = graphs.read_graph(content)
    groups = _by_weights(graph, products)
    if not groups:
        return quantized
    moments = _moments(content, graph, groups, samples)
    result = graphs.read_graph(quantized)
    pairs = zip(_products(graph), _products(result), strict=True)
    written = {own: other for own, other in pairs if any(own in group for group in groups.values())}
    for buffer, group in groups.items():
        tensors = {_weights(result, written[index]) for index in group}
        for tensor in tensors:
            _round(graph, buffer, result, tensor, *moments[buffer])
    return graphs.write_graph(result)


def nearest_product(
    weights: np.ndarray, scales: np.ndarray, moments: np.ndarray, ridge: float = RIDGE
) -> np.ndarray:
    """Return int8 weights whose product with inputs of these second moments is near to the real one.

    Args:
        weights: real weights, (outputs, inputs).
        scales: step of each row, (outputs,).
        moments: sum of x x^T over the inputs x, (inputs, inputs).
        ridge: share of the mean moment that is added to the diagonal.
    """
    count = weights.shape[1]
    order = np.argsort(-np.diag(moments), kind="stable")
    rest = weights.astype(np.float64)[:, order]
    mean = max(float(np.trace(moments)) / count, np.finfo(np.float64).tiny)
    damped = moments[np.ix_(order, order)] / mean + ridge * np.eye(count)
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    chosen = np.empty((len(weights), count), np.int8)
    for column in range(count):
        steps = np.clip(np.round(rest[:, column] / scales), -LARGEST, LARGEST)
        chosen[:, order[column]] = steps
        error = (rest[:, column] - steps * scales) / factor[column, column]
        rest[:, column + 1 :] -= np.outer(error, factor[column, column + 1 :])
    return chosen


def _by_weights(graph: Any, products: Collection[int]) -> dict[int, list[int]]:
    """Return weight buffer -> the products that multiply by it."""
    groups: dict[int, list[int]] = {}
    for index in _products(graph):
        tensor = graph.subgraphs[0].tensors[_weights(graph, index)]
        if index in products and int(tensor.shape[1]) <= WIDEST:
            groups.setdefault(int(tensor.buffer), []).append(index)
    return groups


def _products(graph: Any) -> list[int]:
    """Return the products with stored weights, in the order of the graph."""
    return [
        index
        for index, operator in enumerate(graph.subgraphs[0].operators)
        if graphs.operator_name(graph, operator) == "FULLY_CONNECTED"
        and graphs.is_constant(graph, graph.subgraphs[0].tensors[operator.inputs[1]])
    ]


def _weights(graph: Any, index: int) -> int:
    return int(graph.subgraphs[0].operators[index].inputs[1])


def _moments(
    content: bytes, graph: Any, groups: Mapping[int, list[int]], samples: Mapping[str, np.ndarray]
) -> dict[int, tuple[np.ndarray, int]]:
    """Return weight buffer -> sum of x x^T over all inputs x of its products, and their number."""
    interpreter = runtime.load_interpreter(content, keep_tensors=True)
    operators, tensors = graph.subgraphs[0].operators, graph.subgraphs[0].tensors
    widths = {
        buffer: int(tensors[_weights(graph, indices[0])].shape[1]) for buffer, indices in groups.items()
    }
    sums = {buffer: np.zeros((width, width)) for buffer, width in widths.items()}
    rows = dict.fromkeys(groups, 0)
    count = len(next(iter(samples.values())))
    for number in np.unique(np.linspace(0, count - 1, min(count, SAMPLES)).astype(int)):
        runtime.set_inputs(interpreter, {name: values[number] for name, values in samples.items()})
        interpreter.invoke()
        for buffer, indices in groups.items():
            sources = dict.fromkeys(int(operators[index].inputs[0]) for index in indices)
            parts = [interpreter.get_tensor(source).reshape(-1, widths[buffer]) for source in sources]
            seen = np.concatenate(parts).astype(np.float64)
            sums[buffer] += seen.T @ seen
            rows[buffer] += len(seen)
    return {buffer: (sums[buffer], rows[buffer]) for buffer in groups}


def _round(graph: Any, buffer: int, result: Any, tensor: int, moments: np.ndarray, rows: int) -> None:
    """Write the weights of one buffer of the float graph anew into a tensor of the quantized one."""
    entry = result.subgraphs[0].tensors[tensor]
    shape = [int(size) for size in entry.shape]
    real = np.frombuffer(bytes(graph.buffers[buffer].data), np.float32).reshape(shape)
    scales = np.asarray(entry.quantization.scale, np.float64)
    stored = result.buffers[entry.buffer]
    now = np.frombuffer(bytes(stored.data), np.int8).reshape(shape)
    if np.abs(real - now * scales[:, None]).max() > scales.max():
        raise AssertionError(f"tensor {tensor} does not hold the weights of buffer {buffer}")
    ridge = RIDGE + FEW_ROWS * shape[1] / rows
    stored.data = np.frombuffer(nearest_product(real, scales, moments, ridge).tobytes(), np.uint8)
