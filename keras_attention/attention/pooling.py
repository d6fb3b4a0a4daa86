"""The maths of pooling: sums over the sequence first, projections of the few vectors that are left after."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention import _masks


def last_position(sequence: Any, mask: Any = None) -> Any:
    """The last position that is not masked, `(batch, 1, channels)`; zeros where all are masked."""
    batch, length = ops.shape(sequence)[:2]
    if mask is None:
        return sequence[:, -1:]
    mask = _masks.as_bool(mask)
    count: Any
    if isinstance(length, int):
        count = np.arange(1, length + 1, dtype="int32").reshape(1, length)
    else:
        count = ops.reshape(ops.arange(1, length + 1, dtype="int32"), (1, -1))
    counted = ops.where(mask, count, 0)
    is_last = ops.logical_and(mask, ops.equal(counted, ops.max(counted, axis=1, keepdims=True)))
    rows = _functional.reshape(ops.cast(is_last, sequence.dtype), (batch, 1, length))
    return ops.matmul(rows, sequence)


def own_columns(num_heads: int, width: int) -> np.ndarray:
    """Ones where column c belongs to head h, columns `h * width ... (h + 1) * width - 1`; zeros elsewhere."""
    return np.repeat(np.eye(num_heads, dtype="float32"), width, axis=1)  # (num_heads, num_heads * width)


def spread_heads(x: Any, num_heads: int) -> Any:
    """A row for each head, `(..., num_heads, num_heads * width)`, with zeros in the columns of the others.

    Args:
        x: Tensor of shape `(..., 1 or num_heads, num_heads * width)`.
        num_heads: Number of heads.
    """
    if num_heads == 1:
        return x
    return ops.multiply(x, ops.cast(own_columns(num_heads, x.shape[-1] // num_heads), x.dtype))


def gather_heads(x: Any, num_heads: int) -> Any:
    """Own columns of each row, `(batch, num_heads, num_heads * width)` to `(batch, num_heads * width)`."""
    if num_heads == 1:
        return _functional.reshape(x, (ops.shape(x)[0], x.shape[-1]))
    return ops.sum(spread_heads(x, num_heads), axis=1)


def flatten_heads(kernel: Any) -> Any:
    """A kernel `(channels, num_heads, width)` as a matrix; one that is a matrix already stays."""
    return ops.reshape(kernel, (kernel.shape[0], -1))


def product_logits(query: Any, sequence: Any) -> Any:
    """Products of each query with each position, `(batch, num_heads, length)`.

    Args:
        query: Tensor of shape `(batch, num_heads, channels)`, or `(num_heads, channels)`: the same for all.
        sequence: Tensor of shape `(batch, length, channels)`.
    """
    if len(query.shape) == 2:
        return heads_first(ops.matmul(sequence, ops.transpose(query)))
    return ops.matmul(query, _functional.swap_last_axes(sequence))


def additive_logits(hidden: Any, score_kernel: Any) -> Any:
    """`v_h^T hidden_h` for each head, `(batch, num_heads, length)`.

    Args:
        hidden: Tensor of shape `(batch, length, num_heads * width)`.
        score_kernel: `v_h` as rows, `(num_heads, width)`.
    """
    num_heads, width = score_kernel.shape
    rows = spread_heads(ops.reshape(score_kernel, (1, num_heads * width)), num_heads)
    return heads_first(ops.matmul(hidden, ops.transpose(rows)))


def heads_first(logits: Any) -> Any:
    """`(batch, length, num_heads)` to `(batch, num_heads, length)`."""
    batch, length, num_heads = ops.shape(logits)
    if num_heads == 1:
        return _functional.reshape(logits, (batch, 1, length))
    return ops.transpose(logits, (0, 2, 1))
