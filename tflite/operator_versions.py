"""Which version of an operator its types call for; files may declare a lower one.

The quantizer leaves the versions of the float file in place. The facts are those of LiteRT's own rules,
`op_version.cc` (google-ai-edge/LiteRT, tflite/converter/tools/versioning, Apache-2.0), for the types that
quantization brings in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attention.tflite import graph as graphs

_INT8 = {
    **dict.fromkeys(
        "ABS ADD ARG_MAX ARG_MIN AVERAGE_POOL_2D BATCH_MATMUL CONCATENATION DEPTH_TO_SPACE EQUAL EXP "
        "GATHER GELU GREATER GREATER_EQUAL L2_NORMALIZATION LESS LESS_EQUAL LOG LOGISTIC LOG_SOFTMAX "
        "MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NOT_EQUAL PACK PAD PADV2 REDUCE_MAX REDUCE_MIN "
        "REDUCE_PROD RELU RELU6 RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SLICE SOFTMAX "
        "SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TOPK_V2 "
        "TRANSPOSE UNPACK".split(),
        2,
    ),
    **dict.fromkeys("BROADCAST_TO CAST CONV_2D DEPTHWISE_CONV_2D REVERSE_V2 TILE".split(), 3),
    "FULLY_CONNECTED": 4,
}
_INT16 = {
    **dict.fromkeys("EXP LEAKY_RELU LOG SQRT".split(), 2),
    **dict.fromkeys(
        "ABS ADD AVERAGE_POOL_2D BATCH_MATMUL BROADCAST_TO CONCATENATION DEQUANTIZE LOGISTIC "
        "MAX_POOL_2D MEAN MIRROR_PAD PACK PAD PADV2 REDUCE_MAX REDUCE_MIN RELU RELU6 RSQRT "
        "SOFTMAX TANH".split(),
        3,
    ),
    **dict.fromkeys(
        "GATHER MAXIMUM MINIMUM MUL RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SLICE SPLIT UNPACK".split(), 4
    ),
    **dict.fromkeys("SUB TRANSPOSE".split(), 5),
}
"""Operator -> version, by the type of its data."""
_HYBRID = {"FULLY_CONNECTED": (3, 12), "CONV_2D": (2, 5), "DEPTHWISE_CONV_2D": (4, 6)}
"""Operator on floats with int8 weights -> version with one scale, and with a scale per channel."""


def by_types(name: str, inputs: Sequence[Any], options: Any) -> int:
    """Return the version that the types of an operator's inputs call for; 1 where nothing is special."""
    if not inputs:
        return 1
    data = graphs.tensor_type(inputs[1 if name == "SPLIT" and len(inputs) > 1 else 0])
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
    if name == "DEQUANTIZE" and data == "int8":
        return 5 if _num_scales(inputs[0]) > 1 else 2
    return {"int8": _INT8, "int16": _INT16}.get(data, {}).get(name, 1)


def _num_scales(tensor: Any) -> int:
    quantization = tensor.quantization
    return 0 if quantization is None or quantization.scale is None else len(quantization.scale)
