"""Which operators tflite-micro has, and how a resolver registers them.

Found by asking the runtime of PyPI's `tflite-micro` 0.dev20261023182759 for each operator of the schema, and
by running each integer kernel of `integer/kernels.py` on it. `tests/devices/test_micro.py` asks again.
"""

from __future__ import annotations

from collections.abc import Iterable

OPERATORS = frozenset(
    """ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND
    BROADCAST_ARGS BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTHWISE_CONV_2D
    DEPTH_TO_SPACE DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR
    FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF
    L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC
    LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 PRELU QUANTIZE
    READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR
    RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF TANH
    TRANSPOSE TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE""".split()
)
"""Builtin operators with a kernel."""

FLOAT_ONLY = frozenset({"EXP", "LOG"})
"""Operators that LiteRT has in int8 and int16, and tflite-micro in float alone."""

NOT_INT16 = frozenset(
    """EQUAL GATHER GATHER_ND MIRROR_PAD NOT_EQUAL REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR
    SPACE_TO_BATCH_ND""".split()
)
"""Operators that LiteRT has in int16, and tflite-micro in int8 and float alone."""

_METHODS = {
    "BATCH_MATMUL": "AddBatchMatMul",
    "CUMSUM": "AddCumSum",
    "PADV2": "AddPadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM",
}
"""Methods that are not called like their operator."""


def lacking(names: Iterable[str]) -> list[str]:
    """Return the operators that tflite-micro has no kernel for, each once, in order."""
    return [name for name in dict.fromkeys(names) if name not in OPERATORS]


def method(name: str) -> str:
    """Return the method of `MicroMutableOpResolver` that registers an operator, such as "AddConv2D"."""
    words = (word.upper() if word == "2D" else word.capitalize() for word in name.split("_"))
    return _METHODS.get(name) or f"Add{''.join(words)}"
