"""Integer products as convolutions of size 1, which every runtime rounds alike.

LiteRT's reference kernel of FULLY_CONNECTED rounds each product once, by a multiplier of 31 bits. In int8
its other reference kernels and all of tflite-micro round twice: first to a 31-bit product, then to the step.
A sum that lies within about a thousandth of the middle between two steps then falls on the other side. In
int16 they take a multiplier of 16 bits, as fine as the steps themselves. A convolution of size 1 computes
the same sums, and is rounded alike in both runtimes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

_VERSIONS = {"int8": 3, "int16": 4}
"""Type of the data -> version of CONV_2D."""
_BIAS = {"int8": "int32", "int16": "int64"}
"""Type of the data -> that of the bias."""


def replace_products(graph: Any) -> int:
    """Write each integer FULLY_CONNECTED of stored weights as CONV_2D, and return their number.

    The tensors of subgraph 0 keep their numbers.
    """
    subgraph = graph.subgraphs[0]
    operators = []
    count = 0
    for operator in subgraph.operators:
        if _fits(graph, subgraph, operator):
            operators += _as_convolution(graph, subgraph, operator)
            count += 1
        else:
            operators.append(operator)
    subgraph.operators = operators
    return count


def _fits(graph: Any, subgraph: Any, operator: Any) -> bool:
    if graphs.operator_name(graph, operator) != "FULLY_CONNECTED":
        return False
    data, weights, *bias = (subgraph.tensors[index] for index in graphs.indices(operator.inputs))
    kind = graphs.tensor_type(data)
    return (
        kind in _VERSIONS
        and graphs.tensor_type(weights) == "int8"
        and all(graphs.tensor_type(added) == _BIAS[kind] for added in bias)
        and graphs.is_constant(graph, weights)
        and len(weights.shape) == 2
    )


def _as_convolution(graph: Any, subgraph: Any, operator: Any) -> list[Any]:
    """Return the reshape to one row of positions, the convolution, and the reshape back."""
    data, weights, *bias = graphs.indices(operator.inputs)
    units, channels = (int(size) for size in subgraph.tensors[weights].shape)
    kind = graphs.tensor_type(subgraph.tensors[data])
    if not bias:  # which a convolution in integers must have
        bias = [editing.add_constant(graph, subgraph, np.zeros(units, _BIAS[kind]))]
    (result,) = (int(index) for index in operator.outputs)
    rows = 1
    for size in subgraph.tensors[data].shape:
        rows *= int(size)
    rows //= channels
    flat = _like(subgraph, data, [1, 1, rows, channels])
    kernel = _like(subgraph, weights, [units, 1, 1, channels])
    answer = _like(subgraph, result, [1, 1, rows, units])
    convolution = editing.new_operator(
        graph,
        "CONV_2D",
        [flat, kernel, *bias],
        [answer],
        _VERSIONS[kind],
        strideW=1,
        strideH=1,
        dilationWFactor=1,
        dilationHFactor=1,
        fusedActivationFunction=operator.builtinOptions.fusedActivationFunction,
    )
    return [
        editing.new_reshape(graph, subgraph, data, flat),
        convolution,
        editing.new_reshape(graph, subgraph, answer, result),
    ]


def _like(subgraph: Any, index: int, shape: list[int]) -> int:
    """Add a tensor of the same type, scales and stored values, of another shape."""
    source = subgraph.tensors[index]
    added = editing.add_tensor(subgraph, shape, source.type, source.buffer)
    subgraph.tensors[added].quantization = source.quantization
    return added
