"""Large negative numbers that masks put before a softmax, made as small as they may be.

A mask of -1e9 sets the range of the scores, and an integer has no steps left for the scores
themselves. A number just far enough below them does the same to the softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer.scales import Range

LARGE = 1e3
"""Numbers from here on are masks: scores of such size would make the softmax a selection."""
MARGINS = {8: 12.0, 16: 20.0}
"""Bits -> distance below the lowest score; exp(-12) is less than a 600th of a step of 8 bits."""
_PASSED = frozenset(
    {
        "ADD",
        "BROADCAST_TO",
        "CONCATENATION",
        "EXPAND_DIMS",
        "MAXIMUM",
        "MINIMUM",
        "MUL",
        "PAD",
        "PADV2",
        "RESHAPE",
        "SELECT",
        "SELECT_V2",
        "SLICE",
        "SPLIT",
        "SQUEEZE",
        "STRIDED_SLICE",
        "SUB",
        "TILE",
        "TRANSPOSE",
    }
)
"""Operators through which a mask reaches the softmax."""


def bound(graph: Any, ranges: Mapping[int, Range], bits: int) -> int:
    """Replace the large constants in front of each softmax, and return how many there were.

    Args:
        graph: the float graph, changed in place.
        ranges: tensor index -> range of the float activations.
        bits: 8 or 16.
    """
    subgraph = graph.subgraphs[0]
    producer = {t: op for op in subgraph.operators for t in graphs.indices(op.outputs)}
    replaced: dict[int, float] = {}
    for operator in subgraph.operators:
        if graphs.operator_name(graph, operator) in ("SOFTMAX", "LOG_SOFTMAX"):
            reached = _reached(graph, producer, int(operator.inputs[0]))
            scores = [ranges[t] for t in reached if t in ranges and max(map(abs, ranges[t])) < LARGE]
            size = max((high - low for low, high in scores), default=0.0) + MARGINS[bits]
            lowest = min((low for low, _ in scores), default=0.0) - MARGINS[bits]
            for tensor, selected in _large_constants(graph, producer, reached):
                value = lowest if selected else -size
                replaced[tensor] = min(replaced.get(tensor, 0.0), value)
    for tensor, value in replaced.items():
        _replace(graph, subgraph.tensors[tensor], value)
    return len(replaced)


def _reached(graph: Any, producer: Mapping[int, Any], start: int) -> list[int]:
    """Return the tensors from which values flow into `start` through operators that pass masks on."""
    found, waiting = {start: None}, [start]
    while waiting:
        operator = producer.get(waiting.pop())
        if operator is None or graphs.operator_name(graph, operator) not in _PASSED:
            continue
        for tensor in graphs.indices(operator.inputs):
            if tensor not in found and graphs.tensor_type(graph.subgraphs[0].tensors[tensor]) == "float32":
                found[tensor] = None
                waiting.append(tensor)
    return list(found)


def _large_constants(graph: Any, producer: Mapping[int, Any], reached: list[int]) -> list[tuple[int, bool]]:
    """Return the constants with large values, and whether each is put in place of a score."""
    tensors = graph.subgraphs[0].tensors
    selections = {"SELECT", "SELECT_V2", "MAXIMUM", "PADV2", "CONCATENATION"}
    found = []
    for target in reached:
        operator = producer.get(target)
        if operator is None or graphs.operator_name(graph, operator) not in _PASSED:
            continue
        for tensor in graphs.indices(operator.inputs):
            if tensor in reached and graphs.is_constant(graph, tensors[tensor]):
                values = graphs.constant_value(graph, tensors[tensor])
                if values.size and np.abs(values).max() >= LARGE:
                    found.append((tensor, graphs.operator_name(graph, operator) in selections))
    return found


def _replace(graph: Any, tensor: Any, value: float) -> None:
    """Store a copy of the constant with its large values replaced, their signs kept."""
    values = graphs.constant_value(graph, tensor)
    bounded = np.where(np.abs(values) >= LARGE, -np.sign(values) * value, values).astype("<f4")
    buffer = type(graph.buffers[tensor.buffer])()
    buffer.data = np.frombuffer(bounded.tobytes(), np.uint8)
    graph.buffers.append(buffer)
    tensor.buffer = len(graph.buffers) - 1
