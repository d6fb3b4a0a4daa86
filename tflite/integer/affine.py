"""Factors and addends per channel, gathered: x * 2 - [1, 3] and the like are one operator, or none.

They come from Normalization, Rescaling, the end of a norm, and BatchNormalization where the converter
could not fold it. As integers each would round once more, and one scale for all channels drowns the
small ones. Gathered, they become part of the matrix products that read them, or one depthwise
convolution with a window of 1, whose weights have a scale for each channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

_KINDS = frozenset({"ADD", "DIV", "MUL", "SUB"})
_NONE = schema.ActivationFunctionType.NONE
MOST_UNEVEN = 8.0
"""Factors of very different size stay out of a product's weights, which share a scale over the inputs."""


@dataclass(frozen=True)
class Affine:
    """A chain of operators that together are x * factor + addend.

    Attributes:
        operators: the chain, first to last.
        source: tensor x.
        result: tensor of the result.
        factor: one number per channel.
        addend: the same.
        activation: activation function fused into the last operator.
    """

    operators: tuple[Any, ...]
    source: int
    result: int
    factor: np.ndarray
    addend: np.ndarray
    activation: int


def gather(graph: Any) -> int:
    """Replace the chains of subgraph 0, and return how many there were."""
    subgraph = graph.subgraphs[0]
    readers: dict[int, list[Any]] = {}
    for operator in subgraph.operators:
        for tensor in graphs.indices(operator.inputs):
            readers.setdefault(tensor, []).append(operator)
    outputs = set(graphs.indices(subgraph.outputs))
    used: set[int] = set()
    replacements: dict[int, list[Any]] = {}
    count = 0
    for operator in subgraph.operators:
        if id(operator) in used:
            continue
        chain = _chain(graph, operator, readers, outputs)
        if chain is None:
            continue
        products = _products(graph, chain, readers, outputs)
        if not products and len(chain.operators) < 2:
            continue
        count += 1
        used.update(id(part) for part in chain.operators)
        replacements.update({id(part): [] for part in chain.operators})
        if products:
            for product in products:
                _fold(graph, chain, product)
        else:
            replacements[id(chain.operators[-1])] = _depthwise(graph, chain)
    subgraph.operators = [
        new for operator in subgraph.operators for new in replacements.get(id(operator), [operator])
    ]
    return count


def _chain(graph: Any, start: Any, readers: dict[int, list[Any]], outputs: set[int]) -> Affine | None:
    """Return the longest chain that starts with this operator."""
    first = _step(graph, start)
    if first is None:
        return None
    source, factor, addend = first
    operators = [start]
    while True:
        last = operators[-1]
        result = int(last.outputs[0])
        following = readers.get(result, [])
        if result in outputs or len(following) != 1 or last.builtinOptions.fusedActivationFunction != _NONE:
            break
        step = _step(graph, following[0])
        if step is None or step[0] != result:
            break
        factor, addend = factor * step[1], addend * step[1] + step[2]
        operators.append(following[0])
    activation = int(operators[-1].builtinOptions.fusedActivationFunction)
    return Affine(tuple(operators), source, int(operators[-1].outputs[0]), factor, addend, activation)


def _step(graph: Any, operator: Any) -> tuple[int, np.ndarray, np.ndarray] | None:
    """Return (source, factor, addend) of an operator with a constant per channel, else None."""
    name = graphs.operator_name(graph, operator)
    if name not in _KINDS or operator.builtinOptions is None:
        return None
    tensors = graph.subgraphs[0].tensors
    left, right = (int(index) for index in operator.inputs)
    constants = [graphs.is_constant(graph, tensors[index]) for index in (left, right)]
    if constants == [True, False] and name != "DIV":
        constant, source = left, right
    elif constants == [False, True]:
        constant, source = right, left
    else:
        return None
    shape = [int(size) for size in tensors[source].shape]
    same = shape == [int(size) for size in tensors[operator.outputs[0]].shape]
    if graphs.tensor_type(tensors[source]) != "float32" or not same or len(shape) < 2 or shape[-1] < 2:
        return None
    values = graphs.constant_value(graph, tensors[constant]).astype(np.float64)
    if values.size not in (1, shape[-1]) or (values.size > 1 and values.shape[-1] != shape[-1]):
        return None
    values = np.broadcast_to(values.ravel(), shape[-1:])
    one, zero = np.ones(shape[-1]), np.zeros(shape[-1])
    if name == "MUL":
        return source, values, zero
    if name == "DIV":
        return (source, 1.0 / values, zero) if np.all(values != 0) else None
    if name == "ADD":
        return source, one, values
    return (source, one, -values) if constant == right else (source, -one, values)


def _products(graph: Any, chain: Affine, readers: dict[int, list[Any]], outputs: set[int]) -> list[Any]:
    """Return the matrix products that read the chain's result, if all that do are such and can take it."""
    sizes = np.abs(chain.factor)
    fits = chain.activation == _NONE and chain.result not in outputs and sizes.min() > 0
    if not fits or sizes.max() > MOST_UNEVEN * sizes.min():
        return []
    tensors = graph.subgraphs[0].tensors
    following = readers.get(chain.result, [])
    for product in following:
        if graphs.operator_name(graph, product) != "FULLY_CONNECTED" or product.inputs[0] != chain.result:
            return []
        present = [int(index) for index in product.inputs if index >= 0]
        if not all(graphs.is_constant(graph, tensors[index]) for index in present[1:]):
            return []
        if int(tensors[present[1]].shape[-1]) != chain.factor.size:
            return []
    return following


def _fold(graph: Any, chain: Affine, product: Any) -> None:
    """Let a matrix product do the chain's work."""
    subgraph = graph.subgraphs[0]
    weights = graphs.constant_value(graph, subgraph.tensors[product.inputs[1]]).astype(np.float64)
    bias = weights @ chain.addend
    if len(product.inputs) > 2 and product.inputs[2] >= 0:
        bias = bias + graphs.constant_value(graph, subgraph.tensors[product.inputs[2]])
    folded = (weights * chain.factor).astype(np.float32)
    product.inputs = [
        chain.source,
        editing.add_constant(graph, subgraph, folded),
        editing.add_constant(graph, subgraph, bias.astype(np.float32)),
    ]


def _depthwise(graph: Any, chain: Affine) -> list[Any]:
    """Return a depthwise convolution with a window of 1, between reshapes where the rank is not 4."""
    subgraph = graph.subgraphs[0]
    shape = [int(size) for size in subgraph.tensors[chain.source].shape]
    channels = shape[-1]
    factor = chain.factor.astype(np.float32).reshape(1, 1, 1, channels)
    weights = editing.add_constant(graph, subgraph, factor)
    bias = editing.add_constant(graph, subgraph, chain.addend.astype(np.float32))
    source, result = chain.source, chain.result
    operators = []
    if len(shape) != 4:
        viewed = [1, 1, int(np.prod(shape[:-1])), channels]
        source = editing.add_tensor(subgraph, viewed, schema.TensorType.FLOAT32)
        result = editing.add_tensor(subgraph, viewed, schema.TensorType.FLOAT32)
        operators.append(editing.new_reshape(graph, subgraph, chain.source, source))
    operators.append(
        editing.new_operator(
            graph,
            "DEPTHWISE_CONV_2D",
            [source, weights, bias],
            [result],
            padding=schema.Padding.VALID,
            strideW=1,
            strideH=1,
            depthMultiplier=1,
            dilationWFactor=1,
            dilationHFactor=1,
            fusedActivationFunction=chain.activation,
        )
    )
    if len(shape) != 4:
        operators.append(editing.new_reshape(graph, subgraph, result, chain.result))
    return operators
