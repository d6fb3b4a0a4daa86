"""The maths of gates: means and maxima over places or channels, and what is multiplied with the inputs.

Inputs are `(batch, *spatial, channels)` with one or two spatial axes; masks `(batch, *spatial)`, True where a
place counts. What nothing counts in has mean and maximum 0, and a gate of 0. All that is smaller than the
inputs is computed in at least float32: sums of 16-bit values overflow, and there is little to save.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks


def hidden_units(channels: int, ratio: int, divisor: int) -> int:
    """Width of a bottleneck: `channels / ratio` to the nearest multiple of `divisor`, at least one of it."""
    return max(divisor, int(channels / ratio + divisor / 2) // divisor * divisor)


def adaptive_kernel_size(channels: int, gamma: float, beta: float) -> int:
    """The odd number at or above `|log2(channels) + beta| / gamma`, which is rounded down first."""
    size = int(abs(math.log2(channels) + beta) / gamma)
    return size if size % 2 else size + 1


def spatial_axes(x: Any) -> tuple[int, ...]:
    """The axes between batch and channels."""
    return tuple(range(1, len(x.shape) - 1))


def wide(x: Any) -> Any:
    """16-bit values as float32; others stay."""
    is_narrow = keras.backend.standardize_dtype(x.dtype) in ("float16", "bfloat16")
    return ops.cast(x, "float32") if is_narrow else ops.convert_to_tensor(x)


def mean(x: Any, axes: Sequence[int], mask: Any = None, keepdims: bool = False) -> Any:
    """The mean over spatial axes of the places that count, `(batch, ..., channels)`.

    With a mask each value is divided before the sum, which therefore stays as small as the values are.
    """
    x = wide(x)
    if mask is None:
        return ops.mean(x, axes, keepdims=keepdims)
    mask = ops.expand_dims(_masks.as_bool(mask), -1)
    count = ops.sum(ops.cast(mask, x.dtype), axes, keepdims=True)
    shares = ops.divide(ops.where(mask, x, 0.0), ops.maximum(count, 1.0))
    return ops.sum(shares, axes, keepdims=keepdims)


def maximum(x: Any, axes: Sequence[int], mask: Any = None, keepdims: bool = False) -> Any:
    """The maximum over spatial axes of the places that count, `(batch, ..., channels)`."""
    if mask is None:
        return wide(ops.max(x, axes, keepdims=keepdims))
    mask = ops.expand_dims(_masks.as_bool(mask), -1)
    x = ops.where(mask, wide(x), 0.0)
    # what does not count takes the least value and not a huge one, beside which integers have no steps left
    x = ops.where(mask, x, ops.min(x, axes, keepdims=True))
    return ops.where(ops.any(mask, axes, keepdims=keepdims), ops.max(x, axes, keepdims=keepdims), 0.0)


def blank(gate: Any, mask: Any, axes: Sequence[int] = ()) -> Any:
    """The gate with zeros where nothing counts along the spatial axes, or in the place itself."""
    if mask is None:
        return gate
    counts = _masks.as_bool(mask)
    return ops.where(ops.expand_dims(ops.any(counts, axes) if axes else counts, -1), gate, 0.0)


def dense(x: Any, kernel: Any, bias: Any = None) -> Any:
    """`x @ kernel + bias`."""
    x = ops.matmul(x, wide(kernel))
    return x if bias is None else ops.add(x, wide(bias))


def convolve(x: Any, kernel: Any, bias: Any = None) -> Any:
    """Convolution with zeros beyond the border, so that the sizes stay."""
    kernel = wide(kernel)
    if keras.config.backend() == "torch":
        kernel = _with_outputs_first_in_memory(kernel)
    x = ops.conv(x, kernel, padding="same", data_format="channels_last")
    return x if bias is None else ops.add(x, wide(bias))


def _with_outputs_first_in_memory(kernel: Any) -> Any:
    """The same kernel in the order that torch wants: its convolution in float64 has no gradient else."""
    last = len(kernel.shape) - 1
    turned = ops.transpose(kernel, (last, last - 1, *range(last - 1)))
    turned = ops.reshape(ops.reshape(turned, (-1,)), turned.shape)  # a copy
    return ops.transpose(turned, (*range(2, last + 1), 1, 0))


def convolve_channels(x: Any, kernel: Any, bias: Any = None) -> Any:
    """Convolution over the channels themselves, zeros beyond the first and the last.

    Args:
        x: Tensor of shape `(batch, channels)`.
        kernel: Tensor of shape `(kernel_size,)`.
        bias: Tensor of shape `(1,)` or `None`.
    """
    batch, channels = ops.shape(x)
    row = _functional.reshape(x, (batch, 1, channels, 1))
    row = convolve(row, ops.reshape(kernel, (1, -1, 1, 1)), bias)
    return _functional.reshape(row, (batch, channels))


def pool_by_attention(x: Any, kernel: Any, mask: Any = None) -> tuple[Any, Any]:
    """A mean of all places, `(batch, channels)`, and the weights that it takes, `(batch, *spatial)`.

    Args:
        x: The inputs.
        kernel: What gives the logits, a column of shape `(channels, 1)`.
        mask: Mask or `None`.
    """
    batch, *spatial, channels = ops.shape(x)
    length = _functional.product(spatial)
    places = wide(_functional.reshape(x, (batch, length, channels)))
    logits = _functional.reshape(dense(places, kernel), (batch, 1, length))
    if mask is not None:
        mask = _functional.reshape(_masks.as_bool(mask), (batch, 1, length))
        places = ops.where(_functional.reshape(mask, (batch, length, 1)), places, 0.0)  # padding may be NaN
    context, scores = _functional.attend(logits, places, mask)
    return _functional.reshape(context, (batch, channels)), _functional.reshape(scores, (batch, *spatial))


def over_places(vector: Any, num_axes: int) -> Any:
    """`(batch, channels)` as `(batch, 1, ..., channels)`, which meets every place."""
    batch, channels = ops.shape(vector)
    return _functional.reshape(vector, (batch, *(1,) * num_axes, channels))


def multiply(x: Any, gate: Any) -> Any:
    """The inputs times a gate of the same rank, in the dtype of the inputs."""
    return ops.multiply(x, ops.cast(gate, x.dtype))
