"""Normalizations in fewer passes: the mean taken off first, scale and shift in the weights behind.

Keras' graph is x * g + (beta - mean * g) with g = gamma / sqrt(variance + epsilon): five passes over data of
the size of x. (x - mean) / sqrt(variance + epsilon) takes three, and where only products with stored weights
read the result, as the queries, keys and values of a Transformer do, gamma and beta become a part of these:
(n * gamma + beta) W + b = n (gamma W) + (beta W + b). What the products read then has one size in all
channels, which is also what a static int8 scale wants.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite.integer import norms

_NONE = schema.ActivationFunctionType.NONE


QUANTIZED_SPREAD = 2.0
"""Largest ratio of gammas that files with quantized products give away. A larger one may be what makes the
channels even: without it one scale would have to hold a loud channel beside quiet ones."""


def fold(content: bytes, most_spread: float = math.inf) -> bytes:
    """Return the float file with its normalizations rewritten; the answers stay the same but for rounding.

    Args:
        content: bytes of the file.
        most_spread: largest ratio of a normalization's gammas up to which they become weights.
    """
    graph = graphs.read_graph(content)
    found = norms.find(graph)
    if not found:
        return content
    readers, users = _readers(graph)
    for number, norm in enumerate(found):
        products = readers.get(norm.result, [])
        if _folds(graph, norm, products, users) and _spread(graph, norm) <= most_spread:
            for product in products:
                _scale(graph, product, norm)
            found[number] = norms.without_scale(norm)
    norms.centre(graph, found)
    graphs.remove_unused(graph)
    layer_names.complete(graph)
    return graphs.write_graph(graph)


def _readers(graph: Any) -> tuple[dict[int, list[Any]], Counter[int]]:
    """Return who reads each tensor, where None stands for the caller, and how often each buffer is read."""
    subgraph = graph.subgraphs[0]
    found: dict[int, list[Any]] = {}
    users: Counter[int] = Counter()
    for operator in subgraph.operators:
        for tensor in graphs.indices(operator.inputs):
            found.setdefault(tensor, []).append(operator)
            users[subgraph.tensors[tensor].buffer] += 1
    for tensor in graphs.indices(subgraph.outputs):
        found.setdefault(tensor, []).append(None)
    return found, users


def _folds(graph: Any, norm: norms.Norm, readers: list[Any], users: Counter[int]) -> bool:
    """Tell whether gamma and beta lie along the last axis, and only products with own weights read the norm.

    Weights that others read as well would have to be stored twice.
    """
    tensors = graph.subgraphs[0].tensors
    channels = int(tensors[norm.result].shape[-1])
    scales = [tensors[index] for index in (norm.gamma, norm.beta) if index is not None]
    if not scales or norm.activation != _NONE or any(_along_last(scale) != channels for scale in scales):
        return False
    return bool(readers) and all(
        reader is not None
        and graphs.operator_name(graph, reader) == "FULLY_CONNECTED"
        and int(reader.inputs[0]) == norm.result
        and all(
            graphs.is_constant(graph, tensors[index]) and graphs.tensor_type(tensors[index]) == "float32"
            for index in graphs.indices(reader.inputs)[1:]
        )
        and int(tensors[reader.inputs[1]].shape[-1]) == channels
        and users[tensors[reader.inputs[1]].buffer] == 1
        for reader in readers
    )


def _spread(graph: Any, norm: norms.Norm) -> float:
    """Return the ratio of the largest gamma to the smallest, without signs."""
    if norm.gamma is None:
        return 1.0
    sizes = np.abs(_values(graph, norm.gamma))
    return float(sizes.max() / sizes.min()) if sizes.min() > 0 else math.inf


def _along_last(tensor: Any) -> int:
    """Return the size of a constant along the last axis, 0 where another axis has more than one entry."""
    shape = [int(size) for size in tensor.shape] if tensor.shape is not None else []
    return shape[-1] if shape and max(shape[:-1], default=1) == 1 else 0


def _scale(graph: Any, product: Any, norm: norms.Norm) -> None:
    """Put gamma and beta of a normalization into the weights and the bias of a product that reads it."""
    inputs = [int(index) for index in product.inputs]
    weights = _values(graph, inputs[1])
    bias = _values(graph, inputs[2]) if len(inputs) > 2 and inputs[2] >= 0 else None
    if norm.beta is not None:
        shift = weights @ _values(graph, norm.beta).ravel()
        bias = shift if bias is None else bias + shift
    if norm.gamma is not None:
        weights = weights * _values(graph, norm.gamma).ravel()
    named = [(inputs[1], weights)] if bias is None else [(inputs[1], weights), (inputs[-1], bias)]
    stored = [_stored(graph, values, like) for like, values in named]
    product.inputs = [inputs[0], *stored]


def _values(graph: Any, tensor: int) -> np.ndarray:
    return graphs.constant_value(graph, graph.subgraphs[0].tensors[tensor]).astype(np.float64)


def _stored(graph: Any, values: np.ndarray, like: int) -> int:
    """Add a constant with the name of another tensor, which it replaces."""
    subgraph = graph.subgraphs[0]
    added = editing.add_constant(graph, subgraph, values.astype(np.float32))
    name = graphs.tensor_name(subgraph.tensors[like]) if like >= 0 else ""
    subgraph.tensors[added].name = f"{name} with norm {added}".encode() if name else b""
    return added
