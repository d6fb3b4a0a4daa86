"""Large negative numbers that masks put before a softmax, made as small as they may be.

A mask of -1e9 sets the range of the scores, and an integer has no steps left for the scores
themselves. A number just far enough below them does the same to the softmax.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer.scales import Range

LARGE = 1e3
"""Numbers from here on are masks: scores of such size would make the softmax a selection."""
HUGE = 1e8
"""Numbers from here on leave no steps for others, and their scales are more than the kernels take."""
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


_SOFTMAX = frozenset({"SOFTMAX", "LOG_SOFTMAX"})


def bound(graph: Any, ranges: Mapping[int, Range], bits: int) -> int:
    """Replace the large constants in front of each softmax, and return how many there were.

    Args:
        graph: the float graph, changed in place.
        ranges: tensor index -> range of the float activations.
        bits: 8 or 16.
    """
    subgraph = graph.subgraphs[0]
    producer = {t: op for op in subgraph.operators for t in graphs.indices(op.outputs)}
    confined = _confined(graph)
    replaced: dict[tuple[int, int], float] = {}
    for operator in subgraph.operators:
        if graphs.operator_name(graph, operator) in _SOFTMAX:
            reached = _reached(graph, producer, int(operator.inputs[0]))
            scores = [ranges[t] for t in reached if t in ranges and max(map(abs, ranges[t])) < LARGE]
            size = max((high - low for low, high in scores), default=0.0) + MARGINS[bits]
            lowest = min((low for low, _ in scores), default=0.0) - MARGINS[bits]
            for target, tensor, selected in _large_constants(graph, producer, reached):
                if target in confined:
                    value = lowest if selected else -size
                    replaced[target, tensor] = min(replaced.get((target, tensor), 0.0), value)
    for (target, tensor), value in replaced.items():
        bounded = _bounded(graph, tensor, value)
        producer[target].inputs = [bounded if t == tensor else int(t) for t in producer[target].inputs]
    return len(replaced)


def unbounded(graph: Any, ranges: Mapping[int, Range], chosen: Iterable[int]) -> int | None:
    """Return the first of the chosen operators whose result is huge; `None` if there is none."""
    for index in sorted(chosen):
        for tensor in graphs.indices(graph.subgraphs[0].operators[index].outputs):
            if max(map(abs, ranges.get(tensor, (0.0, 0.0)))) >= HUGE:
                return index
    return None


def _confined(graph: Any) -> set[int]:
    """Return the tensors whose values reach nothing but a softmax: only there a mask may change."""
    subgraph = graph.subgraphs[0]
    found = {t for op in subgraph.operators for t in graphs.indices(op.outputs)}
    found -= set(graphs.indices(subgraph.outputs))
    for operator in reversed(subgraph.operators):  # readers come before what they read
        name = graphs.operator_name(graph, operator)
        passes = name in _PASSED and found.issuperset(graphs.indices(operator.outputs))
        if name not in _SOFTMAX and not passes:
            found -= set(graphs.indices(operator.inputs))
    return found


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


def _large_constants(
    graph: Any, producer: Mapping[int, Any], reached: list[int]
) -> list[tuple[int, int, bool]]:
    """Return (result, constant, whether it is put in place of a score) where a constant has large values."""
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
                    found.append((target, tensor, graphs.operator_name(graph, operator) in selections))
    return found


def _bounded(graph: Any, tensor: int, value: float) -> int:
    """Store a copy of a constant with its large values replaced, their signs kept."""
    subgraph = graph.subgraphs[0]
    values = graphs.constant_value(graph, subgraph.tensors[tensor])
    bounded = np.where(np.abs(values) >= LARGE, -np.sign(values) * value, values)
    copy = editing.add_constant(graph, subgraph, bounded.astype(np.float32))
    subgraph.tensors[copy].name = subgraph.tensors[tensor].name
    return copy
