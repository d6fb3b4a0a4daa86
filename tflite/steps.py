"""Real numbers as the steps of a quantized tensor: one formula for all, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np


def quantize(values: Any, scale: float, zero_point: int, dtype: Any) -> np.ndarray:
    """Return round(value / scale) + zero_point, halves to even, limited to the integer type.

    In double precision: a float32 quotient beside the middle of two steps may become the middle, and then the
    other step.

    Args:
        values: real numbers, none of them NaN.
        scale: of the tensor.
        zero_point: of the tensor.
        dtype: of the tensor, such as "int8".
    """
    limits = np.iinfo(dtype)
    steps = np.round(np.asarray(values, np.float64) / float(scale)) + zero_point
    return np.clip(steps, limits.min, limits.max).astype(dtype)
