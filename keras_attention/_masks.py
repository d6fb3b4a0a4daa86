"""Masks: boolean, True = attend, all of them AND-ed into one that broadcasts to the attention logits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _functional


def as_bool(mask: Any) -> Any:
    """Casts a mask to boolean; one that is boolean already adds no operator to the graph."""
    mask = mask if hasattr(mask, "dtype") else ops.convert_to_tensor(mask)
    return mask if keras.backend.standardize_dtype(mask.dtype) == "bool" else ops.cast(mask, "bool")


def logical_and(first: Any, second: Any) -> Any:
    """AND of two masks, either of which may be `None`; two NumPy masks stay a NumPy constant."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.logical_and(first, second)
    return ops.logical_and(first, second)


def position_mask(
    query_length: Any,
    key_length: Any,
    ndim: int,
    use_causal_mask: bool,
    sliding_window: int | None = None,
    query_start: Any = 0,
) -> Any:
    """Causal and sliding-window mask of rank `ndim`; a NumPy constant when all that it depends on is static.

    `query_start` is the position of the first query, an integer or a tensor of shape `()` or `(batch,)`.
    """
    if not use_causal_mask and sliding_window is None:
        return None
    leading = (1,) * (ndim - 2)
    query_index: Any
    key_index: Any
    if isinstance(query_length, int) and isinstance(key_length, int):
        query_index = np.arange(query_length, dtype="int32").reshape((*leading, query_length, 1))
        key_index = np.arange(key_length, dtype="int32").reshape((*leading, 1, key_length))
    else:
        query_index = ops.reshape(ops.arange(query_length, dtype="int32"), (*leading, -1, 1))
        key_index = ops.reshape(ops.arange(key_length, dtype="int32"), (*leading, 1, -1))
    if not isinstance(query_start, int):
        start = ops.reshape(query_start, (-1, *leading[1:], 1, 1)) if len(query_start.shape) else query_start
        query_index = ops.add(start, query_index)
    elif query_start:
        query_index = query_index + query_start
    mask = key_index <= query_index if use_causal_mask else None
    if sliding_window is not None:
        distance = query_index - key_index
        mask = logical_and(mask, logical_and(distance < sliding_window, distance > -sliding_window))
    return mask


def merge_masks(
    query_length: Any,
    key_length: Any,
    ndim: int,
    query_mask: Any = None,
    value_mask: Any = None,
    key_mask: Any = None,
    attention_mask: Any = None,
    use_causal_mask: bool = False,
    sliding_window: int | None = None,
    query_start: Any = 0,
) -> Any:
    """Merges all masks into one that broadcasts to logits of rank `ndim`, 3 or 4; `None` when there is none.

    Args:
        query_length: Number of queries, an integer or, unknown while tracing, a scalar tensor.
        key_length: Number of keys, alike.
        ndim: Rank of the logits: `(batch, query_length, key_length)`, with `num_heads` second when it is 4.
        query_mask: `(batch, query_length)`.
        value_mask: `(batch, key_length)`.
        key_mask: `(batch, key_length)`.
        attention_mask: `(query_length, key_length)`, `(batch, query_length, key_length)` or, for rank 4,
            `(batch, num_heads, query_length, key_length)`; any axis may be 1.
        use_causal_mask: Whether query position i sees the key positions 0 to i only.
        sliding_window: Number of positions seen to either side, itself included.
        query_start: Position of the first query among the keys, an integer or a tensor `()` or `(batch,)`.
    """
    heads = (1,) * (ndim - 3)
    merged = position_mask(query_length, key_length, ndim, use_causal_mask, sliding_window, query_start)
    for mask in (value_mask, key_mask):
        if mask is not None:
            batch = ops.shape(mask)[0]
            mask = _functional.reshape(as_bool(mask), (batch, *heads, 1, key_length))
            merged = logical_and(merged, mask)
    if query_mask is not None:
        batch = ops.shape(query_mask)[0]
        mask = _functional.reshape(as_bool(query_mask), (batch, *heads, query_length, 1))
        merged = logical_and(merged, mask)
    if attention_mask is not None:
        sizes = list(ops.shape(attention_mask))
        if len(sizes) == 2:
            sizes = [1, *sizes]
        if len(sizes) < ndim:
            sizes = [sizes[0], 1, *sizes[1:]]
        mask = as_bool(attention_mask)
        if len(mask.shape) < ndim:
            mask = _functional.reshape(mask, sizes)
        merged = logical_and(merged, mask)
    return merged


def attach(output: Any, query_mask: Any) -> None:
    """Hands the query mask on with the output, as Keras does with the mask attached to the first input."""
    if query_mask is not None:
        try:
            output._keras_mask = query_mask
        except (
            AttributeError
        ):  # a tensor type without attributes: Keras then attaches the mask of the query itself
            return
