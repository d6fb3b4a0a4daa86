"""The order in which a file's operators run, chosen for the memory that it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from keras_attention.tflite import graph as graphs

_ORDERED = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"})
"""Operators that hang together by more than the tensors they read."""


def save_memory(graph: Any) -> None:
    """Let each result be used up before the next is begun, where that takes less memory.

    The converter leaves the operators in the order in which TensorFlow lists them, in which the scores of
    all blocks of a long attention may come before the first of them is read.
    """
    subgraph = graph.subgraphs[0]
    if any(graphs.operator_name(graph, operator) in _ORDERED for operator in subgraph.operators):
        return
    ordered = _depth_first(subgraph)
    if _peak_numbers(graph, ordered) < _peak_numbers(graph, subgraph.operators):
        subgraph.operators = ordered


def _depth_first(subgraph: Any) -> list[Any]:
    """Return the operators so that each comes right behind what it reads, inputs in their order.

    Operators whose results nobody reads come last, in their present order.
    """
    producer = {t: n for n, op in enumerate(subgraph.operators) for t in graphs.indices(op.outputs)}
    placed: dict[int, None] = {}
    roots = [producer[t] for t in graphs.indices(subgraph.outputs) if t in producer]
    waiting = [*range(len(subgraph.operators) - 1, -1, -1), *reversed(roots)]
    while waiting:
        number = waiting[-1]
        sources = [producer[t] for t in graphs.indices(subgraph.operators[number].inputs) if t in producer]
        missing = [source for source in sources if source not in placed]
        if number in placed or not missing:
            placed[waiting.pop()] = None
        else:
            waiting += reversed(missing)
    return [subgraph.operators[number] for number in placed]


def _peak_numbers(graph: Any, operators: Sequence[Any]) -> int:
    """Return how many numbers are held at once at most, from their making to their last reading."""
    subgraph = graph.subgraphs[0]
    kept = set(graphs.indices(subgraph.outputs))
    last = {t: n for n, op in enumerate(operators) for t in graphs.indices(op.inputs)}
    held = peak = 0
    made: set[int] = set()
    for position, operator in enumerate(operators):
        results = graphs.indices(operator.outputs)
        made.update(results)
        held += sum(_numbers(subgraph, tensor) for tensor in results)
        peak = max(peak, held)
        done = {t for t in (*graphs.indices(operator.inputs), *results) if last.get(t, position) == position}
        held -= sum(_numbers(subgraph, tensor) for tensor in done & made - kept)
    return peak


def _numbers(subgraph: Any, tensor: int) -> int:
    shape = subgraph.tensors[tensor].shape
    return 1 if shape is None else math.prod(abs(int(size)) for size in shape)
