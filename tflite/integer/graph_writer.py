"""Writes the integer graph: types, scales and constants, and conversions at its borders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import kernels
from keras_attention.tflite.integer import scales as scaling
from keras_attention.tflite.integer.scales import Range
from keras_attention.tflite.integer.scales import Scale

_TYPES = {
    8: schema.TensorType.INT8,
    16: schema.TensorType.INT16,
    32: schema.TensorType.INT32,
    64: schema.TensorType.INT64,
}
_BIAS_STEPS = 2.0**30
"""Most steps that a 32 bit bias may have, so that the sums have room."""


def write_integer(
    graph: Any, integer: frozenset[int], ranges: Mapping[int, Range], bits: int, *, io_dtype: str
) -> bytes:
    """Return the file with some operators in integers.

    Args:
        graph: the float graph, which is used up.
        integer: indices of the operators of subgraph 0 that become integer; each is in `KERNELS`.
        ranges: tensor index -> range of its values, for all float activations that they read or write.
        bits: 8, or 16 for activations beside 8 bit weights.
        io_dtype: "float32", "int8", "uint8" or "int16": type of the file's float inputs and outputs.
    """
    writer = _Writer(graph, integer, ranges, bits)
    writer.write(io_dtype)
    graphs.remove_unused(graph)
    return graphs.write_graph(graph)


class _Writer:
    """The graph while it is rewritten, and the conversions that were made so far."""

    def __init__(self, graph: Any, integer: frozenset[int], ranges: Mapping[int, Range], bits: int) -> None:
        self._graph = graph
        self._subgraph = graph.subgraphs[0]
        self._integer = integer
        self._bits = bits
        self._scales, self._asked = scaling.assign(graph, integer, ranges, bits)
        self._reads = {
            index: scaling.data_inputs(graph, self._subgraph.operators[index]) for index in integer
        }
        self._operators: list[Any] = []
        self._integers: dict[int, int] = {}
        self._floats: dict[int, int] = {}
        self._converted: dict[tuple[int, float, int], int] = {}
        self._constants: dict[tuple[Any, ...], int] = {}

    def write(self, io_dtype: str) -> None:
        """Rewrite subgraph 0 in place."""
        subgraph = self._subgraph
        outputs = graphs.indices(subgraph.outputs)
        if io_dtype != "float32":
            for tensor in graphs.indices(subgraph.inputs):
                if tensor in self._scales:
                    self._take_integers(tensor, io_dtype)
        for index, operator in enumerate(list(subgraph.operators)):
            if index in self._integer:
                self._write_integer(index, operator)
            else:
                operator.inputs = [t if t < 0 else self._as_float(int(t)) for t in operator.inputs]
                self._operators.append(operator)
        for position, tensor in enumerate(outputs):
            if io_dtype == "float32":
                self._set_output(position, tensor, self._as_float(tensor))
            elif io_dtype == "uint8" and self._integers.get(tensor) == tensor:
                self._set_output(
                    position, tensor, self._convert(tensor, self._unsigned(tensor), "QUANTIZE", 1)
                )
        subgraph.operators = self._operators

    def _take_integers(self, tensor: int, io_dtype: str) -> None:
        """Let an input of the file be integer; uint8 is turned into int8 at once."""
        if io_dtype != "uint8":
            self._make_integer(tensor, self._scales[tensor])
            return
        scale = self._scales[tensor]
        _describe(self._subgraph.tensors[tensor], self._unsigned(tensor))
        self._integers[tensor] = self._convert(tensor, scale, "QUANTIZE", 1)

    def _unsigned(self, tensor: int) -> Scale:
        scale = self._scales[tensor]
        return dataclasses.replace(scale, zero_point=scale.zero_point + 128, is_signed=False)

    def _set_output(self, position: int, old: int, new: int) -> None:
        self._subgraph.outputs[position] = new
        for signature in self._graph.signatureDefs or []:
            for entry in signature.outputs:
                if entry.tensorIndex == old:
                    entry.tensorIndex = new

    def _write_integer(self, index: int, operator: Any) -> None:
        name = graphs.operator_name(self._graph, operator)
        kernel = kernels.KERNELS[name]
        if name in kernels.WEIGHTS:
            self._write_weighted(operator, name)
        else:
            inputs = [int(t) for t in operator.inputs]
            for position, tensor in self._reads[index]:
                inputs[position] = self._as_integer(tensor, self._asked.get((index, position)))
                if name in kernels.COMPARISONS:
                    inputs[position] = self._comparable(inputs[position])
            operator.inputs = inputs
        for tensor in graphs.indices(operator.outputs):
            if tensor in self._scales:
                self._make_integer(tensor, self._scales[tensor])
        if self._bits == 16 and hasattr(operator.builtinOptions, "potScaleInt16"):
            operator.builtinOptions.potScaleInt16 = False
        if kernel.rule == kernels.CAST:
            self._write_cast(operator)
        else:
            self._set_version(operator, kernel)
        self._operators.append(operator)

    def _write_cast(self, operator: Any) -> None:
        source, target = (self._subgraph.tensors[t] for t in (operator.inputs[0], operator.outputs[0]))
        if not scaling.is_byte(source):
            if operator.builtinOptions is not None:
                operator.builtinOptions.outDataType = target.type
            return
        source.quantization = schema.QuantizationParametersT()
        source.quantization.scale, source.quantization.zeroPoint = [1.0], [0]
        operator.opcodeIndex = graphs.operator_code(self._graph, schema.BuiltinOperator.QUANTIZE, 1)
        operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.NONE, None

    def _write_weighted(self, operator: Any, name: str) -> None:
        data, weights, bias, axis = kernels.WEIGHTS[name]
        inputs = [int(t) for t in operator.inputs]
        data_scale = self._scales[inputs[data]]
        scale = scaling.of_weights(self._value(inputs[weights]), axis)
        if len(inputs) > bias and inputs[bias] >= 0:
            if self._bits == 8:  # tiny weights beside a large bias take coarser steps, so that it fits
                added = np.abs(self._value(inputs[bias]).astype(np.float64))
                least = np.maximum(scale.scale, added / (data_scale.scale * _BIAS_STEPS))
                scale = dataclasses.replace(scale, scale=least)
            inputs[bias] = self._stored(inputs[bias], scaling.of_bias(data_scale, scale))
        inputs[weights] = self._stored(inputs[weights], scale)
        inputs[data] = self._as_integer(inputs[data], None)
        operator.inputs = inputs

    def _value(self, tensor: int) -> np.ndarray:
        return graphs.constant_value(self._graph, self._subgraph.tensors[tensor])

    def _as_integer(self, tensor: int, asked: Scale | None) -> int:
        """Return the tensor's integer form, with the scale that is asked for or its own."""
        if graphs.is_constant(self._graph, self._subgraph.tensors[tensor]):
            return self._constant(tensor, asked)
        own = self._scales[tensor]
        if tensor not in self._integers:
            self._integers[tensor] = self._convert(tensor, own, "QUANTIZE", 1 if self._bits == 8 else 2)
        if asked is None or asked == own or _equal(asked, own):
            return self._integers[tensor]
        key = (tensor, float(asked.scale[0]), asked.zero_point)
        if key not in self._converted:
            self._converted[key] = self._convert(self._integers[tensor], asked, "QUANTIZE", 2)
        return self._converted[key]

    def _comparable(self, source: int) -> int:
        """Return the same integers with a larger or smaller scale, where the comparisons need one."""
        tensor = self._subgraph.tensors[source]
        step, zero_point = np.float32(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])
        if 1 / kernels.COMPARED_STEPS <= step < 1:
            return source
        factor = float(2.0 ** -(np.floor(np.log2(step)) + 1))
        scale = Scale(np.array([step * factor]), zero_point, self._bits)
        if graphs.is_constant(self._graph, tensor):
            return self._like(source, scale, tensor.buffer)
        most = 2 ** (self._bits - 1) - 1
        stored = self._store(np.array(factor), Scale(np.array([factor / most]), 0, self._bits))
        target, version = self._like(source, scale), kernels.KERNELS["MUL"].version(self._bits) or 1
        operator = editing.new_operator(self._graph, "MUL", [source, stored], [target], version)
        self._operators.append(operator)
        return target

    def _as_float(self, tensor: int) -> int:
        if tensor not in self._floats and self._integers.get(tensor) != tensor:
            return tensor
        if tensor not in self._floats:
            self._floats[tensor] = self._convert(tensor, None, "DEQUANTIZE", 2 if self._bits == 8 else 3)
        return self._floats[tensor]

    def _make_integer(self, tensor: int, scale: Scale) -> None:
        _describe(self._subgraph.tensors[tensor], scale)
        self._integers[tensor] = tensor

    def _convert(self, source: int, scale: Scale | None, name: str, version: int) -> int:
        """Append a conversion of a tensor and return its result."""
        target = self._like(source, scale)
        self._operators.append(editing.new_operator(self._graph, name, [source], [target], version))
        return target

    def _like(self, source: int, scale: Scale | None, buffer: int = 0) -> int:
        """Add a tensor of the same shape with a scale, or a float one."""
        shape = self._subgraph.tensors[source].shape
        target = editing.add_tensor(self._subgraph, shape, schema.TensorType.FLOAT32, buffer)
        if scale is not None:
            _describe(self._subgraph.tensors[target], scale)
        return target

    def _constant(self, tensor: int, asked: Scale | None) -> int:
        """Return the integer form of a constant that is no weight."""
        if asked is None:
            values = self._value(tensor)
            bounds = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
            asked = scaling.from_range(bounds, self._bits)
        return self._stored(tensor, asked)

    def _stored(self, tensor: int, scale: Scale) -> int:
        """Return the tensor that holds a constant's integers, one for each scale."""
        key = (tensor, scale.bits, scale.scale.tobytes(), scale.zero_point)
        if key not in self._constants:
            values = self._value(tensor)
            integers = scale.quantize(values)
            buffer = schema.BufferT()
            stored = integers.astype(integers.dtype.newbyteorder("<"))
            buffer.data = np.frombuffer(stored.tobytes(), np.uint8)
            self._graph.buffers.append(buffer)
            added = schema.TensorT()
            added.shape, added.name, added.buffer = list(values.shape), b"", len(self._graph.buffers) - 1
            _describe(added, scale)
            self._subgraph.tensors.append(added)
            self._constants[key] = len(self._subgraph.tensors) - 1
        return self._constants[key]

    def _set_version(self, operator: Any, kernel: kernels.Kernel) -> None:
        code = self._graph.operatorCodes[operator.opcodeIndex]
        version = max(code.version, kernel.version(self._bits) or 1)
        builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
        operator.opcodeIndex = graphs.operator_code(self._graph, builtin, version)


def _equal(left: Scale, right: Scale) -> bool:
    return left.zero_point == right.zero_point and bool(np.all(left.scale == right.scale))


def _describe(tensor: Any, scale: Scale) -> None:
    """Give a tensor the type and the scales."""
    tensor.type = _TYPES[scale.bits] if scale.is_signed else schema.TensorType.UINT8
    quantization = schema.QuantizationParametersT()
    quantization.scale = [float(step) for step in scale.scale]
    quantization.zeroPoint = [scale.zero_point] * len(scale.scale)
    quantization.quantizedDimension = scale.axis if len(scale.scale) > 1 else 0
    tensor.quantization = quantization
