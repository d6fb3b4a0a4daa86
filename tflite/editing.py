"""Adding tensors, constants and operators to a .tflite graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs

_TYPES = {
    "bool": schema.TensorType.BOOL,
    "float32": schema.TensorType.FLOAT32,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
}
_TABLES = {
    "BATCH_MATMUL": "BatchMatMul",
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "MAXIMUM": "MaximumMinimum",
    "MAX_POOL_2D": "Pool2D",
    "MEAN": "Reducer",
    "MINIMUM": "MaximumMinimum",
    "REDUCE_MAX": "Reducer",
    "SUM": "Reducer",
}
"""Options tables that are not called like their operator."""


def add_tensor(subgraph: Any, shape: list[int], kind: int, buffer: int = 0) -> int:
    """Add a tensor of a schema type and return its index."""
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.buffer, tensor.name = shape, kind, buffer, b""
    subgraph.tensors.append(tensor)
    return len(subgraph.tensors) - 1


def add_constant(graph: Any, subgraph: Any, values: np.ndarray) -> int:
    """Store a float32, int32, int64 or bool array and return the index of its tensor."""
    buffer = schema.BufferT()
    stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    buffer.data = np.frombuffer(stored.tobytes(), np.uint8)
    graph.buffers.append(buffer)
    return add_tensor(subgraph, list(values.shape), _TYPES[values.dtype.name], len(graph.buffers) - 1)


def new_operator(
    graph: Any, name: str, inputs: list[int], outputs: list[int], version: int = 1, **options: Any
) -> Any:
    """Return an operator of a builtin kind; the caller puts it in its place.

    Args:
        graph: the flatbuffer object, which gets the operator code.
        name: schema name, such as "MAX_POOL_2D".
        inputs: tensor indices.
        outputs: tensor indices.
        version: version of the operator.
        **options: fields of its options table, such as filterWidth.
    """
    operator = schema.OperatorT()
    operator.opcodeIndex = graphs.operator_code(graph, getattr(schema.BuiltinOperator, name), version)
    operator.inputs, operator.outputs = inputs, outputs
    table = _TABLES.get(name) or "".join(part.capitalize() for part in name.split("_"))
    table += "Options"
    if hasattr(schema, table + "T"):
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
        operator.builtinOptions = getattr(schema, table + "T")()
        for field, value in options.items():
            setattr(operator.builtinOptions, field, value)
    return operator


def new_reshape(graph: Any, subgraph: Any, source: int, target: int) -> Any:
    """Return a RESHAPE from one tensor to the shape of another."""
    shape = [int(size) for size in subgraph.tensors[target].shape]
    inputs = [source, add_constant(graph, subgraph, np.array(shape, np.int32))]
    return new_operator(graph, "RESHAPE", inputs, [target], newShape=shape)
