"""Inputs of bytes, such as images of 0 to 255, that the graph takes as numbers.

XNNPACK has no CAST of uint8, but DEQUANTIZE; with a step of 1 and zero at 0 both compute the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

_BYTES = ("uint8", "int8")


def dequantize(graph: Any) -> None:
    """Turn each CAST of an input of bytes to float32 into DEQUANTIZE, where nothing else reads the input."""
    subgraph = graph.subgraphs[0]
    for index in graphs.indices(subgraph.inputs):
        tensor = subgraph.tensors[index]
        readers = _readers(subgraph, index)
        if graphs.tensor_type(tensor) not in _BYTES or _scales(tensor) or not readers:
            continue
        if index in graphs.indices(subgraph.outputs) or not all(_is_cast(graph, op) for op in readers):
            continue
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array([1.0], np.float32)
        tensor.quantization.zeroPoint = np.array([0], np.int64)
        _replace(graph, readers, "DEQUANTIZE", 2)


def cast(graph: Any) -> None:
    """Turn each DEQUANTIZE of an input of bytes that stand for themselves back into CAST."""
    subgraph = graph.subgraphs[0]
    for index in graphs.indices(subgraph.inputs):
        tensor = subgraph.tensors[index]
        readers = _readers(subgraph, index)
        if not are_plain(tensor):
            continue
        if all(graphs.operator_name(graph, op) == "DEQUANTIZE" for op in readers):
            tensor.quantization = None
            options = {
                "inDataType": tensor.type,
                "outDataType": schema.TensorType.FLOAT32,
            }
            _replace(graph, readers, "CAST", 1, **options)


def are_plain(tensor: Any) -> bool:
    """Tell whether a tensor holds bytes that stand for themselves: with a step of 1 and zero at 0."""
    return graphs.tensor_type(tensor) in _BYTES and _scales(tensor) == [(1.0, 0)]


def _readers(subgraph: Any, index: int) -> list[Any]:
    return [operator for operator in subgraph.operators if index in graphs.indices(operator.inputs)]


def _scales(tensor: Any) -> list[tuple[float, int]]:
    stored = tensor.quantization
    if stored is None or stored.scale is None or not len(stored.scale):
        return []
    return [(float(scale), int(zero)) for scale, zero in zip(stored.scale, stored.zeroPoint, strict=True)]


def _is_cast(graph: Any, operator: Any) -> bool:
    target = graph.subgraphs[0].tensors[operator.outputs[0]]
    return graphs.operator_name(graph, operator) == "CAST" and graphs.tensor_type(target) == "float32"


def _replace(graph: Any, operators: list[Any], name: str, version: int, **options: Any) -> None:
    subgraph = graph.subgraphs[0]
    wanted = {id(operator) for operator in operators}
    subgraph.operators = [
        editing.new_operator(graph, name, list(op.inputs), list(op.outputs), version, **options)
        if id(op) in wanted
        else op
        for op in subgraph.operators
    ]
