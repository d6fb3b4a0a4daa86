"""Small changes to the float graph that let XNNPACK take all of it; the outputs stay equal, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs


def separate_outputs(graph: Any) -> None:
    """Give every output a tensor of its own where it is an input, another output, or read inside as well.

    The quantizer can't keep such a tensor in int8 for its readers and in float for the caller.
    """
    (signature,) = graph.signatureDefs
    subgraph = graph.subgraphs[0]
    taken = set(graphs.indices(subgraph.inputs))
    for operator in subgraph.operators:
        taken.update(graphs.indices(operator.inputs))
    for position, tensor in enumerate(subgraph.outputs):
        if tensor in taken:
            source = subgraph.tensors[tensor]
            copy = add_tensor(subgraph, list(source.shape), source.type)
            subgraph.operators.append(_reshape(graph, subgraph, tensor, copy))
            subgraph.outputs[position] = copy
            signature.outputs[position].tensorIndex = copy
        taken.add(tensor)


def keep_sliced_axes(graph: Any) -> None:
    """Turn `x[:, -1]` into `x[:, -1:]` and a reshape: the delegate has no slice that drops an axis."""
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        operators.append(operator)
        if graphs.operator_name(graph, operator) == "STRIDED_SLICE":
            reshape = _split_slice(graph, subgraph, operator)
            if reshape is not None:
                operators.append(reshape)
    subgraph.operators = operators


def _split_slice(graph: Any, subgraph: Any, operator: Any) -> Any:
    """Make the slice keep its axes and return the RESHAPE that drops them, or None where it can't be."""
    options = operator.builtinOptions
    source, *bounds = (subgraph.tensors[index] for index in operator.inputs)
    shape = list(source.shape)
    if not options.shrinkAxisMask or options.ellipsisMask or options.newAxisMask:
        return None
    if min(shape) < 0 or not all(graphs.is_constant(graph, tensor) for tensor in bounds):
        return None
    begin, end, strides = (graphs.constant_value(graph, tensor).copy() for tensor in bounds)
    shrunk = [axis for axis in range(len(begin)) if options.shrinkAxisMask >> axis & 1]
    for axis in shrunk:
        begin[axis] += shape[axis] if begin[axis] < 0 else 0
        end[axis] = begin[axis] + 1
        strides[axis] = 1
    result = subgraph.tensors[operator.outputs[0]]
    kept = list(result.shape)
    for axis in shrunk:
        kept.insert(axis, 1)
    bits = sum(1 << axis for axis in shrunk)
    options.shrinkAxisMask = 0
    options.beginMask &= ~bits
    options.endMask &= ~bits
    operator.inputs = [operator.inputs[0], *(_constant(graph, subgraph, v) for v in (begin, end, strides))]

    (target,) = operator.outputs
    operator.outputs = [add_tensor(subgraph, kept, result.type)]
    return _reshape(graph, subgraph, operator.outputs[0], target)


def _reshape(graph: Any, subgraph: Any, source: int, target: int) -> Any:
    """Return a RESHAPE from one tensor to the shape of another."""
    shape = list(subgraph.tensors[target].shape)
    operator = schema.OperatorT()
    operator.opcodeIndex = operator_code(graph, schema.BuiltinOperator.RESHAPE)
    operator.inputs = [source, _constant(graph, subgraph, np.array(shape, np.int32))]
    operator.outputs = [target]
    operator.builtinOptionsType = schema.BuiltinOptions.ReshapeOptions
    operator.builtinOptions = schema.ReshapeOptionsT()
    operator.builtinOptions.newShape = shape
    return operator


def add_tensor(subgraph: Any, shape: list[int], kind: int, buffer: int = 0) -> int:
    """Add a tensor and return its index."""
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.buffer, tensor.name = shape, kind, buffer, b""
    subgraph.tensors.append(tensor)
    return len(subgraph.tensors) - 1


def _constant(graph: Any, subgraph: Any, values: np.ndarray) -> int:
    """Store an int32 vector and return the index of its tensor."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.astype("<i4").tobytes(), np.uint8)
    graph.buffers.append(buffer)
    return add_tensor(subgraph, [len(values)], schema.TensorType.INT32, len(graph.buffers) - 1)


def operator_code(graph: Any, builtin: int, version: int = 1) -> int:
    """Return the index of a builtin operator of at least this version, added where the file has none."""
    for index, code in enumerate(graph.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin:
            code.version = max(code.version, version)
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, builtin, version
    graph.operatorCodes.append(code)
    return len(graph.operatorCodes) - 1
