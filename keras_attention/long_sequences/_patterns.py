"""The patterns of sparse attention, as pure functions of heads: who meets whom, at the cost of those pairs.

Tensors are of rank 4 or below: blocks, or residues, are folded into the batch, and a mask that differs by
block is applied to logits whose heads and queries are one axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences._blocks import Heads
from keras_attention.long_sequences._blocks import Part


def window_part(
    heads: Heads, size: int, window: int | None = None, first_key: int = 0, has_log_sum: bool = True
) -> Part:
    """Queries in blocks: each sees its block or, with a window, the positions less than that far away.

    Args:
        heads: What attends.
        size: Queries in a block, `window - 1` or more.
        window: Positions seen to either side, itself included; `None` means those of the block.
        first_key: Keys before this position are hidden.
        has_log_sum: Whether the part is to be merged, or a query may be without keys.
    """
    batch, length, num_heads, _ = ops.shape(heads.query)
    count = _blocks.count_blocks(length, size)
    reach = 0 if window is None or (isinstance(count, int) and count == 1) else window - 1
    after = 0 if heads.is_causal else reach
    span = size + reach + after

    def fold(x: Any, before: int = 0, after: int = 0) -> Any:
        blocks = _blocks.with_neighbours(_blocks.to_blocks(x, count, size), before, after)
        sizes = (_functional.product([batch, count]), blocks.shape[2], *x.shape[2:])
        return ops.transpose(_functional.reshape(blocks, sizes), (0, 2, 1, 3))

    def unfold(x: Any) -> Any:
        sizes = (batch, count * size, num_heads, x.shape[-1])
        return _blocks.cut(_functional.reshape(ops.transpose(x, (0, 2, 1, 3)), sizes), length)

    key, value = (fold(x, reach, after) for x in (heads.key, heads.value))
    # (batch * count, num_heads, size, span)
    logits = _blocks.scaled_logits(fold(heads.query), key, heads.scale)
    distance = np.arange(-reach, size + after) - np.arange(size)[:, None]
    near = np.ones_like(distance, bool) if window is None else abs(distance) < window
    logits = _blocks.hide(logits, (near & (distance <= 0) if heads.is_causal else near)[None, None])
    is_real = _blocks.expand(_blocks.real_keys(heads, count, size, reach, after, first_key), 2)
    logits = _blocks.hide_as(logits, (batch, count, num_heads * size, span), is_real)
    context, log_sum = _blocks.attend(logits, value, heads.dropout, has_log_sum)
    return Part(unfold(context), unfold(log_sum) if has_log_sum else None)


def first_keys_part(heads: Heads, num_keys: int) -> Part:
    """Every query and the first keys; also those later than the query."""
    query, key, value = (
        ops.transpose(x, (0, 2, 1, 3))
        for x in (heads.query, heads.key[:, :num_keys], heads.value[:, :num_keys])
    )
    logits = _blocks.scaled_logits(query, key, heads.scale)  # (batch, num_heads, length, num_keys)
    if heads.key_mask is not None:
        sizes = (ops.shape(logits)[0], 1, 1, ops.shape(logits)[3])
        logits = _blocks.hide(logits, _functional.reshape(heads.key_mask[:, :num_keys], sizes))
    context, log_sum = _blocks.attend(logits, value, heads.dropout, has_log_sum=True)
    return Part(ops.transpose(context, (0, 2, 1, 3)), ops.transpose(log_sum, (0, 2, 1, 3)))


def last_keys_part(heads: Heads, size: int, num_keys: int) -> Part:
    """Every query and the last keys of all other blocks; only of earlier ones when causal."""
    batch, length, num_heads, _ = ops.shape(heads.query)
    count = _blocks.count_blocks(length, size)
    num_columns = count * num_keys

    def fold(x: Any, last: int) -> Any:
        blocks = _blocks.to_blocks(x, count, size)[:, :, size - last :]
        x = _functional.reshape(blocks, (batch, count * last, *x.shape[2:]))
        return ops.transpose(x, (0, 2, 1, 3))

    query, key, value = fold(heads.query, size), fold(heads.key, num_keys), fold(heads.value, num_keys)
    logits = _blocks.scaled_logits(query, key, heads.scale)  # (batch, num_heads, total, num_columns)
    is_real = _blocks.real_keys(heads, count, size)[:, :, size - num_keys :]
    if isinstance(is_real, np.ndarray):
        is_real = is_real.reshape((1, 1, 1, num_columns))
    else:
        is_real = _functional.reshape(is_real, (ops.shape(is_real)[0], 1, 1, num_columns))
    logits = _blocks.hide(logits, is_real)
    is_other = _other_groups(count, heads.is_causal, num_keys)
    folded = _functional.product([batch, num_heads])
    logits = _blocks.hide_as(logits, (folded, count, size, num_columns), _blocks.expand(is_other, 1)[None])
    context, log_sum = _blocks.attend(logits, value, heads.dropout, has_log_sum=True)
    context, log_sum = (_blocks.cut(ops.transpose(x, (0, 2, 1, 3)), length) for x in (context, log_sum))
    return Part(context, log_sum)


def stride_part(heads: Heads, size: int) -> Part:
    """Each query and the keys a multiple of `size` positions away but for itself; earlier ones if causal."""
    batch, length, num_heads, _ = ops.shape(heads.query)
    count = _blocks.count_blocks(length, size)
    folded = _functional.product([batch, size])

    def fold(x: Any) -> Any:
        blocks = ops.transpose(_blocks.to_blocks(x, count, size), (0, 2, 1, 3))
        return ops.transpose(_functional.reshape(blocks, (folded, count, *x.shape[2:])), (0, 2, 1, 3))

    def unfold(x: Any) -> Any:
        width = x.shape[-1]
        x = _functional.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, size, count, num_heads * width))
        x = _functional.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, count * size, num_heads, width))
        return _blocks.cut(x, length)

    # (batch * size, num_heads, count, count)
    logits = _blocks.scaled_logits(fold(heads.query), fold(heads.key), heads.scale)
    logits = _blocks.hide(logits, _other_groups(count, heads.is_causal)[None, None])
    is_real = _blocks.real_keys(heads, count, size)
    swap = np.transpose if isinstance(is_real, np.ndarray) else ops.transpose
    is_real = _blocks.expand(swap(is_real, (0, 2, 1)), 2)  # (batch or 1, size, 1, count)
    rows = _functional.product([count, num_heads])
    logits = _blocks.hide_as(logits, (batch, size, rows, count), is_real)
    context, log_sum = _blocks.attend(logits, fold(heads.value), heads.dropout, has_log_sum=True)
    return Part(unfold(context), unfold(log_sum))


def _other_groups(count: Any, is_causal: bool, num_keys: int = 1) -> Any:
    """Mask `(count, count * num_keys)`: a block and the keys of other blocks, or of earlier ones."""
    arange = np.arange if isinstance(count, int) else ops.arange
    block = arange(count)[:, None]
    key_block = (arange(count * num_keys) // num_keys)[None]
    return key_block < block if is_causal else key_block != block


def attend_pairs(heads: Heads, mask: Any) -> tuple[Any, Any]:
    """Softmax attention of all pairs that a mask allows, context `(batch, length, num_heads, value_dim)`."""
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (heads.query, heads.key, heads.value))
    logits = _functional.dot_product_logits(query, key, ops.cast(heads.scale, query.dtype))
    context, scores = _functional.attend(logits, value, mask, heads.dropout)
    return ops.transpose(context, (0, 2, 1, 3)), scores
