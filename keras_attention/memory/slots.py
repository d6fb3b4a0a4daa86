"""Attention to keys and to slots at once: one softmax over both, two products without joining them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _functional


def slot_scores(logits: Any, slot_logits: Any, mask: Any = None) -> Any:
    """Softmax over the keys that the mask allows and all slots, `(..., key_length + num_slots)`.

    Args:
        logits: Tensor of shape `(batch, num_heads, query_length, key_length)`.
        slot_logits: Tensor of shape `(batch, num_heads, query_length, num_slots)`.
        mask: Boolean tensor or NumPy array of rank 4 that broadcasts to `logits`, True = attend, or `None`.
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if isinstance(mask, np.ndarray):  # a constant mask stays one, with a column for each slot
        mask = np.pad(mask, [(0, 0)] * 3 + [(0, slot_logits.shape[-1])], constant_values=True)
        return _functional.masked_softmax(ops.concatenate([logits, slot_logits], axis=-1), mask)
    if mask is not None:
        logits, slot_logits = (_in_float32(x) for x in (logits, slot_logits))
        logits = ops.where(mask, logits, _functional.MASKED_LOGIT)
    scores = _functional.masked_softmax(ops.concatenate([logits, slot_logits], axis=-1))
    return ops.cast(scores, dtype)


def attend(
    query: Any,
    key: Any,
    value: Any,
    slot_keys: Any,
    slot_values: Any,
    mask: Any,
    scale: Any,
    dropout: Callable[[Any], Any],
) -> tuple[Any, Any]:
    """Context `(batch, num_heads, query_length, value_dim)` and scores over keys and slots.

    Args:
        query: Tensor of shape `(batch, num_heads, query_length, key_dim)`.
        key: Tensor of shape `(batch, num_heads, key_length, key_dim)`.
        value: Tensor of shape `(batch, num_heads, key_length, value_dim)`.
        slot_keys: Tensor of shape `(1, num_heads, num_slots, key_dim)`, scaled already.
        slot_values: Tensor of shape `(1, num_heads, num_slots, value_dim)`.
        mask: Mask of the keys, as in `slot_scores`.
        scale: Factor of the products of query and key.
        dropout: Function that drops scores.
    """
    logits = _functional.dot_product_logits(query, key, scale)
    slot_logits = ops.matmul(query, _functional.swap_last_axes(slot_keys))
    scores = slot_scores(logits, slot_logits, mask)
    weights = dropout(scores)
    key_length = ops.shape(key)[2]
    of_keys = ops.matmul(weights[..., :key_length], value)
    return _functional.add(of_keys, ops.matmul(weights[..., key_length:], slot_values)), scores


def _in_float32(logits: Any) -> Any:
    """Logits that can hold the number of a masked one; what float16 could not hold comes back finite."""
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if dtype in ("float16", "bfloat16"):
        logits = ops.cast(logits, "float32")
    if dtype == "float16":
        logits = ops.clip(logits, -_functional.FLOAT16_MAX, _functional.FLOAT16_MAX)
    return logits
