"""Layers of ours as the attention layers of Keras, where Keras has an equal."""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import numpy as np

from keras_attention.attention.attention_layer import AttentionLayer
from keras_attention.attention.bahdanau_attention import BahdanauAttention
from keras_attention.attention.multi_head_attention import MultiHeadAttention
from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
from keras_attention.migration import built_ins
from keras_attention.migration import moves
from keras_attention.migration.moves import Move


def find(layer: keras.layers.Layer) -> Move | None:
    """The move of a layer of ours to Keras; `None` for one that stays. Raises for one without an equal."""
    mover = MOVERS.get(type(layer))
    if mover is not None:
        return mover(layer)
    if isinstance(layer, AttentionLayer) and type(layer).__module__.startswith("keras_attention."):
        raise moves.refuse(layer, "Keras has no such layer")
    return None


def move_products(layer: ScaledDotProductAttention) -> Move:
    """`Attention`, which has no fixed scale: a learned one that is frozen stands for it."""
    if not layer.use_scale and layer.scale != 1.0 and not layer.built:
        raise moves.refuse(
            layer,
            "Keras' `Attention` has no scale but a learned one. Call the layer first: its scale then becomes "
            f"such a weight, frozen. Received: scale={layer.scale}",
        )
    config = moves.common_config(layer)
    fixed = not layer.use_scale and layer.scale != 1.0
    if fixed:
        config["trainable"] = False
    new = keras.layers.Attention(
        use_scale=layer.use_scale or fixed, dropout=layer.dropout, seed=layer.seed, **config
    )

    def copy_weights() -> None:
        if layer.use_scale:
            new.scale.assign(keras.ops.convert_to_numpy(layer._scale_weight))
        elif fixed:
            shape = next(iter(layer.get_build_config()["shapes_dict"].values()))
            new.scale.assign(1.0 / math.sqrt(shape[-1]) if layer.scale is None else layer.scale)

    return _list_move(layer, new, copy_weights, keeps_trainable=not fixed)


def move_bahdanau(layer: BahdanauAttention) -> Move:
    """`AdditiveAttention`, which has no projections: only a layer whose projections are the identity."""
    if layer.built and not layer.use_bias:
        kernels = [keras.ops.convert_to_numpy(x) for x in (layer.query_kernel, layer.key_kernel)]
        channels = kernels[0].shape[0]
        if all(k.shape == (channels, layer.units) and np.array_equal(k, np.eye(channels)) for k in kernels):
            new = keras.layers.AdditiveAttention(
                dropout=layer.dropout, seed=layer.seed, **moves.common_config(layer)
            )
            return _list_move(layer, new, lambda: moves.copy_variables([layer.score_kernel], [new.scale]))
    raise moves.refuse(
        layer,
        "Keras' `AdditiveAttention` has no projections and no bias, so only a layer without bias whose query "
        "and key kernels are identity matrices has an equal. Keep the layer, or write Dense layers around "
        "`AdditiveAttention`",
    )


def _list_move(layer: Any, new: Any, copy_weights: Any, keeps_trainable: bool = True) -> Move:
    def call(
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        **kwargs: Any,
    ) -> Any:
        if attention_mask is not None or (key_mask is not value_mask and key_mask is not None):
            raise moves.refuse(
                layer, "it is called with an `attention_mask` or a `key_mask`, which Keras' lacks"
            )
        if len(query.shape) != 3:
            raise moves.refuse(
                layer, f"Keras' takes queries of rank 3. Received: query.shape={tuple(query.shape)}"
            )
        masks = [query_mask, value_mask]
        for index, tensor in enumerate((query, value)):
            masks[index] = moves.mask_of(tensor) if masks[index] is None else masks[index]
        if any(x is not None for x in masks):
            kwargs["mask"] = masks
        return new([query, value] if key is None else [query, value, key], **kwargs)

    return Move(new, copy_weights, call, keeps_trainable=keeps_trainable, takes_list=True)


def move_heads(layer: MultiHeadAttention) -> Move:
    """`MultiHeadAttention` or, with fewer heads of keys and values, `GroupQueryAttention`."""
    moves.check_plain(layer)
    config = layer.get_config()
    num_key_value_heads = config.pop("num_key_value_heads", None)
    for name in set(config) - set(inspect.signature(keras.layers.MultiHeadAttention.__init__).parameters):
        value = config.pop(name)
        if name not in moves.common_config(layer) and value not in (None, False):
            raise moves.refuse(
                layer, f"Keras' layer has no `{name}`. Received: {name}={getattr(layer, name)!r}"
            )
    config.update(moves.common_config(layer))
    new: Any
    if num_key_value_heads in (None, layer.num_heads):
        new = keras.layers.MultiHeadAttention.from_config(config)
    else:
        config["num_query_heads"] = config.pop("num_heads")
        config["head_dim"] = config.pop("key_dim")
        for name, allowed in (
            ("value_dim", (None, layer.key_dim)),
            ("output_shape", (None,)),
            ("attention_axes", (None, (1,))),
        ):
            value = config.pop(name)
            if value not in allowed:
                raise moves.refuse(layer, f"`GroupQueryAttention` has no `{name}`. Received: {name}={value}")
        new = keras.layers.GroupQueryAttention.from_config(
            {**config, "num_key_value_heads": num_key_value_heads}
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        for name in ("cache", "cache_index"):
            if kwargs.pop(name, None) is not None:
                raise moves.refuse(layer, f"it is called with `{name}`, which Keras' layer lacks")
        return new(*args, **kwargs)

    unmasked = built_ins.UNMASKED if type(new) is keras.layers.MultiHeadAttention else ()
    return Move(new, lambda: moves.copy_variables(layer.weights, new.weights), call, unmasked=unmasked)


MOVERS: dict[type, Any] = {
    ScaledDotProductAttention: move_products,
    BahdanauAttention: move_bahdanau,
    MultiHeadAttention: move_heads,
}
