"""Positions and the tables made of them, as pure functions: NumPy constants where the lengths are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional


def is_static(*sizes: Any) -> bool:
    """Whether all sizes are integers, so that what is made of them is a constant."""
    return all(isinstance(size, int) for size in sizes)


def index(length: Any, start: Any = 0, dtype: str = "int32") -> Any:
    """The positions `start ... start + length - 1`; a NumPy array when both are static."""
    if is_static(length, start):
        return np.arange(start, start + length).astype(dtype)
    steps = np.arange(length).astype(dtype) if is_static(length) else ops.arange(length, dtype=dtype)
    return ops.add(steps, ops.cast(start, dtype))


def angles(length: Any, frequencies: Any, start_index: Any, positions: Any) -> Any:
    """`position * frequency` in float32, of shape `(batch or 1, length, len(frequencies))`.

    Constant and computed angles are rounded alike, so that a step decoded at a traced `start_index` sees the
    numbers that the whole sequence saw.

    Args:
        length: Length of the sequence.
        frequencies: NumPy array of rank 1.
        start_index: First position; unused with `positions`.
        positions: Tensor `(length,)` or `(batch, length)`, or `None`.
    """
    frequencies = np.float32(frequencies)
    if positions is None:
        positions = index(length, start_index, "float32")
    else:
        positions = ops.cast(positions, "float32")
    if isinstance(positions, np.ndarray):
        return positions.reshape((1, -1, 1)) * frequencies
    batch = 1 if len(positions.shape) == 1 else ops.shape(positions)[0]
    return ops.multiply(_functional.reshape(positions, (batch, length, 1)), frequencies)


def cosine(x: Any) -> Any:
    """Cosine of a NumPy array or of a tensor."""
    return np.cos(x) if isinstance(x, np.ndarray) else ops.cos(x)


def sine(x: Any) -> Any:
    """Sine of a NumPy array or of a tensor."""
    return np.sin(x) if isinstance(x, np.ndarray) else ops.sin(x)


def concatenate(parts: list[Any]) -> Any:
    """Concatenates NumPy arrays or tensors on their last axis."""
    return np.concatenate(parts, -1) if isinstance(parts[0], np.ndarray) else ops.concatenate(parts, axis=-1)


def rotary_tables(angle: Any) -> tuple[Any, Any]:
    """Cosine and signed sine `(batch or 1, length, features)` of the angles of one half of the features."""
    cos, sin = cosine(angle), sine(angle)
    return concatenate([cos, cos]), concatenate([-sin, sin])


def rotate(x: Any, cos: Any, signed_sin: Any, axis: int) -> Any:
    """Rotates each pair of a feature of the first half and its partner in the second.

    The sign is part of the table, so swapping the halves is one SPLIT and one CONCATENATION.
    """
    first, second = ops.split(x, 2, axis=axis)
    swapped = ops.concatenate([second, first], axis=axis)
    return ops.add(ops.multiply(x, cos), ops.multiply(swapped, signed_sin))


def sinusoidal_table(length: Any, features: int, wavelength: float, start_index: Any, positions: Any) -> Any:
    """Sines at even and cosines at odd features, `(batch or 1, length, features)`."""
    feature = np.arange(features)
    frequencies = float(wavelength) ** -((feature - feature % 2) / features)
    angle = angles(length, frequencies, start_index, positions)
    is_odd = np.float32(feature % 2)
    if isinstance(angle, np.ndarray):
        return np.where(is_odd, np.cos(angle), np.sin(angle))
    # cos(x) = sin(x + pi / 2) would round: both, each times the mask of its features
    return ops.add(ops.multiply(ops.sin(angle), 1 - is_odd), ops.multiply(ops.cos(angle), is_odd))


def alibi_slopes(num_heads: int, max_bias: float) -> np.ndarray:
    """Slope of each head; between powers of two, every other slope of the next power joins them."""
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = 2.0 ** (-max_bias / power * np.arange(1, power + 1))
    if power < num_heads:
        between = 2.0 ** (-max_bias / (2 * power) * np.arange(1, 2 * power, 2))
        slopes = np.concatenate([slopes, between[: num_heads - power]])
    return np.asarray(slopes, np.float32)


def relative_buckets(num_buckets: int, max_distance: int, bidirectional: bool) -> np.ndarray:
    """Bucket of the distances `-max_distance ... max_distance`, key position minus query position.

    Small distances have buckets of their own, larger ones share buckets of exponentially growing width; all
    beyond `max_distance` share the last. In float32, as T5 does: some edges lie on an integer.
    """
    distance = np.arange(-max_distance, max_distance + 1)
    offset = np.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        offset = np.where(distance > 0, num_buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = num_buckets // 2
    ratio = np.log(np.maximum(distance, 1).astype("float32") / np.float32(exact))
    ratio = ratio / np.float32(math.log(max_distance / exact)) * np.float32(num_buckets - exact)
    shared = np.minimum(exact + ratio.astype("int32"), num_buckets - 1)
    return offset + np.where(distance < exact, distance, shared)


def window_index(height: int, width: int, window_size: tuple[int, int] | None = None) -> np.ndarray:
    """Row of the table for each pair of cells of a 2-D window, `(height * width, height * width)`.

    The table is that of `window_size`, `(height, width)` or more.
    """
    table_height, table_width = window_size or (height, width)
    row, column = np.divmod(np.arange(height * width), width)
    rows = row[:, None] - row[None] + table_height - 1
    columns = column[:, None] - column[None] + table_width - 1
    return np.asarray(rows * (2 * table_width - 1) + columns)
