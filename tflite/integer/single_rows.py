"""Attention of one query in operators that the delegate has in int8: its softmax and product have none there.

A softmax of one row, as of attention that pools a sequence or an image, is written as exponentials and their
sum before ranges are collected, so that each has a range; what is over 256ths in one step of SOFTMAX's fixed
scale, the scores of a thousand places, gets a scale of its own too.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import curves
from keras_attention.tflite.integer.forms import Chain
from keras_attention.tflite.integer.scales import Range

_PRODUCTS = ("CONV_2D", "FULLY_CONNECTED")
_MIXING = ("BATCH_MATMUL", "MUL")
WIDEST_SUM = 256.0
"""Ratio of the ends of a sum's range up to which int8 has a step for the smallest."""


def split_softmax(graph: Any, only: frozenset[int] | None = None) -> dict[int, int]:
    """Write each softmax of one row as a quotient; return its result -> the sum of its exponentials.

    Those that read a mask, or are no attention but the end of a classifier, stay.

    Args:
        graph: the float graph, changed in place.
        only: results to look at; all where None.
    """
    subgraph = graph.subgraphs[0]
    producers = {int(op.outputs[0]): op for op in subgraph.operators}
    sums = {}
    operators = []
    for operator in subgraph.operators:
        operators.append(operator)
        result = int(operator.outputs[0])
        if graphs.operator_name(graph, operator) != "SOFTMAX" or (only is not None and result not in only):
            continue
        shape = [int(size) for size in subgraph.tensors[result].shape]
        before = _through_views(graph, operator, lambda op: producers.get(int(op.inputs[0])))
        readers = [op for op in subgraph.operators if _reads(graph, op, result, _MIXING)]
        if int(np.prod(shape[:-1])) != 1 or operator.builtinOptions.beta != 1.0 or not readers:
            continue
        if before is None or graphs.operator_name(graph, before) not in _PRODUCTS:
            continue
        operators[-1:], sums[result] = _quotient(graph, subgraph, operator, shape)
    subgraph.operators = operators
    return sums


def has_steps(bounds: Range) -> bool:
    """Tell whether exponentials can be divided by sums of this range in int8."""
    low, high = bounds
    return 0.0 < low <= high <= WIDEST_SUM * low


def _through_views(graph: Any, operator: Any, step: Any) -> Any:
    """Follow `step` from an operator past RESHAPE."""
    found = step(operator)
    while found is not None and graphs.operator_name(graph, found) == "RESHAPE":
        found = step(found)
    return found


def _reads(graph: Any, operator: Any, tensor: int, names: tuple[str, ...]) -> bool:
    """Tell whether one of the named operators reads the tensor, or a view of it."""
    if tensor not in graphs.indices(operator.inputs):
        return False
    name = graphs.operator_name(graph, operator)
    if name != "RESHAPE":
        return name in names
    viewed = int(operator.outputs[0])
    return any(_reads(graph, other, viewed, names) for other in graph.subgraphs[0].operators)


def _quotient(graph: Any, subgraph: Any, operator: Any, shape: list[int]) -> tuple[list[Any], int]:
    """Return the operators that stand for a softmax of one row, and the tensor of the sum."""
    kind = subgraph.tensors[operator.outputs[0]].type
    highest, total = (editing.add_tensor(subgraph, [*shape[:-1], 1], kind) for _ in range(2))
    axis = editing.add_constant(graph, subgraph, np.array([len(shape) - 1], np.int32))
    chain, x = Chain(graph, operator.outputs[0]), int(operator.inputs[0])
    chain.operators.append(editing.new_operator(graph, "REDUCE_MAX", [x, axis], [highest], keepDims=True))
    powers = chain.add("EXP", chain.add("SUB", x, highest))
    chain.operators.append(editing.new_operator(graph, "SUM", [powers, axis], [total], keepDims=True))
    chain.add("DIV", powers, total, target=int(operator.outputs[0]))
    return chain.operators, total


def rewrite(graph: Any, ranges: Mapping[int, Range]) -> dict[int, float]:
    """Put operators that the delegate has in int8 in the place of those that one row needs.

    Args:
        graph: the float graph, changed in place.
        ranges: tensor index -> range of the float activations.

    Returns:
        Tensor index -> factor by which its range must exceed the real one: int8 rounding moves it that far.
    """
    subgraph = graph.subgraphs[0]
    operators = []
    room: dict[int, float] = {}
    for operator in subgraph.operators:
        name = graphs.operator_name(graph, operator)
        form = _FORMS.get(name)
        written = form(graph, operator, ranges) if form else None
        if name == "DIV" and written is None:
            written = _corrected_quotient(graph, operator, ranges, room)
        operators += written or [operator]
    subgraph.operators = operators
    return room


def _exponential(graph: Any, operator: Any, ranges: Mapping[int, Range]) -> list[Any] | None:
    """Take ELU + 1, where nothing is above 0."""
    x, result = int(operator.inputs[0]), int(operator.outputs[0])
    if ranges.get(x, (0.0, 1.0))[1] > 0.0:
        return None
    chain = Chain(graph, result)
    chain.add("ADD", chain.add("ELU", x), 1.0, target=result)
    return chain.operators


def _quotient_of_few(graph: Any, operator: Any, ranges: Mapping[int, Range]) -> list[Any] | None:
    """Multiply by 1 / y, where there are few y and they don't span more than int8 has steps for."""
    (x, y), result = map(int, operator.inputs), int(operator.outputs[0])
    shape = graph.subgraphs[0].tensors[y].shape
    bounds = ranges.get(y, (0.0, 0.0))
    is_fused = operator.builtinOptions.fusedActivationFunction
    if is_fused or int(np.prod(shape)) > curves.FEW or not curves.spans(bounds):
        return None
    chain = Chain(graph, y)
    reciprocal = curves.add_power(chain, y, bounds, 1.0)
    chain.add("MUL", x, reciprocal, target=result)
    return chain.operators


def _corrected_quotient(
    graph: Any, operator: Any, ranges: Mapping[int, Range], room: dict[int, float]
) -> list[Any] | None:
    """Divide exponentials by their sum twice, where the sum spans more than int8 has steps for.

    The smallest sums are rounded by half of themselves at most, so the quotients add up to about 1; what they
    do add up to is in range, and divides them once more.
    """
    (x, total), result = map(int, operator.inputs), int(operator.outputs[0])
    subgraph = graph.subgraphs[0]
    producers = {int(op.outputs[0]): op for op in subgraph.operators}
    adding = producers.get(total)
    low, high = ranges.get(total, (0.0, 0.0))
    if adding is None or graphs.operator_name(graph, adding) != "SUM" or int(adding.inputs[0]) != x:
        return None
    if operator.builtinOptions.fusedActivationFunction or not adding.builtinOptions.keepDims:
        return None
    if int(np.prod(subgraph.tensors[total].shape)) > curves.FEW or not has_steps((low, high)):
        return None
    quotients, sums = Chain(graph, result), Chain(graph, total)
    rough = quotients.add("MUL", x, curves.add_power(sums, total, (low, high), 1.0))
    again = Chain(graph, total)
    about_one = again.add("SUM", rough, int(adding.inputs[1]), keepDims=True)
    off = 1.1 / (1.0 - high / low / (2 * WIDEST_SUM))  # the curve and half a step
    factor = curves.add_power(again, about_one, (1.0 / off, off), 1.0)
    # Without rounding the sum is 1, which says nothing of how far the curve must reach.
    room.update({int(op.outputs[0]): off**2 for op in again.operators})
    room[rough] = off
    last = Chain(graph, result)
    last.add("MUL", rough, factor, target=result)
    return [*sums.operators, *quotients.operators, *again.operators, *last.operators]


def pool(graph: Any) -> int:
    """Write each product of one row of weights with a matrix as products and their sum; return how many."""
    subgraph = graph.subgraphs[0]
    operators = []
    count = 0
    for operator in subgraph.operators:
        is_product = graphs.operator_name(graph, operator) == "BATCH_MATMUL"
        written = _product_of_one_row(graph, operator) if is_product else None
        count += written is not None
        operators += written or [operator]
    subgraph.operators = operators
    return count


def _product_of_one_row(graph: Any, operator: Any) -> list[Any] | None:
    """Multiply each value of a row with the row of the matrix that it is for, and add these up."""
    subgraph = graph.subgraphs[0]
    options, (row, matrix), (result,) = operator.builtinOptions, operator.inputs, operator.outputs
    first, second = ([int(size) for size in subgraph.tensors[t].shape] for t in (row, matrix))
    if options.adjX or options.adjY or int(np.prod(first[:-1])) != 1 or int(np.prod(second[:-2])) != 1:
        return None
    kind = subgraph.tensors[result].type
    column = editing.add_tensor(subgraph, [*second[:-1], 1], kind)
    parts = editing.add_tensor(subgraph, second, kind)
    axis = editing.add_constant(graph, subgraph, np.array([len(second) - 2], np.int32))
    return [
        editing.new_reshape(graph, subgraph, int(row), column),
        editing.new_operator(graph, "MUL", [int(matrix), column], [parts]),
        editing.new_operator(graph, "SUM", [parts, axis], [int(result)], keepDims=True),
    ]


_FORMS: dict[str, Callable[[Any, Any, Mapping[int, Range]], list[Any] | None]] = {
    "DIV": _quotient_of_few,
    "EXP": _exponential,
}
