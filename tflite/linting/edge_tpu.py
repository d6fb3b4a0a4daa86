"""Rules for the Edge TPU: what its compiler leaves to the CPU. See docs/microcontrollers.md for the source.

The compiler maps operators from the inputs on, up to the first that it can't; the rest runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.file_graph import Operator
from keras_attention.tflite.linting.finding import Finding

OPERATORS = frozenset(
    """ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D EXPAND_DIMS FULLY_CONNECTED
    L2_NORMALIZATION LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL PACK PAD PRELU QUANTIZE REDUCE_MAX
    REDUCE_MIN RELU RELU6 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SLICE SOFTMAX
    SPACE_TO_DEPTH SPLIT SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM TANH TRANSPOSE TRANSPOSE_CONV
    UNIDIRECTIONAL_SEQUENCE_LSTM""".split()
)
"""Operators of the table for compiler 16 and runtime 14."""

_SIDES = ("QUANTIZE", "DEQUANTIZE")
_MOST_SOFTMAX = 16_000
_INNERMOST = 3
_CURE_INT8 = "convert with precision='int8_full', which makes every tensor an integer"


def check(graph: Any) -> Iterator[Finding]:
    """Yield all findings for the Edge TPU."""
    yield from _grouped(graph, "KA301", _wrong_type)
    yield from _grouped(graph, "KA302", _unknown)
    yield from _grouped(graph, "KA303", _broken_limit)
    yield from _grouped(graph, "KA304", _shape)
    yield from _mapped(graph)


_Fault = tuple[str, str]
"""What is wrong with an operator, and the cure."""


def _wrong_type(graph: Any, operator: Operator) -> _Fault | None:
    kinds = sorted(_kinds(graph, operator) - {"int8", "uint8"})
    if not kinds:
        return None
    if _is_side(graph, operator):
        return f"{' and '.join(kinds)} on its outer side: the CPU does this step", "fine; or set `io_dtype`"
    return f"reads or writes {', '.join(kinds)}: the Edge TPU computes in 8 bits alone", _CURE_INT8


def _unknown(graph: Any, operator: Operator) -> _Fault | None:
    if operator.name in OPERATORS or _is_side(graph, operator):
        return None
    return (
        "the Edge TPU has no such operator: it and what comes behind run on the CPU",
        "replace the layer, or let it be the last one",
    )


def _broken_limit(graph: Any, operator: Operator) -> _Fault | None:
    limit = _LIMITS.get(operator.name)
    broken = None if limit is None else limit(graph, operator, _options(graph, operator))
    return None if broken is None else (broken, "change the layer so that it keeps the limit")


def _shape(graph: Any, operator: Operator) -> _Fault | None:
    shapes = [file_graph.shape(t) for t in _data(graph, operator)]
    if any(-1 in shape for shape in shapes):
        return "works on an open size: sizes must be constant", "convert with fixed sizes, also for the batch"
    outer = [shape for shape in shapes if any(size > 1 for size in shape[:-_INNERMOST])]
    if not outer:
        return None
    return (
        f"works on the shape {outer[0]}, where only the innermost three axes may be larger than 1",
        "keep the batch at 1 and fold axes by a reshape",
    )


def _mapped(graph: Any) -> Iterator[Finding]:
    """How many operators come before the first that stays on the CPU."""
    main = [operator for operator in file_graph.operators(graph) if operator.subgraph == 0]
    inner = [operator for operator in main if not _is_side(graph, operator)]
    rules = (_wrong_type, _unknown, _broken_limit, _shape)
    stops = next((op for op in inner if any(rule(graph, op) is not None for rule in rules)), None)
    if not inner:
        return
    if stops is None:
        message = f"all {len(inner)} operators keep the table's limits"
        yield Finding(
            "KA305", "note", "file", message, "compile the file with edgetpu_compiler, which decides"
        )
        return
    yield Finding(
        "KA305",
        "note",
        f"{stops.name} (operator {stops.index})",
        f"the compiler stops here: {inner.index(stops)} of {len(inner)} operators run on the Edge TPU at "
        "most, the others on the CPU",
        "resolve what is found for this operator first",
    )


def _grouped(graph: Any, code: str, rule: Callable[[Any, Operator], _Fault | None]) -> Iterator[Finding]:
    """Yield one finding for each kind of operator and each fault."""
    groups: dict[_Fault, list[Operator]] = {}
    for operator in file_graph.operators(graph):
        fault = rule(graph, operator)
        if fault is not None:
            groups.setdefault(fault, []).append(operator)
    for (message, cure), found in groups.items():
        for where, group in file_graph.places(found):
            severity = _severity(code, all(_is_side(graph, operator) for operator in group))
            yield Finding(code, severity, where, message, cure)


def _severity(code: str, is_side: bool) -> Any:
    if is_side:
        return "note"
    return "error" if code == "KA301" else "warning"


def _is_side(graph: Any, operator: Operator) -> bool:
    """Tell whether this makes integers of the graph's float inputs, or floats of what is its output."""
    kinds = _kinds(graph, operator)
    return operator.name in _SIDES and "float32" in kinds and bool(kinds & {"int8", "uint8"})


def _data(graph: Any, operator: Operator) -> list[Any]:
    """Return the tensors that are computed: outputs, and inputs that the file doesn't store."""
    return [t for t in operator.inputs if not graphs.is_constant(graph, t)] + list(operator.outputs)


def _kinds(graph: Any, operator: Operator) -> set[str]:
    return {graphs.tensor_type(tensor) for tensor in _data(graph, operator)}


def _options(graph: Any, operator: Operator) -> Any:
    return graph.subgraphs[operator.subgraph].operators[operator.index].builtinOptions


def _numbers(graph: Any, operator: Operator, position: int) -> list[int] | None:
    """Return the integers that an input stores, or None where they are computed."""
    if position >= len(operator.inputs):
        return None
    tensor = operator.inputs[position]
    if not graphs.is_constant(graph, tensor) or graphs.tensor_type(tensor) not in ("int32", "int64"):
        return None
    kind = graphs.tensor_type(tensor)
    return [int(value) for value in np.frombuffer(bytes(graph.buffers[tensor.buffer].data), kind)]


def _activation(graph: Any, operator: Operator, options: Any) -> str | None:
    del graph, operator
    fused = getattr(options, "fusedActivationFunction", schema.ActivationFunctionType.NONE)
    return None if fused == schema.ActivationFunctionType.NONE else "has a fused activation, which it may not"


def _concatenation(graph: Any, operator: Operator, options: Any) -> str | None:
    stored = [tensor for tensor in operator.inputs if graphs.is_constant(graph, tensor)]
    if stored and (len(operator.inputs) != 2 or any(not _is_zero(graph, tensor) for tensor in stored)):
        return "joins a stored tensor, which must be zeros and one of two inputs"
    return _activation(graph, operator, options)


def _is_zero(graph: Any, tensor: Any) -> bool:
    values = file_graph.float_constant(graph, tensor)
    return values is not None and not values.any()


def _dilation(graph: Any, operator: Operator, options: Any) -> str | None:
    del graph, operator
    factors = (getattr(options, "dilationHFactor", 1), getattr(options, "dilationWFactor", 1))
    return None if factors[0] == factors[1] else f"is dilated by {factors}, which must be equal"


def _one_row(graph: Any, operator: Operator, options: Any) -> str | None:
    del graph
    if getattr(options, "weightsFormat", 0):
        return "stores its weights in a form other than the default"
    shape = file_graph.shape(operator.outputs[0]) if operator.outputs else []
    return None if _is_flat(shape) else f"gives {shape}, which must have one axis larger than 1"


def _softmax(graph: Any, operator: Operator, options: Any) -> str | None:
    del graph, options
    shape = file_graph.shape(operator.outputs[0]) if operator.outputs else []
    if not _is_flat(shape):
        return f"is over rows, {shape}, where one row is allowed"
    return None if max(shape, default=0) <= _MOST_SOFTMAX else f"is over more than {_MOST_SOFTMAX:,} values"


def _is_flat(shape: list[int]) -> bool:
    return sum(size != 1 for size in shape) <= 1


def _reduction(graph: Any, operator: Operator, options: Any) -> str | None:
    del options
    shape = file_graph.shape(operator.inputs[0]) if operator.inputs else []
    axes = _numbers(graph, operator, 1)
    if axes is None or not shape:
        return None
    axes = [axis + len(shape) if axis < 0 else axis for axis in axes]
    if 0 in axes and len(shape) > 1:
        return "reduces the batch axis"
    if operator.name == "MEAN" and len(shape) - 1 in axes and shape[-1] % 4:
        return f"averages {shape[-1]} channels, which must be a multiple of 4"
    return None


def _batch_axis(graph: Any, operator: Operator, options: Any) -> str | None:
    if operator.name == "PACK":
        axes: list[int] = [getattr(options, "axis", 1)]
    elif operator.name == "SPLIT":
        axes = _numbers(graph, operator, 0) or [1]
    else:
        padding = _numbers(graph, operator, 1) or [0, 0]
        axes = [0] if any(padding[:2]) else [1]
    return "works along the batch axis" if 0 in axes else None


def _prelu(graph: Any, operator: Operator, options: Any) -> str | None:
    del graph, options
    shape = file_graph.shape(operator.inputs[1]) if len(operator.inputs) > 1 else []
    return (
        None if all(size == 1 for size in shape[:-1]) else f"has slopes {shape}, one per channel is allowed"
    )


def _strides(graph: Any, operator: Operator, options: Any) -> str | None:
    if any(stride != 1 for stride in _numbers(graph, operator, 3) or [1]):
        return "takes steps larger than 1"
    masks = [getattr(options, name, 0) for name in ("ellipsisMask", "newAxisMask")]
    return "uses an ellipsis or a new axis" if any(masks) else None


_LIMITS: dict[str, Callable[[Any, Operator, Any], str | None]] = {
    "AVERAGE_POOL_2D": _activation,
    "CONCATENATION": _concatenation,
    "CONV_2D": _dilation,
    "DEPTHWISE_CONV_2D": _dilation,
    "FULLY_CONNECTED": _one_row,
    "MAX_POOL_2D": _activation,
    "MEAN": _reduction,
    "PACK": _batch_axis,
    "PAD": _batch_axis,
    "PRELU": _prelu,
    "REDUCE_MAX": _reduction,
    "REDUCE_MIN": _reduction,
    "SOFTMAX": _softmax,
    "SPLIT": _batch_axis,
    "STRIDED_SLICE": _strides,
    "SUM": _reduction,
}
"""Operator -> what breaks its limits, in words."""
