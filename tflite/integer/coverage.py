"""Which operators and tensors of a float graph become integer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import kernels
from keras_attention.tflite.integer import scales as scaling
from keras_attention.tflite.integer.scales import Range


def integer_operators(graph: Any, ranges: Mapping[int, Range], bits: int) -> frozenset[int]:
    """Return the indices of the operators that have a kernel in integers."""
    return frozenset(
        index
        for index, operator in enumerate(graph.subgraphs[0].operators)
        if touches_floats(graph, operator) and has_kernel(graph, operator, ranges, bits)
    )


def touches_floats(graph: Any, operator: Any) -> bool:
    """Tell whether the operator reads or writes float values."""
    tensors = graph.subgraphs[0].tensors
    both = (*graphs.indices(operator.inputs), *graphs.indices(operator.outputs))
    return any(scaling.is_float(tensors[tensor]) for tensor in both)


def has_kernel(graph: Any, operator: Any, ranges: Mapping[int, Range], bits: int) -> bool:
    """Tell whether the runtime has this very operator in integers."""
    tensors = graph.subgraphs[0].tensors
    name = graphs.operator_name(graph, operator)
    kernel = kernels.KERNELS.get(name)
    if kernel is None or kernel.version(bits) is None:
        return False
    if name in kernels.WEIGHTS:
        _, weights, bias, _ = kernels.WEIGHTS[name]
        positions = [p for p in (weights, bias) if p < len(operator.inputs) and operator.inputs[p] >= 0]
        return all(graphs.is_constant(graph, tensors[operator.inputs[position]]) for position in positions)
    if kernel.rule == kernels.CAST:
        return _has_cast(graph, operator, ranges, bits)
    return True


def _has_cast(graph: Any, operator: Any, ranges: Mapping[int, Range], bits: int) -> bool:
    tensors = graph.subgraphs[0].tensors
    source, target = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
    if not scaling.is_float(target) or graphs.tensor_type(source) in ("bool", "float16"):
        return False
    if scaling.is_byte(source):
        return bits == 8
    low, high = ranges[operator.outputs[0]]
    return -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)


def with_views(graph: Any, ranges: Mapping[int, Range]) -> dict[int, Range]:
    """Give what a view writes the range of what it reads, for where only one of them is integer."""
    filled = dict(ranges)
    for operator in graph.subgraphs[0].operators:
        for _, source in scaling.data_inputs(graph, operator)[:1]:
            if source in filled:
                for tensor in graphs.indices(operator.outputs):
                    filled.setdefault(tensor, filled[source])
    return filled


def own_ranges(graph: Any, bits: int) -> list[int]:
    """Return the float activations that need a range: all but what a view of another tensor writes."""
    viewed: set[int] = set()
    for operator in graph.subgraphs[0].operators:
        kernel = kernels.KERNELS.get(graphs.operator_name(graph, operator))
        if kernel is None or kernel.rule != kernels.VIEW or kernel.version(bits) is None:
            continue
        for _, source in scaling.data_inputs(graph, operator):
            if not graphs.is_constant(graph, graph.subgraphs[0].tensors[source]):
                viewed.update(graphs.indices(operator.outputs))
    return [tensor for tensor in float_activations(graph) if tensor not in viewed]


def float_activations(graph: Any) -> list[int]:
    """Return the float tensors of subgraph 0 that are no constants and that something reads."""
    subgraph = graph.subgraphs[0]
    found: dict[int, None] = dict.fromkeys(graphs.indices(subgraph.outputs))
    for operator in subgraph.operators:
        found.update(dict.fromkeys(graphs.indices(operator.inputs)))
    return [
        tensor
        for tensor in found
        if scaling.is_float(subgraph.tensors[tensor])
        and not graphs.is_constant(graph, subgraph.tensors[tensor])
    ]
