"""One channel that is far larger than the others, brought to their size by its neighbours' weights.

A scale must hold the largest channel of a tensor; beside an outlier all other channels are lost. Where a
product or convolution writes the tensor and others read it, the channel can be divided by a number in the
weights that write it and multiplied in those that read it: the answers stay the same. It is done only as
far as the reading weights stay within their present range, so that these lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

OUTLIER = 16.0
"""A channel counts as an outlier from this multiple of the median channel's largest value."""
LEFT = 4.0
"""The multiple to which it is brought down."""
SAMPLES = 64
"""Calibration samples on which channels are compared."""
_AXES = {"CONV_2D": (0, 3), "FULLY_CONNECTED": (0, 1)}
"""Operator -> axes of its weights that count outputs and inputs."""
_SCALABLE = (schema.ActivationFunctionType.NONE, schema.ActivationFunctionType.RELU)


def equalize(content: bytes, samples: Mapping[str, np.ndarray]) -> tuple[bytes, tuple[int, ...]]:
    """Return the float file with its outlier channels brought down, and the operators that write them."""
    graph = graphs.read_graph(content)
    pairs = _pairs(graph)
    if not pairs:
        return content, ()
    largest = _largest(content, samples, [int(writer.outputs[0]) for _, writer, _ in pairs])
    changed = []
    for index, writer, readers in pairs:
        factors = _factors(graph, readers, largest[int(writer.outputs[0])])
        if (factors > 1.0).any():
            _scale(graph, writer, 0, 1.0 / factors)
            for reader in readers:
                _scale(graph, reader, 1, factors)
            changed.append(index)
    if not changed:
        return content, ()
    graphs.remove_unused(graph)
    return graphs.write_graph(graph), tuple(changed)


def _pairs(graph: Any) -> list[tuple[int, Any, list[Any]]]:
    """Return (index, writer, readers) wherever all that read a tensor multiply it by stored weights."""
    subgraph = graph.subgraphs[0]
    outputs = set(graphs.indices(subgraph.outputs))
    users: dict[int, int] = {}
    for operator in subgraph.operators:
        if len(operator.inputs) > 1:
            buffer = subgraph.tensors[operator.inputs[1]].buffer
            users[buffer] = users.get(buffer, 0) + 1
    found = []
    for index, writer in enumerate(subgraph.operators):
        tensor = int(writer.outputs[0])
        if tensor in outputs or not _has_weights(graph, writer, users):
            continue
        if int(writer.builtinOptions.fusedActivationFunction) not in _SCALABLE:
            continue
        readers = [op for op in subgraph.operators if tensor in graphs.indices(op.inputs)]
        if readers and all(
            _has_weights(graph, reader, users) and int(reader.inputs[0]) == tensor for reader in readers
        ):
            found.append((index, writer, readers))
    return found


def _has_weights(graph: Any, operator: Any, users: Mapping[int, int]) -> bool:
    """Tell whether the operator multiplies by stored float weights that are its own."""
    if graphs.operator_name(graph, operator) not in _AXES:
        return False
    tensors = graph.subgraphs[0].tensors
    present = [tensors[index] for index in graphs.indices(operator.inputs)[1:]]
    stored = all(graphs.is_constant(graph, t) and graphs.tensor_type(t) == "float32" for t in present)
    return stored and users[present[0].buffer] == 1


def _largest(content: bytes, samples: Mapping[str, np.ndarray], tensors: list[int]) -> dict[int, np.ndarray]:
    """Return the largest magnitude of each channel of some tensors."""
    interpreter = runtime.load_interpreter(content, keep_tensors=True)
    count = len(next(iter(samples.values())))
    found: dict[int, np.ndarray] = {}
    for number in np.unique(np.linspace(0, count - 1, min(count, SAMPLES)).astype(int)):
        runtime.set_inputs(interpreter, {name: values[number] for name, values in samples.items()})
        interpreter.invoke()
        for tensor in tensors:
            values = np.abs(interpreter.get_tensor(tensor))
            highest = values.reshape(-1, values.shape[-1]).max(axis=0)
            found[tensor] = np.maximum(found.get(tensor, 0.0), highest)
    return found


def _factors(graph: Any, readers: list[Any], largest: np.ndarray) -> np.ndarray:
    """Return the number by which each channel is divided."""
    alive = largest[largest > 0]
    if not alive.size or not np.isfinite(largest).all():
        return np.ones(len(largest))
    median = float(np.median(alive))
    wanted = np.where(largest > OUTLIER * median, largest / (LEFT * median), 1.0)
    for reader in readers:
        weights = np.abs(_values(graph, int(reader.inputs[1])))
        name = graphs.operator_name(graph, reader)
        read = weights.max(axis=tuple(a for a in range(weights.ndim) if a != _AXES[name][1]))
        if len(read) != len(largest):
            return np.ones(len(largest))
        room = np.divide(read.max(), read, out=np.full(len(read), np.inf), where=read > 0)
        wanted = np.minimum(wanted, np.maximum(room, 1.0))
    return wanted


def _scale(graph: Any, operator: Any, side: int, factors: np.ndarray) -> None:
    """Multiply an operator's weights, and its bias on the output side, by a factor per channel."""
    subgraph = graph.subgraphs[0]
    inputs = [int(index) for index in operator.inputs]
    weights = _values(graph, inputs[1])
    shape = [1] * weights.ndim
    shape[_AXES[graphs.operator_name(graph, operator)][side]] = -1
    inputs[1] = _stored(graph, subgraph, weights * factors.reshape(shape), inputs[1])
    if side == 0 and len(inputs) > 2 and inputs[2] >= 0:
        inputs[2] = _stored(graph, subgraph, _values(graph, inputs[2]) * factors, inputs[2])
    operator.inputs = inputs


def _values(graph: Any, tensor: int) -> np.ndarray:
    return graphs.constant_value(graph, graph.subgraphs[0].tensors[tensor]).astype(np.float64)


def _stored(graph: Any, subgraph: Any, values: np.ndarray, like: int) -> int:
    """Add a constant with the name of another tensor, which it replaces."""
    added = editing.add_constant(graph, subgraph, values.astype(np.float32))
    subgraph.tensors[added].name = graphs.tensor_name(subgraph.tensors[like]).encode() + b" scaled"
    return added
