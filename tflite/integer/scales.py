"""A scale for every tensor of an integer graph.

A real value is scale * (integer - zero point). Scales come from ranges; where an operator asks for
equal scales (see `kernels.py`), a tensor takes its neighbour's, or a conversion is put between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import kernels

Range = tuple[float, float]
SHARED_SHARE = 0.5
"""A tensor takes the wider range of what it is joined with if its own covers at least this share of it: it
loses one bit at most, and one operator is saved."""
_SMALLEST = 1e-30


@dataclass(frozen=True)
class Scale:
    """How a tensor's integers are read.

    Attributes:
        scale: real value of one step; an array where each channel has its own.
        zero_point: the integer that stands for 0.
        bits: 8 or 16 for activations and weights, 32 or 64 for a bias.
        axis: the channel axis of an array of scales.
        is_signed: False for the uint8 of an input or output.
    """

    scale: np.ndarray
    zero_point: int
    bits: int
    axis: int = 0
    is_signed: bool = True

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """Return the integers nearest to real values, within the type's bounds."""
        shape = [1] * values.ndim
        if self.scale.size > 1:
            shape[self.axis] = -1
        steps = np.round(values.astype(np.float64) / self.scale.reshape(shape)) + self.zero_point
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        return np.clip(steps, low, high).astype(f"int{self.bits}")


def from_range(bounds: Range, bits: int) -> Scale:
    """Return the scale of an activation with values from `bounds`; 0 is always met exactly."""
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    if bits == 16:
        return Scale(np.array([max(-low, high, _SMALLEST) / 32767]), 0, 16)
    step = max((high - low) / 255, _SMALLEST)
    return Scale(np.array([step]), int(np.clip(round(-128 - low / step), -128, 127)), 8)


def of_weights(values: np.ndarray, axis: int) -> Scale:
    """Return the symmetric int8 scales of weights, one for each channel."""
    others = tuple(i for i in range(values.ndim) if i != axis)
    highest = np.abs(values.astype(np.float64)).max(axis=others)
    return Scale(np.maximum(highest / 127, _SMALLEST), 0, 8, axis)


def of_bias(data: Scale, weights: Scale) -> Scale:
    """Return the scales of a bias: those of the products that it is added to."""
    return Scale(data.scale * weights.scale, 0, 32 if data.bits == 8 else 64)


def assign(
    graph: Any, integer: frozenset[int], ranges: Mapping[int, Range], bits: int
) -> tuple[dict[int, Scale], dict[tuple[int, int], Scale]]:
    """Give scales to the float tensors that integer operators read or write.

    Args:
        graph: the float graph.
        integer: indices of the operators that become integer.
        ranges: tensor index -> range, for every such tensor that is no constant.
        bits: 8 or 16.

    Returns:
        Scale of each tensor, constants apart; and (operator index, input position) -> the scale that
        an operator asks for on an input that has another one.
    """
    subgraph = graph.subgraphs[0]
    wishes = _wishes(graph, integer, ranges)
    scales: dict[int, Scale] = {}
    asked: dict[tuple[int, int], Scale] = {}

    def own(tensor: int) -> Scale:
        return from_range(wishes.get(tensor, ranges[tensor]), bits)

    for index, operator in enumerate(subgraph.operators):
        if index not in integer:
            continue
        kernel = kernels.KERNELS[graphs.operator_name(graph, operator)]
        read = data_inputs(graph, operator)
        for _, tensor in read:
            if tensor not in scales and not graphs.is_constant(graph, subgraph.tensors[tensor]):
                scales[tensor] = own(tensor)
        written = [t for t in graphs.indices(operator.outputs) if is_float(subgraph.tensors[t])]
        if kernel.rule == kernels.VIEW:
            ((_, source),) = read
            constant = graphs.is_constant(graph, subgraph.tensors[source])
            shared = from_range(_values_range(graph, source), bits) if constant else scales[source]
            if constant:
                asked.update({(index, position): shared for position, _ in read})
            scales.update(dict.fromkeys(written, shared))
        elif kernel.rule in (kernels.JOIN, kernels.COMPARE):
            shared = _shared(graph, read, written, scales, wishes, ranges, bits)
            scales.update(dict.fromkeys(written, shared))
            for position, tensor in read:
                if scales.get(tensor) is not shared:
                    asked[index, position] = shared
        elif kernel.rule == kernels.CAST and not is_byte(subgraph.tensors[operator.inputs[0]]):
            scales.update(dict.fromkeys(written, Scale(np.ones(1), 0, bits)))
        else:
            fixed = kernel.fixed(bits)
            for tensor in written:
                scales[tensor] = own(tensor) if fixed is None else Scale(np.array([fixed[0]]), fixed[1], bits)
    return scales, asked


def is_float(tensor: Any) -> bool:
    """Tell whether the tensor is one that gets a scale."""
    return graphs.tensor_type(tensor) == "float32"


def is_byte(tensor: Any) -> bool:
    """Tell whether the tensor holds bytes, which QUANTIZE reads as they are."""
    return graphs.tensor_type(tensor) in ("int8", "uint8")


def data_inputs(graph: Any, operator: Any) -> list[tuple[int, int]]:
    """Return (position, tensor) of the operator's float inputs, weights and bias of products apart."""
    tensors = graph.subgraphs[0].tensors
    name = graphs.operator_name(graph, operator)
    found = [(p, int(t)) for p, t in enumerate(operator.inputs) if t >= 0 and is_float(tensors[t])]
    if name in kernels.WEIGHTS:
        return [(p, t) for p, t in found if p == kernels.WEIGHTS[name][0]]
    return found


def _shared(
    graph: Any,
    read: list[tuple[int, int]],
    written: list[int],
    scales: Mapping[int, Scale],
    wishes: Mapping[int, Range],
    ranges: Mapping[int, Range],
    bits: int,
) -> Scale:
    """Return the one scale of an operator that joins several inputs."""
    present = [scales[tensor] for _, tensor in read if tensor in scales]
    constants = [_values_range(graph, tensor) for _, tensor in read if tensor not in scales]
    if not constants and present and all(scale is present[0] for scale in present):
        return present[0]
    if written:
        joined = wishes.get(written[0], ranges[written[0]])
    else:
        joined = _union([*constants, *(ranges[tensor] for _, tensor in read if tensor in scales)])
    fitting = from_range(joined, bits)
    for scale in present:  # the very same values: no conversion is needed
        if scale.zero_point == fitting.zero_point and np.allclose(
            scale.scale, fitting.scale, rtol=1e-6, atol=0.0
        ):
            return scale
    return fitting


def _wishes(graph: Any, integer: frozenset[int], ranges: Mapping[int, Range]) -> dict[int, Range]:
    """Return the ranges that tensors should take over from the joins that read them."""
    subgraph = graph.subgraphs[0]
    wishes: dict[int, Range] = {}
    for index in sorted(integer, reverse=True):
        operator = subgraph.operators[index]
        kernel = kernels.KERNELS[graphs.operator_name(graph, operator)]
        written = [t for t in graphs.indices(operator.outputs) if is_float(subgraph.tensors[t])]
        if kernel.rule not in (kernels.JOIN, kernels.VIEW) or not written:
            continue
        wanted = wishes.get(written[0], None if kernel.rule == kernels.VIEW else ranges[written[0]])
        if wanted is None:
            continue
        for _, tensor in data_inputs(graph, operator):
            if tensor in ranges and _covers(ranges[tensor], wanted):
                wishes[tensor] = wanted
    return wishes


def _covers(own: Range, wide: Range) -> bool:
    """Tell whether a range uses enough of a wider one, and none of it lies outside."""
    low, high = min(own[0], 0.0), max(own[1], 0.0)
    inside = low >= min(wide[0], 0.0) * 1.001 - 1e-12 and high <= max(wide[1], 0.0) * 1.001 + 1e-12
    return inside and (high - low) >= SHARED_SHARE * (max(wide[1], 0.0) - min(wide[0], 0.0))


def _values_range(graph: Any, tensor: int) -> Range:
    values = graphs.constant_value(graph, graph.subgraphs[0].tensors[tensor])
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def _union(bounds: list[Range]) -> Range:
    return min(low for low, _ in bounds), max(high for _, high in bounds)
