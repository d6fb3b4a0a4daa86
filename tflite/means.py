"""Means in a form whose sums stay as small as the values are."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

_NORMS = frozenset({"SUB", "SQUARED_DIFFERENCE"})
"""What reads the mean of a norm, which stays: in 16 bits its squares overflow long before its sum."""


def scale_before_sums(graph: Any) -> None:
    """Turn means over all but the last axis into a product with 1 / count and a sum.

    A GPU adds up in 16 bits where the file is float16: two values of 40,000 are infinite together.
    """
    _replace(graph, _scaled)


def project_means(graph: Any) -> None:
    """Turn means over the last axis, as of channels, into FULLY_CONNECTED with weights of 1 / count."""
    _replace(graph, _projected)


def _replace(graph: Any, form: Any) -> None:
    subgraph = graph.subgraphs[0]
    read_by_norms = {
        int(tensor)
        for operator in subgraph.operators
        if graphs.operator_name(graph, operator) in _NORMS
        for tensor in operator.inputs
    }
    operators = []
    for operator in subgraph.operators:
        written = None
        if graphs.operator_name(graph, operator) == "MEAN" and int(operator.outputs[0]) not in read_by_norms:
            written = _with_axes(graph, subgraph, operator, form)
        operators += written or [operator]
    subgraph.operators = operators


def _with_axes(graph: Any, subgraph: Any, operator: Any, form: Any) -> list[Any] | None:
    """Return the form of a mean of known sizes and axes, or None where it has none."""
    source, axes = (subgraph.tensors[index] for index in operator.inputs)
    shape = [int(size) for size in source.shape]
    if not graphs.is_constant(graph, axes) or graphs.tensor_type(source) != "float32" or min(shape) < 1:
        return None
    reduced = sorted({int(axis) % len(shape) for axis in graphs.constant_value(graph, axes).ravel()})
    return form(graph, subgraph, operator, shape, reduced)


def _scaled(
    graph: Any, subgraph: Any, operator: Any, shape: list[int], reduced: list[int]
) -> list[Any] | None:
    count = int(np.prod([shape[axis] for axis in reduced]))
    if count < 2 or len(shape) - 1 in reduced:
        return None
    (given, axes), (result,) = map(int, operator.inputs), map(int, operator.outputs)
    shares = editing.add_tensor(subgraph, shape, subgraph.tensors[given].type)
    share = editing.add_constant(graph, subgraph, np.array(1 / count, np.float32))
    keep = operator.builtinOptions.keepDims
    return [
        editing.new_operator(graph, "MUL", [given, share], [shares]),
        editing.new_operator(graph, "SUM", [shares, axes], [result], keepDims=keep),
    ]


def _projected(
    graph: Any, subgraph: Any, operator: Any, shape: list[int], reduced: list[int]
) -> list[Any] | None:
    if reduced != [len(shape) - 1] or len(shape) < 3 or shape[-1] < 2:
        return None
    (given, _), (result,) = operator.inputs, map(int, operator.outputs)
    column = editing.add_tensor(subgraph, [int(np.prod(shape[:-1])), 1], subgraph.tensors[given].type)
    weights = editing.add_constant(graph, subgraph, np.full((1, shape[-1]), 1 / shape[-1], np.float32))
    return [
        editing.new_operator(graph, "FULLY_CONNECTED", [int(given), weights], [column], version=4),
        editing.new_reshape(graph, subgraph, column, result),
    ]
