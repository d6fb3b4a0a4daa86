"""LayerNormalization, GroupNormalization and RMSNormalization in a form that survives integers.

Keras' graph is x * g + (beta - mean * g) with g = gamma / sqrt(variance + epsilon). Three things lose
an integer's few steps: the difference of two large products, squares of deviations (their range is
the square of what it was), and a variance whose range spans orders of magnitude over the tokens of a
sample. Here the mean is taken off first, and, where the variances are that uneven, the result is
normalized a second time: after the first time all tokens are of about the same size, and the second
factor corrects what the coarse first one got wrong. Whatever the first factor r is, the result is the
same in real numbers: d r / sqrt(mean((d r)^2) + epsilon r^2) = d / sqrt(mean(d^2) + epsilon).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import curves
from keras_attention.tflite.integer.forms import Chain
from keras_attention.tflite.integer.scales import Range

UNEVEN = {8: 8.0, 16: 2_000.0}
"""Bits -> ratio of the largest to the smallest variance from which the second normalization pays."""
FIRST_SHARE = {8: 1 / 256, 16: 1 / 65_536}
"""Bits -> share of the largest variance that is added under the first root, so that the roots of small
variances do not set its range; the second pass makes up for it."""
LEAST_SHARE = {8: 1e-5, 16: 1e-9}
"""Bits -> variances below this share of the largest count as none: an integer has no steps for them."""
_SINGLE_SHARE = 1 / 100
"""As `FIRST_SHARE`, where exponentials stand for the roots."""
_SINGLE_ROOM = 1.5
_LEAST_REST = 0.003
"""Share below which the delegate refuses to add epsilon; it is within the rounding."""
ROOM = 2.0
"""Factor by which the second pass's ranges exceed the real ones, for the errors that it corrects."""

_FLOAT = schema.TensorType.FLOAT32
_NONE = schema.ActivationFunctionType.NONE


@dataclass(frozen=True)
class Norm:
    """One normalization found in a graph.

    Attributes:
        x: tensor that is normalized.
        mean: tensor of its mean, None for RMSNormalization.
        axes: tensor of the reduced axes.
        variance: tensor of the variance, or of the mean square.
        epsilon: number under the root.
        gamma: constant factor, None where there is none.
        beta: constant addend, None where there is none.
        result: tensor of the result.
        activation: activation function fused into the last operator.
    """

    x: int
    mean: int | None
    axes: int
    variance: int
    epsilon: float
    gamma: int | None
    beta: int | None
    result: int
    activation: int = _NONE


def find(graph: Any) -> list[Norm]:
    """Return the normalizations of subgraph 0."""
    producer = {t: op for op in graph.subgraphs[0].operators for t in graphs.indices(op.outputs)}
    finder = _Finder(graph, producer)
    found = [finder.norm(operator) for operator in graph.subgraphs[0].operators]
    return [norm for norm in found if norm is not None and _keeps_shape(graph, norm)]


def _keeps_shape(graph: Any, norm: Norm) -> bool:
    """Tell whether the result has the shape of x: a gamma that widens it belongs to no layer."""
    tensors = graph.subgraphs[0].tensors
    return list(tensors[norm.x].shape) == list(tensors[norm.result].shape)


def without_scale(norm: Norm) -> Norm:
    """Return a normalization without gamma and beta."""
    return dataclasses.replace(norm, gamma=None, beta=None)


def centre(graph: Any, norms: list[Norm]) -> None:
    """Put the form that takes the mean off first in place of each normalization, for floats.

    Args:
        graph: the float graph, changed in place; operators that are read no more are dropped.
        norms: what `find` returned.
    """
    subgraph = graph.subgraphs[0]
    by_result = {norm.result: norm for norm in norms}
    operators = []
    for operator in subgraph.operators:
        norm = by_result.get(int(operator.outputs[0]))
        operators += [operator] if norm is None else _float_form(graph, norm)
    subgraph.operators = operators
    graphs.remove_dead(graph)


def rewrite(graph: Any, norms: list[Norm], ranges: Mapping[int, Range], bits: int) -> dict[int, float]:
    """Put the better form in place of each normalization.

    Args:
        graph: the float graph, changed in place; operators that are read no more are dropped.
        norms: what `find` returned.
        ranges: tensor index -> range, to tell where a second pass pays.
        bits: 8 or 16.

    Returns:
        Tensor index -> factor by which its range must exceed the real one.
    """
    room: dict[int, float] = {}
    subgraph = graph.subgraphs[0]
    by_result = {norm.result: norm for norm in norms}
    operators = []
    for operator in subgraph.operators:
        norm = by_result.get(int(operator.outputs[0]))
        if norm is None:
            operators.append(operator)
            continue
        low, high = ranges[norm.variance]
        epsilon = max(norm.epsilon, high * LEAST_SHARE[bits])
        if bits == 8 and _is_single(graph, norm) and curves.spans((low, high), norm.epsilon):
            operators += _single_form(graph, norm, (low, high))
        elif bits == 8 and _is_single(graph, norm) and curves.spans(_left_uneven(norm, (low, high))):
            operators += _single_form_twice(graph, norm, (low, high), room)
        elif high > UNEVEN[bits] * max(low, epsilon):
            operators += _form(graph, norm, epsilon, max(epsilon, high * FIRST_SHARE[bits]), room)
        else:
            operators += _form(graph, norm, epsilon, None, room)
    subgraph.operators = operators
    graphs.remove_dead(graph)
    return room


def _float_form(graph: Any, norm: Norm) -> list[Any]:
    wide, narrow = Chain(graph, norm.x), Chain(graph, norm.variance)
    narrow.operators = wide.operators
    centred = norm.x if norm.mean is None else wide.add("SUB", norm.x, norm.mean)
    variance = _mean_of_squares(graph, norm, wide, centred)
    root = narrow.add("RSQRT", narrow.add("ADD", variance, norm.epsilon))
    if norm.gamma is None and norm.beta is None:
        wide.add("MUL", centred, root, target=norm.result)
        return wide.operators
    return _finished(norm, wide, wide.add("MUL", centred, root))


def _form(graph: Any, norm: Norm, epsilon: float, first: float | None, room: dict[int, float]) -> list[Any]:
    """Return the operators of the better form, which writes to the norm's own result.

    Args:
        graph: the graph that the operators are for.
        norm: what they stand for.
        epsilon: number under the root.
        first: number under the first of two roots, None where one is enough.
        room: filled with the ranges' factors.
    """
    twice = first is not None
    wide, narrow = Chain(graph, norm.x), Chain(graph, norm.variance)
    narrow.operators = wide.operators
    centred = norm.x if norm.mean is None else wide.add("SUB", norm.x, norm.mean)
    variance = _mean_square(graph, norm, wide, centred)[-1]
    root = narrow.add("RSQRT", narrow.add("ADD", variance, epsilon if first is None else first))
    last = norm.gamma is None and norm.beta is None
    result = wide.add("MUL", centred, root, target=norm.result if last and not twice else None)
    if twice:
        squares = _mean_square(graph, norm, wide, result)
        rest = narrow.add("MUL", narrow.add("MUL", root, root), epsilon)
        total = narrow.add("ADD", squares[-1], rest)
        correction = narrow.add("RSQRT", total)
        room.update(dict.fromkeys((result, *squares, total, correction), ROOM))
        result = wide.add("MUL", result, correction, target=norm.result if last else None)
    return _finished(norm, wide, result)


def _finished(norm: Norm, wide: Chain, *factors: int) -> list[Any]:
    """Multiply factors and gamma, and add beta; the last operator writes the norm's own result."""
    steps = [("MUL", factor) for factor in (*factors[1:], norm.gamma) if factor is not None]
    steps += [("ADD", norm.beta)] if norm.beta is not None else []
    result = factors[0]
    for place, (name, other) in enumerate(steps):
        result = wide.add(name, result, other, target=norm.result if place == len(steps) - 1 else None)
    if norm.activation != _NONE:
        wide.operators[-1].builtinOptions.fusedActivationFunction = norm.activation
    return wide.operators


def _is_single(graph: Any, norm: Norm) -> bool:
    """Tell whether few vectors are normalized, so that operators for the delegate are worth it."""
    tensors = graph.subgraphs[0].tensors
    last = len(tensors[norm.x].shape) - 1
    axes = {int(axis) % (last + 1) for axis in graphs.constant_value(graph, tensors[norm.axes]).ravel()}
    return axes == {last} and int(np.prod(tensors[norm.variance].shape)) <= curves.FEW


def _single_form(graph: Any, norm: Norm, bounds: Range) -> list[Any]:
    """Return the form of a norm of few vectors, of operators that the delegate has in int8."""
    wide, narrow = Chain(graph, norm.x), Chain(graph, norm.variance)
    narrow.operators = wide.operators
    centred = norm.x if norm.mean is None else wide.add("SUB", norm.x, norm.mean)
    variance = _mean_of_squares(graph, norm, wide, centred)
    root = curves.add_power(narrow, variance, bounds, 0.5, norm.epsilon)
    return _finished(norm, wide, centred, root)


def _single_form_twice(graph: Any, norm: Norm, bounds: Range, room: dict[int, float]) -> list[Any]:
    """Return that form with two factors in a row, where one root would span more than int8 has steps for."""
    wide, narrow, again = Chain(graph, norm.x), Chain(graph, norm.variance), Chain(graph, norm.variance)
    narrow.operators = wide.operators
    centred = norm.x if norm.mean is None else wide.add("SUB", norm.x, norm.mean)
    variance = _mean_of_squares(graph, norm, wide, centred)
    root = curves.add_power(narrow, variance, (0.0, bounds[1]), 0.5, bounds[1] * _SINGLE_SHARE)
    first = wide.add("MUL", centred, root)
    total = _mean_of_squares(graph, norm, wide, first)
    if norm.epsilon > bounds[1] * _SINGLE_SHARE * _LEAST_REST:
        rest = narrow.add("MUL", narrow.add("MUL", root, root), norm.epsilon)
        total = narrow.add("ADD", total, rest)
    factor = curves.add_power(again, total, _left_uneven(norm, bounds), 0.5)
    room.update({int(op.outputs[0]): ROOM for op in again.operators} | {first: ROOM, total: ROOM})
    wide.operators += again.operators
    return _finished(norm, wide, first, factor)


def _left_uneven(norm: Norm, bounds: Range) -> Range:
    """Return the range of variances after the first of two factors, and what rounding adds to its ends."""
    first = bounds[1] * _SINGLE_SHARE
    low, high = ((variance + norm.epsilon) / (variance + first) for variance in bounds)
    return low / _SINGLE_ROOM, high * _SINGLE_ROOM


def _mean_of_squares(graph: Any, norm: Norm, chain: Chain, values: int) -> int:
    shape = [int(size) for size in graph.subgraphs[0].tensors[norm.variance].shape]
    mean = editing.add_tensor(graph.subgraphs[0], shape, _FLOAT)
    return chain.add("MEAN", chain.add("MUL", values, values), norm.axes, target=mean, keepDims=True)


def _mean_square(graph: Any, norm: Norm, chain: Chain, values: int) -> list[int]:
    """Add the mean of squares over the norm's axes, and return the tensors on the way, the mean last.

    Over the last axis it is the product of a row and a column, which is summed in 32 bits: no square is
    rounded to 8.
    """
    subgraph = graph.subgraphs[0]
    shape = [int(size) for size in subgraph.tensors[values].shape]
    axes = {int(a) % len(shape) for a in graphs.constant_value(graph, subgraph.tensors[norm.axes]).ravel()}
    reduced = [int(size) for size in subgraph.tensors[norm.variance].shape]
    mean = editing.add_tensor(subgraph, reduced, _FLOAT)
    if axes != {len(shape) - 1}:
        squares = chain.add("MUL", values, values)
        chain.add("MEAN", squares, norm.axes, target=mean, keepDims=True)
        return [squares, mean]
    rows, channels = int(np.prod(shape[:-1])), shape[-1]
    row = editing.add_tensor(subgraph, [1, rows, 1, channels], _FLOAT)
    dot = editing.add_tensor(subgraph, [1, rows, 1, 1], _FLOAT)
    total = editing.add_tensor(subgraph, reduced, _FLOAT)
    chain.operators.append(editing.new_reshape(graph, subgraph, values, row))
    chain.add("BATCH_MATMUL", row, row, target=dot, adjY=True)
    chain.operators.append(editing.new_reshape(graph, subgraph, dot, total))
    chain.add("MUL", total, 1.0 / channels, target=mean)
    return [dot, total, mean]


class _Finder:
    """Recognizes the end of a normalization by what it is made of."""

    def __init__(self, graph: Any, producer: Mapping[int, Any]) -> None:
        self._graph = graph
        self._tensors = graph.subgraphs[0].tensors
        self._producer = producer

    def norm(self, operator: Any) -> Norm | None:
        """Return the normalization that ends with this operator, if one does."""
        result = int(operator.outputs[0])
        if self._name(operator) == "MUL":
            return self._root_mean_square(operator, result)
        if self._name(operator) != "ADD":
            return None
        for product, shift in self._either(operator):
            scaled = self._made_by(product, "MUL")
            if scaled is None:
                continue
            for x, factor in self._either(scaled):
                core = self._core(factor)
                if core is None or core[0] != x:
                    continue
                _, mean, axes, variance, epsilon, gamma = core
                if mean is None:
                    continue
                fits, beta = self._shift(shift, mean, factor)
                activation = operator.builtinOptions.fusedActivationFunction
                if fits and (activation == _NONE or gamma is not None or beta is not None):
                    return Norm(x, mean, axes, variance, epsilon, gamma, beta, result, activation)
        return None

    def _root_mean_square(self, operator: Any, result: int) -> Norm | None:
        if operator.builtinOptions.fusedActivationFunction != _NONE:
            return None
        for x, factor in self._either(operator):
            core = self._core(factor)
            if core is not None and core[1] is None and core[0] == x:
                _, _, axes, variance, epsilon, gamma = core
                return Norm(x, None, axes, variance, epsilon, gamma, None, result)
        return None

    def _core(self, factor: int) -> tuple[int, int | None, int, int, float, int | None] | None:
        """Return (x, mean, axes, variance, epsilon, gamma) of gamma / sqrt(variance + epsilon)."""
        gamma = None
        root = self._made_by(factor, "RSQRT")
        if root is None:
            product = self._made_by(factor, "MUL")
            for inner, constant in self._either(product):
                if self._is_constant(constant) and self._made_by(inner, "RSQRT") is not None:
                    root, gamma = self._made_by(inner, "RSQRT"), constant
        total = None if root is None else self._made_by(int(root.inputs[0]), "ADD")
        for variance, epsilon in self._either(total):
            mean = self._made_by(variance, "MEAN")
            if mean is None or not self._is_constant(epsilon) or not mean.builtinOptions.keepDims:
                continue
            value = graphs.constant_value(self._graph, self._tensors[epsilon])
            squares = self._producer.get(int(mean.inputs[0]))
            if value.size != 1 or squares is None:
                continue
            source, centre = int(squares.inputs[0]), None
            if self._name(squares) == "SQUARED_DIFFERENCE":
                centre = int(squares.inputs[1])
                if self._made_by(centre, "MEAN") is None:
                    continue
            elif self._name(squares) != "SQUARE" and not (
                self._name(squares) == "MUL" and squares.inputs[0] == squares.inputs[1]
            ):
                continue
            return source, centre, int(mean.inputs[1]), variance, float(value.ravel()[0]), gamma
        return None

    def _shift(self, tensor: int, mean: int, factor: int) -> tuple[bool, int | None]:
        """Tell whether the tensor is beta - mean * factor, and return beta."""
        if self._is_product(tensor, self._negative(mean), factor):
            return True, None
        total = self._made_by(tensor, "ADD")
        for product, beta in self._either(total):
            if self._is_constant(beta) and self._is_product(product, self._negative(mean), factor):
                return True, beta
        difference = self._made_by(tensor, "SUB")
        if difference is not None and self._is_constant(int(difference.inputs[0])):
            beta, product = (int(index) for index in difference.inputs)
            if self._is_product(product, [mean], factor):
                return True, beta
        return False, None

    def _negative(self, mean: int) -> list[int]:
        """Return the tensors that hold the mean with its sign changed."""
        return [t for t, op in self._producer.items() if self._name(op) == "NEG" and op.inputs[0] == mean]

    def _is_product(self, tensor: int, left: list[int], right: int) -> bool:
        product = self._made_by(tensor, "MUL")
        return any(a in left and b == right for a, b in self._either(product))

    def _made_by(self, tensor: int, name: str) -> Any:
        operator = self._producer.get(tensor)
        if operator is None or self._name(operator) != name:
            return None
        # an activation in the middle is no part of a normalization
        fused = getattr(operator.builtinOptions, "fusedActivationFunction", _NONE)
        return operator if fused == _NONE else None

    def _either(self, operator: Any) -> list[tuple[int, int]]:
        """Return both orders of an operator's two inputs; none for no operator."""
        if operator is None or len(operator.inputs) != 2:
            return []
        first, second = (int(index) for index in operator.inputs)
        return [(first, second), (second, first)]

    def _is_constant(self, tensor: int) -> bool:
        return graphs.is_constant(self._graph, self._tensors[tensor])

    def _name(self, operator: Any) -> str:
        return graphs.operator_name(self._graph, operator)
