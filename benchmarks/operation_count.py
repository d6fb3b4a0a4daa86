"""Arithmetic of a .tflite file, counted from its operators.

A product with an addition counts 2, as usual: convolutions, dense layers and products of matrices are what
they are by definition, whatever a kernel saves. Every other operator that computes counts 1 for each value
that it reads of what a sum or maximum is taken over, or else for each value that it makes. Operators that
move values count nothing.
"""

from __future__ import annotations

import math
from typing import Any

from keras_attention.tflite import graph as graphs

PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL")
REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
MOVES = (
    "RESHAPE",
    "TRANSPOSE",
    "CONCATENATION",
    "SLICE",
    "STRIDED_SLICE",
    "SPLIT",
    "PAD",
    "PACK",
    "UNPACK",
    "EXPAND_DIMS",
    "SQUEEZE",
    "CAST",
    "QUANTIZE",
    "DEQUANTIZE",
)


def count(content: bytes) -> int:
    """Return the floating-point operations of one run of the main graph of a float file."""
    graph = graphs.read_graph(content)
    subgraph = graph.subgraphs[0]
    return sum(_of_operator(graph, subgraph, operator) for operator in subgraph.operators)


def _of_operator(graph: Any, subgraph: Any, operator: Any) -> int:
    name = graphs.operator_name(graph, operator)
    inputs = [list(subgraph.tensors[index].shape) for index in graphs.indices(operator.inputs)]
    made = sum(math.prod(subgraph.tensors[index].shape) for index in graphs.indices(operator.outputs))
    if name in MOVES:
        return 0
    if name in PRODUCTS:
        return 2 * made * _products(name, inputs, operator)
    if name in REDUCTIONS:
        return math.prod(inputs[0])
    if name in POOLS:
        return made * operator.builtinOptions.filterWidth * operator.builtinOptions.filterHeight
    return made


def _products(name: str, inputs: list[list[int]], operator: Any) -> int:
    """Return how many products each value of the output is the sum of."""
    kernel = inputs[1]
    if name == "CONV_2D":  # (outputs, height, width, inputs)
        return math.prod(kernel[1:])
    if name == "DEPTHWISE_CONV_2D":  # (1, height, width, outputs)
        return math.prod(kernel[1:3])
    if name == "BATCH_MATMUL" and operator.builtinOptions.adjX:
        return inputs[0][-2]
    return inputs[0][-1] if name == "BATCH_MATMUL" else kernel[-1]
