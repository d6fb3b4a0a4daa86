"""UnitNormalization as a root mean square norm, which `norms.py` knows how to make integer.

x / sqrt(max(sum(x^2), c)) is x / sqrt(mean(x^2) + epsilon) / sqrt(n) for all but rows of almost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer.forms import Chain
from keras_attention.tflite.integer.scales import Range

SHARE = 1e-9
"""Mean squares below this share of the largest count as nothing: an integer has no steps for them."""


def rewrite(graph: Any, ranges: dict[int, Range]) -> int:
    """Replace the unit norms of subgraph 0, note the ranges of new tensors, and return their number."""
    subgraph = graph.subgraphs[0]
    producer = {t: op for op in subgraph.operators for t in graphs.indices(op.outputs)}
    operators = []
    count = 0
    for operator in subgraph.operators:
        written = _form(graph, producer, operator, ranges)
        count += written is not None
        operators += written or [operator]
    subgraph.operators = operators
    graphs.remove_dead(graph)
    return count


def _form(graph: Any, producer: dict[int, Any], operator: Any, ranges: dict[int, Range]) -> list[Any] | None:
    tensors = graph.subgraphs[0].tensors
    if graphs.operator_name(graph, operator) != "MUL" or len(operator.inputs) != 2:
        return None
    left, right = (int(index) for index in operator.inputs)
    for x, factor in ((left, right), (right, left)):
        total = _sum_of_squares(graph, producer, x, factor)
        if total is None:
            continue
        shape = [int(size) for size in tensors[x].shape]
        summed = int(total.outputs[0])
        number = int(np.prod(shape)) // max(1, int(np.prod(tensors[summed].shape)))
        high = ranges.get(summed, (0.0, 0.0))[1] / number
        if high <= 0.0:
            return None
        wide, narrow = Chain(graph, x), Chain(graph, summed)
        narrow.operators = wide.operators
        mean = narrow.add("MEAN", wide.add("MUL", x, x), int(total.inputs[1]), keepDims=True)
        ranges[mean] = ranges[summed][0] / number, high
        root = narrow.add("RSQRT", narrow.add("ADD", mean, high * SHARE))
        wide.add(
            "MUL", wide.add("MUL", x, root), 1.0 / float(np.sqrt(number)), target=int(operator.outputs[0])
        )
        return wide.operators
    return None


def _sum_of_squares(graph: Any, producer: dict[int, Any], x: int, factor: int) -> Any:
    """Return the SUM behind 1 / sqrt(max(sum(x^2), c)), or None where the factor is something else."""

    def behind(tensor: int, name: str) -> Any:
        operator = producer.get(tensor)
        return operator if operator is not None and graphs.operator_name(graph, operator) == name else None

    root = behind(factor, "RSQRT")
    bounded = None if root is None else behind(int(root.inputs[0]), "MAXIMUM")
    for index in [] if bounded is None else graphs.indices(bounded.inputs):
        total = behind(index, "SUM")
        if total is None or not total.builtinOptions.keepDims:
            continue
        squares = producer.get(int(total.inputs[0]))
        if squares is None or int(squares.inputs[0]) != x:
            continue
        name = graphs.operator_name(graph, squares)
        if name == "SQUARE" or (name == "MUL" and squares.inputs[0] == squares.inputs[1]):
            return total
    return None
