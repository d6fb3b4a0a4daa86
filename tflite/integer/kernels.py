"""Which operators LiteRT's CPU runtime has in integers, and what it asks of their scales.

`tests/tflite_export/test_integer_kernels.py` runs each entry against its float operator.
"""

from __future__ import annotations

from dataclasses import dataclass

FREE, VIEW, JOIN, WEIGHTED, COMPARE, CAST = "free", "view", "join", "weighted", "compare", "cast"
"""Rules for an operator's scales.

free: every input and output has a scale of its own, the output's taken from its range.
view: the outputs hold values of the only data input, and share its scale.
join: several inputs and the output share one scale.
weighted: data times stored weights: int8 weights with a scale per channel, 32 or 64 bit bias.
compare: the float inputs share one scale, the output is no quantity.
cast: from plain integers to a quantity: bytes are read with a scale of 1, larger integers are cut to size.
"""


@dataclass(frozen=True)
class Kernel:
    """An operator in integers.

    Attributes:
        rule: how its scales are related.
        int8: operator version with int8 tensors, None where the runtime lacks it. `operator_versions` has
            the source; it is higher where the kernel came later than that says.
        int16: the same for int16.
        fixed8: (scale, zero point) that the int8 output must have.
        fixed16: scale that the int16 output must have, its zero point being 0.
    """

    rule: str
    int8: int | None
    int16: int | None
    fixed8: tuple[float, int] | None = None
    fixed16: float | None = None

    def version(self, bits: int) -> int | None:
        """Return the operator version for tensors of 8 or 16 bits, None where there is no kernel."""
        return self.int8 if bits == 8 else self.int16

    def fixed(self, bits: int) -> tuple[float, int] | None:
        """Return the scale and zero point that the output must have, or None where it is free."""
        if bits == 8:
            return self.fixed8
        return None if self.fixed16 is None else (self.fixed16, 0)


_UNIT = (1 / 256, -128), 1 / 32768
"""Outputs from 0 to 1."""
_SIGNED = (1 / 128, 0), 1 / 32768
"""Outputs from -1 to 1."""

COMPARISONS = frozenset({"EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"})
"""Operators that multiply by their inputs' scale, which must be below 1, and round to 256ths."""
COMPARED_STEPS = 128
"""Their scale must exceed one part in so many, so that neighbours stay apart."""

KERNELS: dict[str, Kernel] = {
    "ABS": Kernel(FREE, 2, 3),
    "ADD": Kernel(FREE, 2, 3),
    "ARG_MAX": Kernel(COMPARE, 2, None),
    "ARG_MIN": Kernel(COMPARE, 2, None),
    "AVERAGE_POOL_2D": Kernel(VIEW, 2, 3),
    "BATCH_MATMUL": Kernel(FREE, 2, 3),
    "BATCH_TO_SPACE_ND": Kernel(VIEW, 2, 4),
    "BROADCAST_TO": Kernel(VIEW, 3, 3),
    "CAST": Kernel(CAST, 3, 1),
    "CONCATENATION": Kernel(JOIN, 2, 3),
    "CONV_2D": Kernel(WEIGHTED, 3, 4),
    "DEPTH_TO_SPACE": Kernel(VIEW, 2, None),
    "DEPTHWISE_CONV_2D": Kernel(WEIGHTED, 3, 5),
    "ELU": Kernel(FREE, 1, None),
    "EQUAL": Kernel(COMPARE, 2, 5),
    "EXP": Kernel(FREE, 2, 2),
    "EXPAND_DIMS": Kernel(VIEW, 1, 1),
    "FULLY_CONNECTED": Kernel(WEIGHTED, 4, 7),
    "GATHER": Kernel(VIEW, 2, 4),
    "GATHER_ND": Kernel(VIEW, 1, 3),
    "GELU": Kernel(FREE, 2, None),
    "GREATER": Kernel(COMPARE, 2, None),
    "GREATER_EQUAL": Kernel(COMPARE, 2, None),
    "HARD_SWISH": Kernel(FREE, 1, None),
    "L2_NORMALIZATION": Kernel(FREE, 2, None, (1 / 128, 0)),
    "LEAKY_RELU": Kernel(FREE, 2, 2),
    "LESS": Kernel(COMPARE, 2, None),
    "LESS_EQUAL": Kernel(COMPARE, 2, None),
    "LOG": Kernel(FREE, 2, 2),
    "LOGISTIC": Kernel(FREE, 2, 3, *_UNIT),
    "MAXIMUM": Kernel(JOIN, 2, 4),
    "MAX_POOL_2D": Kernel(VIEW, 2, 3),
    "MEAN": Kernel(FREE, 2, 3),
    "MINIMUM": Kernel(JOIN, 2, 4),
    "MIRROR_PAD": Kernel(VIEW, 2, 3),
    "MUL": Kernel(FREE, 2, 4),
    "NOT_EQUAL": Kernel(COMPARE, 2, 4),
    "PACK": Kernel(JOIN, 2, 3),
    "PAD": Kernel(VIEW, 2, 3),
    "PADV2": Kernel(JOIN, 2, 3),
    "PRELU": Kernel(FREE, 1, None),
    "REDUCE_MAX": Kernel(VIEW, 2, 3),
    "REDUCE_MIN": Kernel(VIEW, 2, 3),
    "RELU": Kernel(FREE, 2, 3),
    "RELU6": Kernel(FREE, 2, 3),
    "RESHAPE": Kernel(VIEW, 1, 1),
    "RESIZE_BILINEAR": Kernel(VIEW, 2, 4),
    "RESIZE_NEAREST_NEIGHBOR": Kernel(VIEW, 2, 4),
    "REVERSE_V2": Kernel(VIEW, 3, 3),
    "RSQRT": Kernel(FREE, 2, 3),
    "SELECT": Kernel(JOIN, 1, 1),
    "SELECT_V2": Kernel(JOIN, 1, 1),
    "SLICE": Kernel(VIEW, 2, 4),
    "SOFTMAX": Kernel(FREE, 2, 3, *_UNIT),
    "SPACE_TO_BATCH_ND": Kernel(VIEW, 2, 4),
    "SPACE_TO_DEPTH": Kernel(VIEW, 2, None),
    "SPLIT": Kernel(VIEW, 2, 4),
    "SPLIT_V": Kernel(VIEW, 2, 2),
    "SQUARED_DIFFERENCE": Kernel(FREE, 2, None),
    "SQUEEZE": Kernel(VIEW, 1, 1),
    "STRIDED_SLICE": Kernel(VIEW, 2, 4),
    "SUB": Kernel(FREE, 2, 5),
    "SUM": Kernel(FREE, 2, None),
    "TANH": Kernel(FREE, 2, 3, *_SIGNED),
    "TILE": Kernel(VIEW, 3, 3),
    "TRANSPOSE": Kernel(VIEW, 2, 5),
    "TRANSPOSE_CONV": Kernel(WEIGHTED, 2, 3),
    "UNPACK": Kernel(VIEW, 2, 4),
}
"""Operator name -> kernel. What is not listed has none that is right."""

WEIGHTS = {
    "CONV_2D": (0, 1, 2, 0),
    "DEPTHWISE_CONV_2D": (0, 1, 2, 3),
    "FULLY_CONNECTED": (0, 1, 2, 0),
    "TRANSPOSE_CONV": (2, 1, 3, 0),
}
"""Weighted operator -> positions of data, weights and bias among its inputs, and the channel axis."""
