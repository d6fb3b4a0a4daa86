"""Arrays and tensors of every library, as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_numpy(value: Any) -> np.ndarray:
    """Return an array or tensor (NumPy, TensorFlow, JAX, torch) or nested numbers as a NumPy array."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # torch refuses what has gradients or is on a GPU
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such type
            value = value.float()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def is_array(value: Any) -> bool:
    """Whether the value is an array or tensor; nested lists of numbers are none."""
    return hasattr(value, "shape") and hasattr(value, "__array__")


def is_nested_numbers(value: Any) -> bool:
    """Whether a list or tuple holds numbers, or lists of them, and no arrays; `([1.0, 2.0], 3)` is a pair."""
    while isinstance(value, list | tuple) and len(value):
        if len({isinstance(item, list | tuple) for item in value}) > 1:
            return False
        value = value[0]
    return isinstance(value, bool | int | float | np.generic) or (is_array(value) and value.ndim == 0)


def even_choice(count: int, most: int) -> np.ndarray:
    """Return at most `most` of the positions 0 to count - 1, evenly spread, always the same ones."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)
