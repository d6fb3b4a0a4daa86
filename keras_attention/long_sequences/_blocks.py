"""Sequences in blocks, and attention in parts: what all patterns of sparse attention are made of.

A query may meet its keys in two parts, such as a window and some columns. Each part is a softmax of its own;
the logarithm of its sum of exponentials says how much it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import _functional

# Low enough to lose against every real logit, and so that the sum of two is finite.
HIDDEN_LOGIT = _functional.MASKED_LOGIT / 4


class Heads(NamedTuple):
    """What attends, and how.

    Attributes:
        query: Tensor of shape `(batch, length, num_heads, key_dim)`.
        key: Tensor of the same shape.
        value: Tensor of shape `(batch, length, num_heads, value_dim)`.
        query_mask: Boolean tensor of shape `(batch, length)` or `None`.
        key_mask: Boolean tensor of shape `(batch, length)` or `None`.
        is_causal: Whether position i attends to 0 ... i only.
        scale: Factor of the dot product.
        dropout: Function of the scores.
    """

    query: Any
    key: Any
    value: Any
    query_mask: Any
    key_mask: Any
    is_causal: bool
    scale: float
    dropout: Callable[[Any], Any]


class Part(NamedTuple):
    """What the queries get from some of their keys.

    Attributes:
        context: Mean of the values, `(batch, length, num_heads, value_dim)`.
        log_sum: Logarithm of the sum of exponentials of the logits, `(batch, length, num_heads, 1)`.
    """

    context: Any
    log_sum: Any


def repeat_heads(x: Any, num_heads: int) -> Any:
    """`(batch, length, num_shared_heads, head_dim)` with each head as often as it is shared, side by side."""
    batch, length, num_shared, head_dim = ops.shape(x)
    if num_shared == num_heads:
        return x
    copies = ops.concatenate([x] * (num_heads // num_shared), axis=-1)
    return _functional.reshape(copies, (batch, length, num_heads, head_dim))


def count_blocks(length: Any, size: int) -> Any:
    """Number of blocks that hold `length` positions; a tensor where the length is one."""
    return (length + size - 1) // size


def to_blocks(x: Any, count: Any, size: int) -> Any:
    """`(batch, length, ...)`, with zeros behind the end, as `(batch, count, size, channels)`."""
    batch, length = ops.shape(x)[:2]
    channels = math.prod(x.shape[2:])
    x = _functional.reshape(x, (batch, length, channels))
    if not isinstance(length, int) or not isinstance(count, int):
        x = ops.concatenate([x, ops.zeros((batch, count * size - length, channels), dtype=x.dtype)], axis=1)
    elif count * size > length:
        x = ops.pad(x, ((0, 0), (0, count * size - length), (0, 0)))
    return _functional.reshape(x, (batch, count, size, channels))


def cut(x: Any, length: Any) -> Any:
    """The first `length` positions of axis 1."""
    return x if isinstance(length, int) and length == x.shape[1] else x[:, :length]


def expand(mask: Any, axis: int) -> Any:
    """A new axis of size 1; a NumPy constant stays one."""
    return np.expand_dims(mask, axis) if isinstance(mask, np.ndarray) else ops.expand_dims(mask, axis)


def with_neighbours(blocks: Any, before: int, after: int) -> Any:
    """Blocks `(batch, count, size, channels)` with the end of the last and the start of the next block."""
    size = blocks.shape[2]
    parts = [blocks]
    if before:
        parts.insert(0, ops.pad(blocks[:, :-1, size - before :], ((0, 0), (1, 0), (0, 0), (0, 0))))
    if after:
        parts.append(ops.pad(blocks[:, 1:, :after], ((0, 0), (0, 1), (0, 0), (0, 0))))
    return ops.concatenate(parts, axis=2) if len(parts) > 1 else blocks


def real_keys(
    heads: Heads, count: Any, size: int, before: int = 0, after: int = 0, first_key: int = 0
) -> Any:
    """Which keys that a block meets are there to attend to, `(batch or 1, count, before + size + after)`.

    A NumPy constant where there is no mask and the length is known.
    """
    length = ops.shape(heads.key)[1]
    if isinstance(length, int) and isinstance(count, int):
        index = size * np.arange(count)[:, None] + np.arange(-before, size + after)
    else:
        index = ops.reshape(size * ops.arange(count), (-1, 1)) + ops.arange(-before, size + after)
    is_real = (index >= first_key) & (index < length)
    if heads.key_mask is None:
        return is_real[None]
    batch = ops.shape(heads.key_mask)[0]
    mask = _functional.reshape(ops.cast(heads.key_mask, "int32"), (batch, length, 1))
    mask = ops.cast(with_neighbours(to_blocks(mask, count, size), before, after), "bool")
    mask = _functional.reshape(mask, (batch, count, before + size + after))
    return mask if first_key == 0 else ops.logical_and(mask, is_real[None])


def hide(logits: Any, mask: Any) -> Any:
    """Makes the logits where `mask` is False too low to count; a NumPy mask is a constant."""
    if isinstance(mask, np.ndarray) and mask.all():
        return logits
    return ops.where(mask, logits, HIDDEN_LOGIT)


def hide_as(logits: Any, shape: tuple[Any, ...], mask: Any) -> Any:
    """Hides logits by a mask that broadcasts to them only when they are of another shape."""
    if isinstance(mask, np.ndarray) and mask.all():
        return logits
    sizes = ops.shape(logits)
    return _functional.reshape(hide(_functional.reshape(logits, shape), mask), sizes)


def scaled_logits(query: Any, key: Any, scale: float) -> Any:
    """Logits of at least float32 precision; those of float16 are clipped, for its products overflow."""
    logits = _functional.dot_product_logits(query, key, _functional.factor(scale, query))
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if dtype in ("float16", "bfloat16"):
        logits = ops.cast(logits, "float32")
    if dtype == "float16":
        logits = ops.clip(logits, -_functional.FLOAT16_MAX, _functional.FLOAT16_MAX)
    return logits


def attend(logits: Any, value: Any, dropout: Callable[[Any], Any], has_log_sum: bool) -> tuple[Any, Any]:
    """Context `(..., queries, value_dim)` and, if wanted, the log-sum `(..., queries, 1)`.

    Where all keys are hidden the context is of no meaning, and the log-sum too low to count.
    """
    scores = ops.cast(_functional.softmax(logits), value.dtype)
    context = ops.matmul(dropout(scores), value)
    if not has_log_sum:
        return context, None
    largest = ops.stop_gradient(ops.max(logits, axis=-1, keepdims=True))
    total = ops.sum(ops.exp(ops.subtract(logits, largest)), axis=-1, keepdims=True)
    return context, _functional.add(ops.log(total), largest)


def merge(first: Part, second: Part) -> Part:
    """What the queries get from the keys of both parts, which share none."""
    # shares of exactly 0 and 1, so that a part without keys leaves no trace, not even by rounding
    # far beyond where a sigmoid is 0 or 1; that of XNNPACK is no number for hidden parts' 1e37
    lead = ops.clip(ops.subtract(first.log_sum, second.log_sum), -1000.0, 1000.0)
    shares = [ops.cast(ops.sigmoid(x), first.context.dtype) for x in (lead, ops.negative(lead))]
    context = _functional.add(ops.multiply(shares[0], first.context), ops.multiply(shares[1], second.context))
    return Part(context, ops.maximum(first.log_sum, second.log_sum))


def finish(part: Part, key_mask: Any) -> Any:
    """The context; where a mask may hide all keys of a query, zeros for such a query."""
    if key_mask is None:
        return part.context
    return ops.where(ops.greater(part.log_sum, HIDDEN_LOGIT / 2), part.context, 0.0)


def index_pairs(length: Any) -> tuple[Any, Any]:
    """Positions of queries, `(1, 1, length, 1)`, and of keys, `(1, 1, 1, length)`; NumPy where it can be."""
    if isinstance(length, int):
        index = np.arange(length)
        return index.reshape((1, 1, length, 1)), index.reshape((1, 1, 1, length))
    index = ops.arange(length, dtype="int32")
    return ops.reshape(index, (1, 1, -1, 1)), ops.reshape(index, (1, 1, 1, -1))
