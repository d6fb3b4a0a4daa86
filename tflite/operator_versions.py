"""Which version of an operator its types call for; files may declare a lower one.

The quantizer leaves the versions of the float file in place. The facts are those of LiteRT's own rules,
`op_version.cc` (google-ai-edge/LiteRT, tflite/converter/tools/versioning, Apache-2.0), for the types that
quantization brings in; most stand in `integer/kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer.kernels import KERNELS

_WITHOUT_KERNEL = {
    "DEQUANTIZE": (2, 3),
    "LOG_SOFTMAX": (2, 1),
    "REDUCE_PROD": (2, 2),
    "SQRT": (2, 2),
    "TOPK_V2": (2, 3),
}
"""What `KERNELS` doesn't list, but other tools write: operator -> version with int8 data, and with int16."""
_DATA = {"SPLIT": 1, "TRANSPOSE_CONV": 2}
"""Operator -> position of its data among its inputs, where it is not the first."""
_HYBRID = {"FULLY_CONNECTED": (3, 12), "CONV_2D": (2, 5), "DEPTHWISE_CONV_2D": (4, 6)}
"""Operator on floats with int8 weights -> version with one scale, and with a scale per channel."""


def by_types(name: str, inputs: Sequence[Any], options: Any) -> int:
    """Return the version that the types of an operator's inputs call for; 1 where nothing is special."""
    if not inputs:
        return 1
    data = graphs.tensor_type(inputs[min(_DATA.get(name, 0), len(inputs) - 1)])
    second = inputs[1] if len(inputs) > 1 else None
    if data == "float32" and second is not None and graphs.tensor_type(second) == "int8":
        asymmetric = bool(getattr(options, "asymmetricQuantizeInputs", False))
        if name == "BATCH_MATMUL":
            return 4 if asymmetric else 1
        if name in _HYBRID:
            plain, per_channel = _HYBRID[name]
            if _num_scales(second) > 1:
                return per_channel
            return 9 if name == "FULLY_CONNECTED" and asymmetric else plain
    if name == "DEQUANTIZE" and data == "int8" and _num_scales(inputs[0]) > 1:
        return 5
    if data not in ("int8", "int16"):
        return 1
    if name in KERNELS:
        return KERNELS[name].version(8 if data == "int8" else 16) or 1
    return _WITHOUT_KERNEL.get(name, (1, 1))[data == "int16"]


def _num_scales(tensor: Any) -> int:
    quantization = tensor.quantization
    return 0 if quantization is None or quantization.scale is None else len(quantization.scale)
