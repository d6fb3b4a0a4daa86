"""Small changes to the float graph that let XNNPACK take all of it; the outputs stay equal, bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

_VALID = schema.Padding.VALID
FEW_ROWS = 8
"""Maxima of fewer rows are not worth a transposition."""


def separate_outputs(graph: Any) -> None:
    """Give every output a tensor of its own where it is an input, another output, or read inside as well.

    The quantizer can't keep such a tensor in int8 for its readers and in float for the caller.
    """
    (signature,) = graph.signatureDefs
    subgraph = graph.subgraphs[0]
    taken = set(graphs.indices(subgraph.inputs))
    for operator in subgraph.operators:
        taken.update(graphs.indices(operator.inputs))
    for position, tensor in enumerate(subgraph.outputs):
        if tensor in taken:
            source = subgraph.tensors[tensor]
            copy = editing.add_tensor(subgraph, list(source.shape), source.type)
            subgraph.operators.append(editing.new_reshape(graph, subgraph, tensor, copy))
            subgraph.outputs[position] = copy
            signature.outputs[position].tensorIndex = copy
        taken.add(tensor)


def bound_roots(graph: Any) -> None:
    """Turn min(1 / sqrt(x), c) into 1 / sqrt(max(x, 1 / c^2)), as in UnitNormalization.

    XNNPACK's root of 0 is no number, where TensorFlow's is infinite and the minimum makes it c.
    """
    subgraph = graph.subgraphs[0]
    root_of = {
        int(operator.outputs[0]): operator
        for operator in subgraph.operators
        if graphs.operator_name(graph, operator) == "RSQRT"
    }
    operators = []
    for operator in subgraph.operators:
        operators.append(operator)
        if graphs.operator_name(graph, operator) != "MINIMUM":
            continue
        for root, constant in itertools.permutations(map(int, operator.inputs)):
            tensor = subgraph.tensors[constant]
            if root not in root_of or not graphs.is_constant(graph, tensor):
                continue
            bound = graphs.constant_value(graph, tensor).astype(np.float64)
            if bound.size != 1 or bound.ravel()[0] <= 0:
                continue
            least = np.float32(np.maximum(1 / bound.ravel()[0] ** 2, np.finfo(np.float32).tiny))
            source = int(root_of[root].inputs[0])
            shape = [int(size) for size in subgraph.tensors[source].shape]
            bounded = editing.add_tensor(subgraph, shape, subgraph.tensors[source].type)
            floor = editing.add_constant(graph, subgraph, np.array(least))
            operators[-1:] = [
                editing.new_operator(graph, "MAXIMUM", [source, floor], [bounded]),
                editing.new_operator(graph, "RSQRT", [bounded], [int(operator.outputs[0])]),
            ]
            break
    subgraph.operators = operators
    graphs.remove_dead(graph)


def drop_round_trips(graph: Any) -> None:
    """Drop casts of float32 to float64 and back, which a float64 input of the model leaves behind."""
    subgraph = graph.subgraphs[0]
    widened = {
        int(operator.outputs[0]): int(operator.inputs[0])
        for operator in subgraph.operators
        if graphs.operator_name(graph, operator) == "CAST"
        and graphs.tensor_type(subgraph.tensors[operator.inputs[0]]) == "float32"
        and graphs.tensor_type(subgraph.tensors[operator.outputs[0]]) == "float64"
    }
    outputs = set(graphs.indices(subgraph.outputs))
    same: dict[int, int] = {}
    for operator in subgraph.operators:
        operator.inputs = [same.get(int(index), int(index)) for index in operator.inputs]
        result = int(operator.outputs[0]) if len(operator.outputs) else -1
        if (
            graphs.operator_name(graph, operator) == "CAST"
            and int(operator.inputs[0]) in widened
            and graphs.tensor_type(subgraph.tensors[result]) == "float32"
            and result not in outputs
        ):
            same[result] = widened[int(operator.inputs[0])]
    graphs.remove_dead(graph)


def keep_sliced_axes(graph: Any) -> None:
    """Turn `x[:, -1]` into `x[:, -1:]` and a reshape: the delegate has no slice that drops an axis."""
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        operators.append(operator)
        if graphs.operator_name(graph, operator) == "STRIDED_SLICE":
            reshape = _split_slice(graph, subgraph, operator)
            if reshape is not None:
                operators.append(reshape)
    subgraph.operators = operators


def pool_maxima(graph: Any) -> None:
    """Turn maxima over neighbouring axes into MAX_POOL_2D, which the delegate has in int8 too.

    The tensor is viewed as (1, before, reduced, after), so that one window covers what is reduced. Where the
    last axis is reduced it is put first: the delegate takes the maxima of many channels at a time.
    """
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        operators += _pooled(graph, subgraph, operator) or [operator]
    subgraph.operators = operators


def _pooled(graph: Any, subgraph: Any, operator: Any) -> list[Any] | None:
    """Return the operators that stand for a REDUCE_MAX, or None where it stays."""
    if graphs.operator_name(graph, operator) != "REDUCE_MAX":
        return None
    source, axes = (subgraph.tensors[index] for index in operator.inputs)
    shape = [int(size) for size in source.shape]
    if not graphs.is_constant(graph, axes) or graphs.tensor_type(source) != "float32" or min(shape) < 1:
        return None
    reduced = sorted({int(axis) % len(shape) for axis in graphs.constant_value(graph, axes).ravel()})
    if not reduced or reduced != list(range(reduced[0], reduced[-1] + 1)):
        return None
    before, after = int(np.prod(shape[: reduced[0]])), int(np.prod(shape[reduced[-1] + 1 :]))
    size = int(np.prod([shape[axis] for axis in reduced]))
    if size < 2:
        return None
    given, viewed_shape, pooled_shape = (
        int(operator.inputs[0]),
        [1, before, size, after],
        [1, before, 1, after],
    )
    operators = []
    if after == 1 and before >= FEW_ROWS:
        order = [*reduced, *range(reduced[0])]
        turned = editing.add_tensor(subgraph, [shape[axis] for axis in order], source.type)
        permutation = editing.add_constant(graph, subgraph, np.array(order, np.int32))
        operators.append(editing.new_operator(graph, "TRANSPOSE", [int(given), permutation], [turned]))
        given, viewed_shape, pooled_shape = turned, [1, 1, size, before], [1, 1, 1, before]
    viewed = editing.add_tensor(subgraph, viewed_shape, source.type)
    highest = editing.add_tensor(subgraph, pooled_shape, source.type)
    window = {"filterWidth": size, "filterHeight": 1, "strideW": size, "strideH": 1, "padding": _VALID}
    return [
        *operators,
        editing.new_reshape(graph, subgraph, int(given), viewed),
        editing.new_operator(graph, "MAX_POOL_2D", [viewed], [highest], **window),
        editing.new_reshape(graph, subgraph, highest, int(operator.outputs[0])),
    ]


def _split_slice(graph: Any, subgraph: Any, operator: Any) -> Any:
    """Make the slice keep its axes and return the RESHAPE that drops them, or None where it can't be."""
    options = operator.builtinOptions
    source, *bounds = (subgraph.tensors[index] for index in operator.inputs)
    shape = list(source.shape)
    if not options.shrinkAxisMask or options.ellipsisMask or options.newAxisMask:
        return None
    if min(shape) < 0 or not all(graphs.is_constant(graph, tensor) for tensor in bounds):
        return None
    begin, end, strides = (graphs.constant_value(graph, tensor).copy() for tensor in bounds)
    shrunk = [axis for axis in range(len(begin)) if options.shrinkAxisMask >> axis & 1]
    for axis in shrunk:
        begin[axis] += shape[axis] if begin[axis] < 0 else 0
        end[axis] = begin[axis] + 1
        strides[axis] = 1
    result = subgraph.tensors[operator.outputs[0]]
    kept = list(result.shape)
    for axis in shrunk:
        kept.insert(axis, 1)
    bits = sum(1 << axis for axis in shrunk)
    options.shrinkAxisMask = 0
    options.beginMask &= ~bits
    options.endMask &= ~bits
    operator.inputs = [
        operator.inputs[0],
        *(editing.add_constant(graph, subgraph, v) for v in (begin, end, strides)),
    ]

    (target,) = operator.outputs
    operator.outputs = [editing.add_tensor(subgraph, kept, result.type)]
    return editing.new_reshape(graph, subgraph, operator.outputs[0], target)
