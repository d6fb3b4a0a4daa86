"""Long attention in blocks of queries: the same answers, without all scores in memory at once.

Each query attends on its own, so the rows of the scores may be formed a block at a time, and the memory
of one block serves the next. Slices and joins keep to forms that XNNPACK takes. Where a constant mask
(causal, sliding window) leaves a block without its first or last keys, those are not read at all.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention import ScaledDotProductAttention
from keras_attention import _masks
from keras_attention.tflite.lowering import constant_masks
from keras_attention.tflite.lowering import grouped_attention
from keras_attention.tflite.lowering.joining import join
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch

MOST_NUMBERS = 2**20
"""Numbers that the scores, or the layer of units that gives them, may have at once: 4 MB."""
SMALLEST, LARGEST = 16, 128
"""Queries of one block; more gain no speed, fewer lose it."""

_Attend = Callable[[Any, Any, slice, slice], tuple[Any, Any]]
"""Takes queries, their mask, their range and that of the keys to read; returns context and scores or None."""


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace what computes attention in every layer that is known to attend query by query."""
    for layer in layers:
        for own, method, stand_in in _METHODS:
            if isinstance(layer, own) and getattr(type(layer), method) is getattr(own, method):
                inner = getattr(layer, method)  # bound, or what an earlier pass put in its place
                yield Patch(layer, method, functools.partial(stand_in, layer, lowering, inner))


def _attend_keras_heads(
    layer: Any,
    lowering: Lowering,
    inner: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    training: bool | None = None,
    return_attention_scores: bool | None = None,
    use_causal_mask: bool = False,
) -> tuple[Any, Any]:
    """Stand in for `_compute_attention` of Keras; tensors `(batch, length, heads, dim)`."""
    named: dict[str, Any] = {"training": training}
    if return_attention_scores is not None:
        named["return_attention_scores"] = return_attention_scores
    heads = query.shape[2] if len(query.shape) == 4 else 0
    is_long = heads > 0 and _is_long(query, 1, key.shape[1], heads, attention_mask)
    lengths = query.shape[1], key.shape[1]
    if not heads or None in lengths or not (is_long or use_causal_mask):
        return inner(query, key, value, attention_mask, use_causal_mask=use_causal_mask, **named)
    if use_causal_mask:
        attention_mask = _masks.logical_and(_masks.position_mask(*lengths, 3, True), attention_mask)
    shows_scores = bool(return_attention_scores or getattr(layer, "_return_attention_scores", False))
    dropout = layer.dropout

    def attend(rows: Any, mask: Any, block: slice, keys: slice) -> tuple[Any, Any]:
        del block
        read = _cut(key, 1, keys), _cut(value, 1, keys)
        return grouped_attention.attend(layer, rows, *read, mask, dropout, training, shows_scores)

    size = _block_size(query, key.shape[1], heads) if is_long else query.shape[1]
    return _in_blocks(layer, lowering, attend, query, 1, key.shape[1], attention_mask, size, shows_scores)


def _call_keras_attention(
    layer: Any,
    lowering: Lowering,
    inner: Any,
    inputs: list[Any],
    mask: Any = None,
    training: bool = False,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """Stand in for `call` of keras.layers.Attention and AdditiveAttention; tensors `(batch, length, dim)`."""
    query, value = inputs[:2]
    key = inputs[2] if len(inputs) > 2 else value
    units = 1 if getattr(layer, "score_mode", "concat") == "dot" else query.shape[-1]
    if isinstance(layer, keras.layers.AdditiveAttention):
        units = query.shape[-1]
    is_long = _is_long(query, 1, key.shape[1], units, None)
    if not is_long and not use_causal_mask:
        return inner(
            inputs,
            mask=mask,
            training=training,
            return_attention_scores=return_attention_scores,
            use_causal_mask=use_causal_mask,
        )
    query_mask, value_mask = mask[:2] if mask else (None, None)
    lengths = (ops.shape(query)[1], ops.shape(key)[1])
    merged = _masks.merge_masks(*lengths, 3, value_mask=value_mask, use_causal_mask=use_causal_mask)

    def attend(rows: Any, mask: Any, block: slice, keys: slice) -> tuple[Any, Any]:
        del block
        scores = layer._calculate_scores(query=rows, key=_cut(key, 1, keys))
        if constant_masks.is_addable(mask):
            scores, mask = constant_masks.add_mask(scores, mask), None
        return layer._apply_scores(scores, _cut(value, 1, keys), scores_mask=mask, training=training)

    size = _block_size(query, key.shape[1], units) if is_long else query.shape[1]
    context, scores = _in_blocks(
        layer, lowering, attend, query, 1, key.shape[1], merged, size, return_attention_scores
    )
    if query_mask is not None:
        context = ops.where(ops.expand_dims(query_mask, axis=-1), context, 0)
    return (context, scores) if return_attention_scores else context


def _attend_own(
    axis: int,
    layer: Any,
    lowering: Lowering,
    inner: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    training: bool | None,
    return_attention_scores: bool,
) -> tuple[Any, Any]:
    """Stand in for `_attend` of this package's layers, whose query and key length are on the same axis."""
    rest = (training, return_attention_scores)
    if isinstance(layer, BahdanauAttention):
        per_pair = query.shape[-1]
    elif isinstance(layer, MultiHeadAttention):
        per_pair = layer.num_heads
    else:
        per_pair = math.prod(query.shape[1:-2])
    if not _is_long(query, axis, key.shape[axis], per_pair, mask):
        return inner(query, key, value, mask, *rest)

    def attend(rows: Any, mask: Any, block: slice, keys: slice) -> tuple[Any, Any]:
        more = {}
        if getattr(layer, "position_bias", None) is not None:
            bias = layer._bias(block.stop - block.start, key.shape[axis], block.start)
            more["bias_rows"] = _cut(bias, -1, keys)
        return inner(rows, _cut(key, axis, keys), _cut(value, axis, keys), mask, *rest, **more)

    size = _block_size(query, key.shape[axis], per_pair)
    return _in_blocks(
        layer, lowering, attend, query, axis, key.shape[axis], mask, size, return_attention_scores
    )


_METHODS: tuple[tuple[Any, str, Any], ...] = (
    (keras.layers.MultiHeadAttention, "_compute_attention", _attend_keras_heads),
    (keras.layers.GroupQueryAttention, "_compute_attention", _attend_keras_heads),
    (keras.layers.Attention, "call", _call_keras_attention),
    (MultiHeadAttention, "_attend", functools.partial(_attend_own, 1)),
    (ScaledDotProductAttention, "_attend", functools.partial(_attend_own, -2)),
    (BahdanauAttention, "_attend", functools.partial(_attend_own, -2)),
)


def _is_long(query: Any, axis: int, key_length: Any, per_pair: int, mask: Any) -> bool:
    """Tell whether blocks help, and lengths and mask are known well enough for them."""
    length = query.shape[axis]
    if length is None or key_length is None or length <= SMALLEST:
        return False
    if mask is not None and (len(mask.shape) < 2 or mask.shape[-2] not in (1, length)):
        return False
    return (query.shape[0] or 1) * length * key_length * per_pair > MOST_NUMBERS


def _block_size(query: Any, key_length: int, per_pair: int) -> int:
    wanted = MOST_NUMBERS // ((query.shape[0] or 1) * key_length * per_pair)
    return max(SMALLEST, min(LARGEST, wanted // SMALLEST * SMALLEST))


def _in_blocks(
    layer: Any,
    lowering: Lowering,
    attend: _Attend,
    query: Any,
    axis: int,
    key_length: int,
    mask: Any,
    size: int,
    shows_scores: bool,
) -> tuple[Any, Any]:
    """Attend with `size` queries at a time, and join what comes of it."""
    length = query.shape[axis]
    contexts, scores = [], []
    for start in range(0, length, size):
        block = slice(start, min(start + size, length))
        rows_mask = mask if mask is None or mask.shape[-2] == 1 else mask[..., block, :]
        keys = slice(0, key_length) if shows_scores else _read(rows_mask, key_length)
        if rows_mask is not None and keys != slice(0, key_length):
            rows_mask = rows_mask[..., keys]
        context, block_scores = attend(_cut(query, axis, block), rows_mask, block, keys)
        contexts.append(context)
        scores.append(block_scores)
    if len(contexts) > 1:
        lowering.note(layer, f"attention in {len(contexts)} blocks of {size} queries")
    return join(contexts, axis), join(scores, -2) if shows_scores else None


def _read(mask: Any, key_length: int) -> slice:
    """Return the range of keys that a block reads; all but where a constant mask tells otherwise."""
    if not isinstance(mask, np.ndarray) or mask.shape[-1] != key_length or not mask.any(axis=-1).all():
        return slice(0, key_length)
    read = np.flatnonzero(mask.reshape(-1, key_length).any(axis=0))
    return slice(int(read[0]), int(read[-1]) + 1)


def _cut(tensor: Any, axis: int, part: slice) -> Any:
    """Slice along one axis; the whole axis needs no operator."""
    if part == slice(0, tensor.shape[axis]):
        return tensor
    return tensor[(slice(None),) * (axis % len(tensor.shape)) + (part,)]
