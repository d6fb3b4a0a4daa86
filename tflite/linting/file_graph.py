"""Walking a .tflite file's graph, and how a finding names its operators.

Nothing of what is imported by the rules for files imports Keras, so that the child process starts fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import byte_inputs
from keras_attention.tflite import graph as graphs

_SHOWN = 3


@dataclass(frozen=True)
class Operator:
    """An operator with its tensors.

    Attributes:
        subgraph: number of its subgraph; 0 is the main one.
        index: position in the subgraph.
        name: schema name, such as "ADD".
        inputs: its tensors, without absent ones.
        outputs: the same for what it gives.
        is_custom: whether it is no builtin operator.
        version: the version of the operator.
    """

    subgraph: int
    index: int
    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    is_custom: bool
    version: int


def operators(graph: Any) -> Iterator[Operator]:
    """Yield all operators of all subgraphs, in order."""
    for number, subgraph in enumerate(graph.subgraphs):
        for index, operator in enumerate(subgraph.operators if subgraph.operators is not None else []):
            code = graph.operatorCodes[operator.opcodeIndex]
            yield Operator(
                number,
                index,
                graphs.operator_name(graph, operator),
                tuple(subgraph.tensors[i] for i in graphs.indices(operator.inputs)),
                tuple(subgraph.tensors[i] for i in graphs.indices(operator.outputs)),
                max(code.builtinCode, code.deprecatedBuiltinCode) == schema.BuiltinOperator.CUSTOM,
                int(code.version),
            )


def places(found: Iterable[Operator]) -> Iterator[tuple[str, list[Operator]]]:
    """Group operators by name and yield ("ADD (operators 3, 7, 9 and 12 more)", the operators)."""
    groups: dict[str, list[Operator]] = {}
    for operator in found:
        groups.setdefault(operator.name, []).append(operator)
    for name, group in groups.items():
        yield f"{name} ({numbered([_position(operator) for operator in group])})", group


def numbered(positions: list[str]) -> str:
    """Return "operator 3" or "operators 3, 7, 9 and 12 more"."""
    shown = ", ".join(positions[:_SHOWN])
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return f"operator{'s' if len(positions) > 1 else ''} {shown}{more}"


def shape(tensor: Any) -> list[int]:
    """Return the tensor's shape, with -1 for an open size."""
    sizes = tensor.shapeSignature
    if sizes is None or len(sizes) == 0:
        sizes = tensor.shape
    return [int(size) for size in (sizes if sizes is not None else [])]


def float_constant(graph: Any, tensor: Any) -> np.ndarray | None:
    """Return a constant's values where they are floats, or int8 and int16 with one scale; else None."""
    if not graphs.is_constant(graph, tensor):
        return None
    kind = graphs.tensor_type(tensor)
    data = bytes(graph.buffers[tensor.buffer].data)
    if kind == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if kind in ("float32", "float16"):
        return np.frombuffer(data, kind).astype(np.float32)
    if kind in ("int8", "uint8", "int16") and has_scales(tensor) and len(tensor.quantization.scale) == 1:
        zero_point = int(tensor.quantization.zeroPoint[0])
        values = np.frombuffer(data, kind).astype(np.float32)
        return (values - np.float32(zero_point)) * np.float32(tensor.quantization.scale[0])
    return None


def quantized_range(tensor: Any) -> tuple[float, float] | None:
    """Return the real values that a tensor with one scale can hold, or None for other tensors."""
    limits = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}.get(
        graphs.tensor_type(tensor)
    )
    if limits is None or not has_scales(tensor) or len(tensor.quantization.scale) != 1:
        return None
    scale, zero_point = float(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])
    return (limits[0] - zero_point) * scale, (limits[1] - zero_point) * scale


def has_scales(tensor: Any) -> bool:
    """Tell whether the tensor stores quantized values."""
    quantization = tensor.quantization
    return quantization is not None and quantization.scale is not None and len(quantization.scale) > 0


def is_quantized(graph: Any) -> bool:
    """Tell whether an operator works on activations with fixed scales; bytes as inputs are none."""
    return any(
        has_scales(tensor) and not graphs.is_constant(graph, tensor) and not byte_inputs.are_plain(tensor)
        for subgraph in graph.subgraphs
        for tensor in subgraph.tensors
    )


def _position(operator: Operator) -> str:
    return f"{operator.index} of subgraph {operator.subgraph}" if operator.subgraph else str(operator.index)
