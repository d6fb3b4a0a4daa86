"""Cutting images into windows and joining them again: reshapes and transposes of rank 4, constant masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention import _validation


def size_pair(name: str, value: Any) -> tuple[int, int]:
    """An argument that is an integer or `(height, width)`, as a pair of positive integers."""
    sizes = _validation.int_tuple(name, value, positive=True)
    if sizes is None or len(sizes) > 2:
        raise ValueError(f"`{name}` must be an integer or (height, width). Received: {name}={value}")
    return sizes[0], sizes[-1]


def check_images(shape: Sequence[Any]) -> None:
    """Raises unless the shape is that of images with a known number of channels."""
    if len(shape) != 4 or shape[-1] is None:
        raise ValueError(
            "`inputs` must have rank 4, (batch, height, width, channels), with known channels; tokens become "
            f"a grid by `keras.layers.Reshape`. Received: inputs.shape={tuple(shape)}"
        )


def divide(size: Any, part: int) -> Any:
    """Number of parts that cover a size, an integer, a scalar tensor or `None`."""
    return None if size is None else (size + part - 1) // part


def pad(x: Any, sizes: Sequence[Any]) -> Any:
    """Zeros below and to the right of `(batch, height, width, ...)`, up to these sizes."""
    widths = [padded - size for padded, size in zip(sizes, ops.shape(x)[1:3], strict=True)]
    if not any(_may_move(width) for width in widths):
        return x
    return ops.pad(x, ((0, 0), *((0, width) for width in widths), *((0, 0),) * (len(x.shape) - 3)))


def roll(x: Any, shift: Any, axis: int) -> Any:
    """Moves the first `shift` places of an axis behind the others: two slices, since mobile has no roll."""
    if not isinstance(shift, int):
        return ops.roll(x, -shift, axis=axis)
    if shift == 0:
        return x
    before = (slice(None),) * axis
    return ops.concatenate([x[(*before, slice(shift, None))], x[(*before, slice(None, shift))]], axis=axis)


def cut(x: Any, window: tuple[int, int]) -> Any:
    """`(batch, height, width, channels)` to `(batch * windows, window_height * window_width, channels)`."""
    batch, height, width, channels = ops.shape(x)
    rows, columns = height // window[0], width // window[1]
    x = _functional.reshape(x, (batch * rows, window[0], columns, window[1] * channels))
    x = ops.transpose(x, (0, 2, 1, 3))
    return _functional.reshape(x, (batch * rows * columns, window[0] * window[1], channels))


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of images of one size, all of one size themselves.

    Sizes unknown while tracing are scalar tensors; the window is then never made smaller, but a small image
    padded up to it.

    Args:
        sizes: `(height, width)` of the images.
        window: `(height, width)` of a window.
        shift: `(rows, columns)` by which the images are rolled before they are cut.
    """

    sizes: tuple[Any, Any]
    window: tuple[int, int]
    shift: tuple[Any, Any]

    @classmethod
    def of(cls, sizes: Sequence[Any], window_size: tuple[int, int], shift_size: tuple[int, int]) -> Windows:
        """The windows of Swin: no larger than the image, and not shifted where one covers all of it."""
        window, shift = list(window_size), list(shift_size)
        for axis, size in enumerate(sizes):
            if isinstance(size, int):
                window[axis] = min(window_size[axis], size)
                shift[axis] = 0 if size <= window_size[axis] else shift_size[axis]
            elif shift_size[axis]:
                shift[axis] = ops.where(size <= window_size[axis], 0, shift_size[axis])
        return cls((sizes[0], sizes[1]), (window[0], window[1]), (shift[0], shift[1]))

    @property
    def counts(self) -> tuple[Any, Any]:
        """Number of windows below and beside each other."""
        return divide(self.sizes[0], self.window[0]), divide(self.sizes[1], self.window[1])

    @property
    def padded_sizes(self) -> tuple[Any, Any]:
        """Height and width that are multiples of the window."""
        return self.counts[0] * self.window[0], self.counts[1] * self.window[1]

    @property
    def is_padded(self) -> bool:
        """Whether the windows may reach over the edge of the image."""
        return any(_may_move(size % part) for size, part in zip(self.sizes, self.window, strict=True))

    def split(self, x: Any) -> Any:
        """`(batch, height, width, channels)` to `(batch * windows, cells, channels)`."""
        x = pad(x, self.padded_sizes)
        for axis, shift in enumerate(self.shift):
            x = roll(x, shift, axis + 1)
        return cut(x, self.window)

    def join(self, x: Any, batch: Any) -> Any:
        """What `split` returned, with any number of channels, back to images."""
        (rows, columns), channels = self.counts, x.shape[-1]
        x = _functional.reshape(x, (batch * rows, columns, self.window[0], self.window[1] * channels))
        x = ops.transpose(x, (0, 2, 1, 3))
        padded = self.padded_sizes
        x = _functional.reshape(x, (batch, *padded, channels))
        for axis, shift in enumerate(self.shift):
            if _may_move(shift):
                x = roll(x, padded[axis] - shift, axis + 1)
        return x[:, : self.sizes[0], : self.sizes[1]] if self.is_padded else x

    @property
    def regions(self) -> Any:
        """The region of each cell, `(windows, cells)`, -1 for padding; `None` where all cells are neighbours.

        Rolling brings together what is far apart, and padding is no part of the image. A NumPy array where
        the sizes are static.
        """
        if not self.is_padded and not any(_may_move(shift) for shift in self.shift):
            return None
        xp: Any = np if all(isinstance(size, int) for size in self.sizes) else ops
        lines = []
        for size, padded, shift in zip(self.sizes, self.padded_sizes, self.shift, strict=True):
            index = xp.arange(padded)
            went_around = xp.where(index >= padded - shift, 1, 0)
            lines.append(xp.where((index + shift) % padded < size, went_around, -4))
        (rows, columns), (height, width) = self.counts, self.window
        below, beside = (
            xp.reshape(lines[0], (rows, 1, height, 1)),
            xp.reshape(lines[1], (1, columns, 1, width)),
        )
        return xp.maximum(xp.reshape(2 * below + beside, (rows * columns, height * width)), -1)


def pairs_within(regions: Any) -> Any:
    """Which pairs of cells are of one region, `(windows, cells, cells)`.

    Cells of the padding attend to each other, which no one sees: so every cell attends to something.
    """
    return regions[:, :, None] == regions[:, None, :]


def over_windows(function: Any, x: Any, pairs: Any) -> Any:
    """`function(x, pairs)` of `x`, `(batch * windows, heads, cells, cells)`, and the pairs of each window.

    In a shape in which the pairs broadcast to the batch and to the heads, so that nothing is repeated.
    """
    sizes, windows = ops.shape(x), ops.shape(pairs)[0]
    num_pairs = sizes[2] * sizes[3]
    x = _functional.reshape(x, (sizes[0] // windows, windows, sizes[1], num_pairs))
    shape = (1, windows, 1, num_pairs)
    pairs = pairs.reshape(shape) if isinstance(pairs, np.ndarray) else _functional.reshape(pairs, shape)
    return _functional.reshape(function(x, pairs), sizes)


def _may_move(number: Any) -> bool:
    """Whether a number is above 0, or unknown while tracing."""
    return not isinstance(number, int) or number > 0


def shift_pair(value: Any, window_size: tuple[int, int]) -> tuple[int, int]:
    """`shift_size` as a pair of integers, from 0 to less than the window."""
    shifts = _validation.int_tuple("shift_size", value)
    if shifts is None or len(shifts) > 2:
        raise ValueError(f"`shift_size` must be an integer or (rows, columns). Received: shift_size={value}")
    pair = (shifts[0], shifts[-1])
    if not all(0 <= shift < size for shift, size in zip(pair, window_size, strict=True)):
        raise ValueError(
            "`shift_size` must be at least 0 and less than `window_size`; half of it is usual. "
            f"Received: shift_size={value}, window_size={window_size}"
        )
    return pair


def scores_sizes(sizes: Sequence[Any], window_size: tuple[int, int], num_heads: int) -> tuple[Any, Any]:
    """Heads of all windows, and cells of one, where they are known."""
    if any(size is None for size in sizes):
        return None, None
    windows = Windows.of(sizes, window_size, (0, 0))
    return num_heads * _functional.product(windows.counts), _functional.product(windows.window)
