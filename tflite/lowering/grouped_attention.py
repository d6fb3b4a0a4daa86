"""Grouped-query attention without repeated keys and values.

Keras repeats each key and value head for every query head that shares it, by way of TILE on tensors of
rank 5, which no delegate takes. Here the query heads that share a key head lie below one another instead,
as further rows of one matrix product: the same numbers, at rank 4, and the keys are read once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention.tflite.lowering import constant_masks
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace the repeats and the computation of every layer whose key heads are shared."""
    own = keras.layers.GroupQueryAttention
    for layer in layers:
        if not isinstance(layer, own) or layer.num_repeats == 1:
            continue
        if type(layer).call is own.call and type(layer)._compute_attention is own._compute_attention:
            lowering.note(layer, "key and value heads shared instead of repeated")
            yield Patch(layer, "num_repeats", 1)
            yield Patch(layer, "_compute_attention", functools.partial(_compute_attention, layer))


def _compute_attention(
    layer: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    training: bool | None = None,
    use_causal_mask: bool = False,
) -> tuple[Any, Any]:
    """Stand in for the method of that name; key and value have fewer heads than the query."""
    if use_causal_mask:
        causal = _masks.position_mask(ops.shape(query)[1], ops.shape(value)[1], 3, True)
        attention_mask = _masks.logical_and(causal, attention_mask)
    shows_scores = layer._return_attention_scores
    return attend(layer, query, key, value, attention_mask, layer.dropout, training, shows_scores)


def attend(
    layer: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    dropout: float,
    training: bool | None,
    shows_scores: bool,
) -> tuple[Any, Any]:
    """Attention as a layer of Keras with heads computes it; a constant mask is added to the scores.

    Keras has two ways to compute, which differ for a query that may attend to nothing: it gets the mean
    of all values where Keras forms no scores, else zeros.

    Args:
        layer: keras.layers.GroupQueryAttention or MultiHeadAttention.
        query: `(batch, length, heads, dim)`.
        key: `(batch, key_length, groups, dim)`, as many groups as heads or a part of them.
        value: `(batch, key_length, groups, value_dim)`.
        mask: None, or boolean, of up to 4 axes, that broadcasts to the scores.
        dropout: its rate.
        training: whether dropout is active.
        shows_scores: whether the scores are wanted.
    """
    batch, length, heads, width = ops.shape(query)
    groups = key.shape[2]
    query = ops.multiply(query, ops.cast(1.0 / math.sqrt(width), query.dtype))
    rows = ops.reshape(ops.transpose(query, (0, 2, 1, 3)), (batch, groups, -1, width))
    logits = ops.matmul(rows, ops.transpose(key, (0, 2, 3, 1)))  # (batch, groups, sharing * length, keys)
    logits = ops.reshape(logits, (batch, heads, length, -1))
    if constant_masks.is_addable(mask):
        scores = ops.softmax(constant_masks.add_mask(logits, mask), axis=-1)
    elif mask is None or dropout > 0 or shows_scores:
        scores = layer._masked_softmax(logits, None if mask is None else ops.convert_to_tensor(mask))
    else:
        mask = ops.cast(mask, "bool")
        for _ in range(len(logits.shape) - len(mask.shape)):
            mask = ops.expand_dims(mask, axis=-3)
        scores = ops.softmax(ops.where(mask, logits, _functional.MASKED_LOGIT), axis=-1)
    weights = layer._dropout_layer(scores, training=training)
    weights = ops.reshape(weights, (batch, groups, -1, ops.shape(weights)[-1]))
    context = ops.matmul(weights, ops.transpose(value, (0, 2, 1, 3)))
    context = ops.reshape(context, (batch, heads, length, value.shape[-1]))
    return ops.transpose(context, (0, 2, 1, 3)), scores
