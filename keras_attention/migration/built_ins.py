"""The attention layers of Keras as layers of ours."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.attention.bahdanau_attention import BahdanauAttention
from keras_attention.attention.multi_head_attention import MultiHeadAttention
from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
from keras_attention.migration import mask_layers
from keras_attention.migration import moves
from keras_attention.migration.moves import Move

MASKS = ("query_mask", "value_mask", "key_mask", "attention_mask")
UNMASKED = ("query", "value", "key")
"""`keras.layers.MultiHeadAttention` sets the masks of these to `None`, on the tensors themselves."""


def find(layer: keras.layers.Layer) -> Move | None:
    """The move of a layer of Keras to ours; `None` for a layer that stays, subclasses among them."""
    mover = MOVERS.get(type(layer))
    return None if mover is None else mover(layer)


def move_attention(layer: Any) -> Move:
    """`Attention`: products become `ScaledDotProductAttention`, `score_mode="concat"` an additive layer."""
    if layer.score_mode == "concat":
        return _additive_move(layer)
    new = ScaledDotProductAttention(
        use_scale=layer.use_scale,
        scale=1.0,
        dropout=layer.dropout,
        seed=layer.seed,
        **moves.common_config(layer),
    )
    return _list_move(layer, new, lambda: moves.copy_variables(layer.weights, new.weights))


def move_additive_attention(layer: Any) -> Move:
    """`AdditiveAttention`: its scale is the vector that weighs the hidden layer."""
    return _additive_move(layer)


def _additive_move(layer: Any) -> Move:
    """`BahdanauAttention` whose projections are the identity, times the scale inside tanh if there is one."""
    if not layer.built:
        raise moves.refuse(
            layer,
            "as long as it is not built, the number of channels is not known, and the projections of "
            "`BahdanauAttention` become identity matrices of that size. Call it first, or move its model",
        )
    channels = layer.get_build_config()["input_shape"][0][-1]
    new = BahdanauAttention(channels, dropout=layer.dropout, seed=layer.seed, **moves.common_config(layer))

    def copy_weights() -> None:
        concat = getattr(layer, "concat_score_weight", None)
        scale = 1.0 if layer.scale is None else ops.convert_to_numpy(layer.scale)
        outer = scale if concat is None else ops.convert_to_numpy(concat)
        inner = 1.0 if concat is None else scale
        kernel = np.eye(channels, dtype="float32") * inner
        score_kernel = np.broadcast_to(np.reshape(outer, (-1, 1)), (channels, 1))
        moves.copy_named(new, {"query_kernel": kernel, "key_kernel": kernel, "score_kernel": score_kernel})

    return _list_move(layer, new, copy_weights)


def _list_move(layer: Any, new: Any, copy_weights: Any) -> Move:
    """Keras calls these layers with lists, `[query, value, key]` and `[query_mask, value_mask]`."""
    set_mask = mask_layers.SetMask(name=f"{layer.name}_mask", dtype=layer.dtype_policy)

    def call(inputs: Any, mask: Any = None, **kwargs: Any) -> Any:
        tensors = list(inputs)
        given = mask is not None
        masks = list(mask) if given else [moves.mask_of(x) for x in tensors]
        masks = [None if x is None else as_bool(x) for x in masks[:2]]
        # Keras looks at two masks, those given or those attached; ours would take every one attached.
        for index, tensor in enumerate(tensors):
            wanted = masks[min(index, 1)]
            if wanted is None and moves.mask_of(tensor) is not None:
                tensors[index] = set_mask(tensor)
        names = {"query_mask": masks[0], "value_mask": masks[1]}
        if len(tensors) == 3 and moves.mask_of(tensors[2]) is not None:
            names["key_mask"] = masks[1]
        if given or "key_mask" in names:
            kwargs.update({name: value for name, value in names.items() if value is not None})
        return new(*tensors, **kwargs)

    return Move(new, copy_weights, call)


def as_bool(mask: Any) -> Any:
    """Keras takes ones and zeros of any type as a mask; ours only takes booleans and integers."""
    return ops.cast(mask, "bool") if keras.backend.is_float_dtype(_dtype(mask)) else mask


def _dtype(x: Any) -> str:
    return keras.backend.standardize_dtype(x.dtype)


def move_multi_head_attention(layer: Any) -> Move:
    """`MultiHeadAttention`: the same options and weights."""
    new = MultiHeadAttention.from_config(
        {**layer.get_config(), **moves.common_config(layer), "flash_attention": _flash(layer)}
    )
    return dataclasses.replace(_heads_move(layer, new), unmasked=UNMASKED)


def move_group_query_attention(layer: Any) -> Move:
    """`GroupQueryAttention`: `MultiHeadAttention` with fewer heads of keys and values."""
    config = {**layer.get_config(), **moves.common_config(layer), "flash_attention": _flash(layer)}
    config["num_heads"] = config.pop("num_query_heads")
    config["key_dim"] = config.pop("head_dim")
    return _heads_move(layer, MultiHeadAttention.from_config(config))


def _heads_move(layer: Any, new: Any) -> Move:
    moves.check_plain(layer)

    def call(*args: Any, **kwargs: Any) -> Any:
        masks = {name: as_bool(x) for name, x in kwargs.items() if name in MASKS and hasattr(x, "dtype")}
        return new(*args, **{**kwargs, **masks})

    copy_weights = lambda: moves.copy_variables(layer.weights, new.weights)  # noqa: E731
    return Move(new, copy_weights, call)


def _flash(layer: Any) -> bool | None:
    """`True` if the layer asked for it itself; what Keras was told for all layers holds for ours too."""
    return True if layer._flash_attention and not keras.config.is_flash_attention_enabled() else None


MOVERS: dict[type, Any] = {
    keras.layers.Attention: move_attention,
    keras.layers.AdditiveAttention: move_additive_attention,
    keras.layers.MultiHeadAttention: move_multi_head_attention,
    keras.layers.GroupQueryAttention: move_group_query_attention,
}
