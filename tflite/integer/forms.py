"""Float operators without an integer kernel, written as ones that have one; the values stay the same.

Each function takes the graph and one operator and returns the operators that stand for it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer.scales import Range

_RELU6 = schema.ActivationFunctionType.RELU6
_GELU_CUBE, _GELU_SLOPE = 0.044715, 2.0 * float(np.sqrt(2.0 / np.pi))


def rewrite(graph: Any, bits: int, ranges: Mapping[int, Range]) -> None:
    """Replace the operators of subgraph 0 that have no kernel of 8 or 16 bits but another form.

    Args:
        graph: the float graph, changed in place.
        bits: 8 or 16.
        ranges: tensor index -> range of the float activations.
    """
    forms = {**_FORMS, **(_FORMS_16 if bits == 16 else {})}
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        name = graphs.operator_name(graph, operator)
        form = forms.get(name)
        if name == "SQRT":
            written = _square_root(graph, operator, bits, ranges)
        else:
            written = None if form is None else form(graph, operator)
        operators += written or [operator]
    subgraph.operators = operators


def take_integer_ids(graph: Any) -> list[int]:
    """Let float inputs that are cast to integers at once be integer inputs; return their tensors.

    Ids are no quantities: with the 256 steps of int8 nearly each would become another one.
    """
    subgraph = graph.subgraphs[0]
    changed = []
    for tensor in graphs.indices(subgraph.inputs):
        readers = [op for op in subgraph.operators if tensor in graphs.indices(op.inputs)]
        if graphs.tensor_type(subgraph.tensors[tensor]) != "float32" or not readers:
            continue
        targets = {subgraph.tensors[op.outputs[0]].type for op in readers}
        if any(graphs.operator_name(graph, op) != "CAST" for op in readers) or len(targets) != 1:
            continue
        results = {op.outputs[0] for op in readers}
        if {tensor, *results} & set(graphs.indices(subgraph.outputs)):
            continue
        (kind,) = targets
        if kind not in (schema.TensorType.INT32, schema.TensorType.INT64):
            continue
        subgraph.tensors[tensor].type = kind
        subgraph.operators = [op for op in subgraph.operators if op not in readers]
        for operator in subgraph.operators:
            operator.inputs = [tensor if index in results else int(index) for index in operator.inputs]
        changed.append(tensor)
    return changed


class Chain:
    """Operators in a row, all results being of one shape."""

    def __init__(self, graph: Any, like: int) -> None:
        self._graph, self._subgraph = graph, graph.subgraphs[0]
        self._like = self._subgraph.tensors[like]
        self.operators: list[Any] = []

    def add(self, name: str, *inputs: int | float, target: int | None = None, **options: Any) -> int:
        """Append an operator; numbers that are floats become constants. Return its result."""
        tensors = [
            editing.add_constant(self._graph, self._subgraph, np.array(value, np.float32))
            if isinstance(value, float)
            else value
            for value in inputs
        ]
        if target is None:
            shape = [int(size) for size in self._like.shape]
            target = editing.add_tensor(self._subgraph, shape, schema.TensorType.FLOAT32)
        self.operators.append(editing.new_operator(self._graph, name, tensors, [target], **options))
        return target


def _chain(graph: Any, operator: Any) -> tuple[Chain, int, int]:
    """Return an empty chain, the operator's first input and its output."""
    return Chain(graph, operator.outputs[0]), int(operator.inputs[0]), int(operator.outputs[0])


def _negate(graph: Any, operator: Any) -> list[Any]:
    chain, x, result = _chain(graph, operator)
    chain.add("MUL", x, -1.0, target=result)
    return chain.operators


def _square(graph: Any, operator: Any) -> list[Any]:
    chain, x, result = _chain(graph, operator)
    chain.add("MUL", x, x, target=result)
    return chain.operators


def _square_root(graph: Any, operator: Any, bits: int, ranges: Mapping[int, Range]) -> list[Any] | None:
    """Take x / sqrt(x), bounded where x is less than a step: at 0 the quotient has no end."""
    chain, x, result = _chain(graph, operator)
    highest = ranges.get(x, (0.0, 0.0))[1]
    if highest <= 0.0:
        return None
    bounded = chain.add("MAXIMUM", x, highest / 2**bits)
    chain.add("MUL", x, chain.add("RSQRT", bounded), target=result)
    return chain.operators


def _clip(graph: Any, operator: Any) -> list[Any]:
    chain, x, result = _chain(graph, operator)
    chain.add("MAXIMUM", chain.add("MINIMUM", x, 1.0), -1.0, target=result)
    return chain.operators


def _cast(graph: Any, operator: Any) -> list[Any] | None:
    """Turn the cast of a condition into a selection between 1 and 0."""
    tensors = graph.subgraphs[0].tensors
    chain, condition, result = _chain(graph, operator)
    if graphs.tensor_type(tensors[condition]) != "bool" or graphs.tensor_type(tensors[result]) != "float32":
        return None
    chain.add("SELECT_V2", condition, 1.0, 0.0, target=result)
    return chain.operators


def _squared_difference(graph: Any, operator: Any) -> list[Any]:
    chain, x, result = _chain(graph, operator)
    difference = chain.add("SUB", x, int(operator.inputs[1]))
    chain.add("MUL", difference, difference, target=result)
    return chain.operators


def _sum(graph: Any, operator: Any) -> list[Any] | None:
    """Take the mean times the number of terms: the int16 sum ignores its scale."""
    subgraph = graph.subgraphs[0]
    source, axes = (subgraph.tensors[index] for index in operator.inputs)
    if graphs.tensor_type(source) != "float32" or not graphs.is_constant(graph, axes):
        return None
    chain, x, result = _chain(graph, operator)
    shape = [int(size) for size in source.shape]
    count = int(np.prod([shape[axis] for axis in graphs.constant_value(graph, axes).ravel()]))
    keep = bool(operator.builtinOptions.keepDims)
    mean = chain.add("MEAN", x, int(operator.inputs[1]), keepDims=keep)
    chain.add("MUL", mean, float(count), target=result)
    return chain.operators


def _gelu(graph: Any, operator: Any) -> list[Any]:
    """Take the tanh form of GELU, x times sigmoid of a cubic, which is within 0.0005 of the exact one."""
    chain, x, result = _chain(graph, operator)
    cubic = chain.add("ADD", chain.add("MUL", chain.add("MUL", x, x), _GELU_CUBE * _GELU_SLOPE), _GELU_SLOPE)
    chain.add("MUL", x, chain.add("LOGISTIC", chain.add("MUL", x, cubic)), target=result)
    return chain.operators


def _hard_swish(graph: Any, operator: Any) -> list[Any]:
    chain, x, result = _chain(graph, operator)
    gate = chain.add("ADD", x, 3.0, fusedActivationFunction=_RELU6)
    chain.add("MUL", chain.add("MUL", gate, 1.0 / 6.0), x, target=result)
    return chain.operators


_FORMS: dict[str, Callable[[Any, Any], list[Any] | None]] = {
    "CAST": _cast,
    "NEG": _negate,
    "RELU_N1_TO_1": _clip,
    "SQUARE": _square,
}
_FORMS_16: dict[str, Callable[[Any, Any], list[Any] | None]] = {
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUM": _sum,
}
