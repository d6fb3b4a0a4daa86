"""A query of rank 2, `(batch, channels)`: one step of a decoder that attends to a whole sequence."""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention import _functional
from keras_attention import _validation


def as_sequence(query: Any, masks: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Gives a single decoder step and its masks a query axis of length 1."""
    query = _functional.reshape(query, (ops.shape(query)[0], 1, query.shape[-1]))
    masks = dict(masks)
    if masks["query_mask"] is not None:
        masks["query_mask"] = ops.reshape(masks["query_mask"], (-1, 1))
    if masks["attention_mask"] is not None:
        batch, key_length = ops.shape(masks["attention_mask"])
        masks["attention_mask"] = _functional.reshape(masks["attention_mask"], (batch, 1, key_length))
    return query, masks


def without_query_axis(context: Any, scores: Any) -> tuple[Any, Any]:
    """Takes the query axis of length 1 from `(batch, 1, channels)` and `(batch, 1, key_length)`."""
    batch = ops.shape(context)[0]
    context = _functional.reshape(context, (batch, context.shape[-1]))
    return context, _functional.reshape(scores, (batch, ops.shape(scores)[-1]))


def check_shapes(query_shape: Any, value_shape: Any, key_shape: Any) -> None:
    """Raises unless the query is a sequence or a step, and value and key are sequences."""
    if len(query_shape) not in (2, 3) or len(value_shape) != 3:
        raise ValueError(
            "`query` must have rank 3, (batch, query_length, channels), or 2, (batch, channels), and "
            "`value` rank 3, (batch, key_length, channels). "
            f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
        )
    _validation.check_shapes(query_shape, value_shape, key_shape)


def check_call(query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
    """Raises where a single step is given what only a sequence has."""
    if len(query_shape) == 3:
        return
    if use_causal_mask:
        raise ValueError(
            "`use_causal_mask` needs a `query` of rank 3: a single decoder step has no position. "
            f"Received: use_causal_mask=True, query.shape={tuple(query_shape)}"
        )
    attention_mask = masks["attention_mask"]
    if attention_mask is not None and len(attention_mask.shape) != 2:
        raise ValueError(
            "`attention_mask` must have shape (batch, key_length) when `query` has rank 2. "
            f"Received: attention_mask.shape={tuple(attention_mask.shape)}"
        )
