"""Attention of each block of queries to the blocks of keys that suit it best, as pure functions of heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences import _kernels
from keras_attention.long_sequences._blocks import Heads
from keras_attention.long_sequences._blocks import Part


def routed_context(heads: Heads, size: int, num_blocks: int) -> Any:
    """Context of queries that meet the keys of the blocks chosen for theirs, head by head."""
    batch, length, num_heads, _ = ops.shape(heads.query)
    chosen, is_open = choose_blocks(heads, size, num_blocks)
    count, num_chosen = ops.shape(chosen)[2:]
    folded, span = _functional.product([batch, num_heads]), num_chosen * size

    def fold(x: Any) -> Any:
        x = _functional.reshape(_blocks.to_blocks(x, count, size), (batch, count * size, *x.shape[2:]))
        return ops.transpose(x, (0, 2, 1, 3))

    def gather(x: Any, chosen: Any) -> Any:
        """Blocks of `(rows, count, features)`, chosen for each row by `(rows, n)`: `(rows * n, features)`."""
        rows, features = ops.shape(x)[0], x.shape[2]
        starts = ops.reshape(count * ops.arange(rows, dtype="int32"), (-1, 1))
        x = _functional.reshape(x, (_functional.product([rows, count]), features))
        return ops.take(x, ops.reshape(_functional.add(chosen, starts), (-1,)), axis=0)

    chosen_by_head = _functional.reshape(chosen, (folded, count * num_chosen))

    def fold_chosen(x: Any) -> Any:
        blocks = _functional.reshape(fold(x), (folded, count, size * x.shape[-1]))
        return _functional.reshape(gather(blocks, chosen_by_head), (folded, count, span, x.shape[-1]))

    def unfold(x: Any) -> Any:
        x = _functional.reshape(x, (batch, num_heads, count * size, x.shape[-1]))
        return _blocks.cut(ops.transpose(x, (0, 2, 1, 3)), length)

    query = _functional.reshape(fold(heads.query), (folded, count, size, heads.query.shape[-1]))
    # (batch * num_heads, count, size, span)
    logits = _blocks.scaled_logits(query, fold_chosen(heads.key), heads.scale)
    if heads.is_causal:  # the first of the chosen blocks is the query's own
        index = np.arange(span)
        logits = _blocks.hide(logits, (index <= np.arange(size)[:, None]) | (index >= size))
    is_real = _blocks.real_keys(heads, count, size)
    if heads.is_causal or not (isinstance(is_real, np.ndarray) and is_real.all()):
        rows = 1 if heads.key_mask is None else batch
        num_rest = _functional.product([num_heads * count * num_chosen, 1 if rows is batch else batch])
        seen = gather(ops.convert_to_tensor(is_real), _functional.reshape(chosen, (rows, num_rest)))
        seen = ops.logical_and(seen, ops.reshape(is_open, (-1, 1)))
        logits = _blocks.hide(logits, _functional.reshape(seen, (folded, count, 1, span)))
    context, log_sum = _blocks.attend(
        logits, fold_chosen(heads.value), heads.dropout, has_log_sum=heads.key_mask is not None
    )
    part = Part(unfold(context), None if log_sum is None else unfold(log_sum))
    return _blocks.finish(part, heads.key_mask)


def choose_blocks(heads: Heads, size: int, num_blocks: int) -> tuple[Any, Any]:
    """The blocks of keys whose mean has the highest product with the mean query of a block.

    Its own block comes first. With a causal mask the others are earlier ones, and the mean query is that of
    the block before: queries of the same block would tell the first of them about the future.

    Returns:
        Indices of blocks, `(batch, num_heads, count, num_chosen)`, and whether each may be attended to.
    """
    length, num_heads, head_dim = ops.shape(heads.key)[1:]
    count = _blocks.count_blocks(length, size)
    is_known = isinstance(count, int)
    num_chosen = min(num_blocks, count) if is_known else num_blocks
    count = count if is_known else ops.maximum(count, num_blocks)

    def means(x: Any, mask: Any) -> tuple[Any, Any]:
        is_real = _blocks.real_keys(heads._replace(key_mask=mask), count, size)
        blocks = _kernels.widen(_blocks.to_blocks(x, count, size))
        if mask is not None:
            blocks = ops.where(_blocks.expand(is_real, 3), blocks, 0.0)
        total = ops.sum(ops.cast(is_real, blocks.dtype), axis=2, keepdims=True)
        return ops.divide(ops.sum(blocks, axis=2), ops.maximum(total, 1.0)), is_real

    def by_head(x: Any) -> Any:
        return ops.transpose(
            _functional.reshape(x, (ops.shape(x)[0], count, num_heads, head_dim)), (0, 2, 1, 3)
        )

    query, _ = means(heads.query, heads.query_mask)
    if heads.is_causal:
        query = ops.pad(query[:, :-1], ((0, 0), (1, 0), (0, 0)))
    key, is_real = means(heads.key, heads.key_mask)
    # (batch, num_heads, count, count)
    fit = ops.matmul(by_head(query), _functional.swap_last_axes(by_head(key)))
    query_block, key_block = _blocks.index_pairs(count)
    if heads.is_causal:
        fit = _blocks.hide(fit, key_block < query_block)
    has_key = is_real.any(axis=-1) if isinstance(is_real, np.ndarray) else ops.any(is_real, axis=-1)
    fit = _blocks.hide(fit, _blocks.expand(_blocks.expand(has_key, 1), 1))
    fit, chosen = ops.top_k(ops.where(key_block == query_block, -_blocks.HIDDEN_LOGIT, fit), num_chosen)
    return ops.cast(chosen, "int32"), ops.greater(fit, _blocks.HIDDEN_LOGIT / 2)


def routed_pairs(heads: Heads, size: int, num_blocks: int) -> Any:
    """Mask of the pairs that meet, `(batch, num_heads, length, length)`."""
    chosen, is_open = choose_blocks(heads, size, num_blocks)
    length, count = ops.shape(heads.query)[1], ops.shape(chosen)[2]
    meets: Any = False
    for rank in range(chosen.shape[3]):
        block = ops.reshape(ops.arange(count, dtype="int32"), (1, 1, 1, -1))
        is_chosen = ops.equal(chosen[..., rank : rank + 1], block)
        meets = ops.logical_or(meets, ops.logical_and(is_chosen, is_open[..., rank : rank + 1]))
    for axis in (2, 3):
        meets = ops.repeat(meets, size, axis=axis)
    return meets[:, :, :length, :length]
