"""Float16 weights in a float32 graph, without losing what float16 can't hold.

Each stored array becomes float16 with a DEQUANTIZE operator behind it, which XNNPACK folds into the
operators that read it. TensorFlow's own conversion does so with every constant: a factor of 1e-7 comes out
a fifth off, and a mask of -1e30 infinite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

SMALL_VECTOR = 64
"""Vectors of fewer values stay: the operator that reads them would take more room than is saved."""
ROUNDING_DB = 60.0
"""Least SQNR of the rounding, in each row; where no value is too small for float16 it is above 70 dB."""
_VERSION = 3
"""The operator's first version that reads float16."""


def halve_weights(graph: Any) -> None:
    """Store the weights of a float32 graph in float16 wherever they stay what they are.

    Arrays with values beyond the range of float16, or so small that it rounds them coarsely, stay float32.
    Tensors that share a buffer share the float16 one.
    """
    halves: dict[int, int | None] = {}
    for subgraph in graph.subgraphs:
        added = []
        floats: dict[tuple[int, ...], int] = {}
        replaced: dict[int, int] = {}
        for index in _constants(graph, subgraph):
            tensor = subgraph.tensors[index]
            if tensor.buffer not in halves:
                halves[tensor.buffer] = _half_buffer(graph, tensor)
            half = halves[tensor.buffer]
            if half is None:
                continue
            key = (half, *tensor.shape)
            if key not in floats:
                source = editing.add_tensor(subgraph, list(tensor.shape), schema.TensorType.FLOAT16, half)
                added.append(editing.new_operator(graph, "DEQUANTIZE", [source], [index], _VERSION))
                floats[key] = index
            replaced[index] = floats[key]
            tensor.buffer = 0
        for operator in subgraph.operators:
            operator.inputs = [replaced.get(int(index), int(index)) for index in operator.inputs]
        subgraph.operators = added + list(subgraph.operators)
    used = {tensor.buffer for subgraph in graph.subgraphs for tensor in subgraph.tensors}
    for buffer, half in halves.items():
        if half is not None and buffer not in used:
            graph.buffers[buffer].data = None


def _constants(graph: Any, subgraph: Any) -> list[int]:
    """Return the stored float32 arrays that are worth it, results of the subgraph aside."""
    results = set(graphs.indices(subgraph.outputs))
    return [
        index
        for index, tensor in enumerate(subgraph.tensors)
        if index not in results
        and graphs.tensor_type(tensor) == "float32"
        and graphs.is_constant(graph, tensor)
        and (len(tensor.shape) >= 2 or int(np.prod(tensor.shape)) >= SMALL_VECTOR)
    ]


def _half_buffer(graph: Any, tensor: Any) -> int | None:
    """Store the values in float16 and return the index of the buffer, or None if they would suffer."""
    values = graphs.constant_value(graph, tensor)
    if np.abs(values).max() > np.finfo(np.float16).max:
        return None
    halved = values.astype(np.float16)
    rows = values.reshape(len(values), -1).astype(np.float64)
    noise = np.square(rows - halved.reshape(rows.shape)).sum(axis=1)
    if (noise > np.square(rows).sum(axis=1) * 10 ** (-ROUNDING_DB / 10)).any():
        return None
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(halved.astype("<f2").tobytes(), np.uint8)
    graph.buffers.append(buffer)
    return len(graph.buffers) - 1
