"""The layers of the old packages as layers of ours: same weights, same outputs."""

from __future__ import annotations

import warnings
from typing import Any

import keras
from keras import ops

from keras_attention.attention.attention_pooling import AttentionPooling
from keras_attention.attention.bahdanau_attention import BahdanauAttention
from keras_attention.attention.luong_attention import LuongAttention
from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
from keras_attention.migration import legacy_layers
from keras_attention.migration import mask_layers
from keras_attention.migration import moves
from keras_attention.migration.moves import Move


def find(layer: keras.layers.Layer) -> Move | None:
    """The move of a stand-in for an old layer; `None` for a layer that stays."""
    mover = MOVERS.get(type(layer))
    return None if mover is None else mover(layer)


def _values(layer: Any, *names: str) -> list[Any]:
    return [ops.convert_to_numpy(getattr(layer, name)) for name in names]


def move_self_attention(layer: Any) -> Move:
    """`SeqSelfAttention`: additive with `BahdanauAttention`, multiplicative with `LuongAttention`."""
    options = layer.options
    _check_activation(layer)
    if options["attention_regularizer_weight"]:
        warnings.warn(
            f"The {moves.describe(layer)} has attention_regularizer_weight="
            f"{options['attention_regularizer_weight']}, a loss of training that is not carried over: "
            "predictions are the same; add the loss yourself if you train on.",
            stacklevel=2,
        )
    additive = options["attention_type"] == "additive"
    config = {
        name: options[name] for name in ("kernel_initializer", "kernel_regularizer", "kernel_constraint")
    }
    config.update(moves.common_config(layer))
    new: Any
    if additive:
        biases = {
            f"bias_{kind}": options[f"bias_{kind}"] for kind in ("initializer", "regularizer", "constraint")
        }
        use_bias = options["use_additive_bias"]
        new = BahdanauAttention(options["units"], use_bias=use_bias, **biases, **config)
    else:
        new = LuongAttention(score="general", **config)

    def copy_weights() -> None:
        # `ba` adds the same to all scores of a position: the softmax does not see it.
        if additive:
            names = {"query_kernel": "Wt", "key_kernel": "Wx", "score_kernel": "Wa", "bias": "bh"}
            for name, old in names.items():
                if hasattr(layer, old):
                    moves.copy_named(new, {name: _values(layer, old)[0]})
        else:
            moves.copy_named(new, {"query_kernel": _values(layer, "Wa")[0]})

    return Move(new, copy_weights, _self_attention_call(layer, new))


def _self_attention_call(layer: Any, new: Any) -> Any:
    options = layer.options
    width = options["attention_width"]
    before = after = None
    if width is not None:
        before = width - 1 if options["history_only"] else width // 2
        after = width - 1 - before
    is_causal = options["history_only"] and (width is None or width >= 10**9)
    set_mask = mask_layers.SetMask(name=f"{layer.name}_mask", dtype=layer.dtype_policy)
    pair_mask = mask_layers.PairMask(
        None if is_causal else before, None if is_causal else after, name=f"{layer.name}_pairs"
    )

    def call(inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        padding = moves.mask_of(inputs) if mask is None else mask
        masks: dict[str, Any] = {"use_causal_mask": True} if is_causal else {}
        if padding is not None:
            inputs = set_mask(inputs)
            masks["attention_mask"] = pair_mask(inputs, padding=padding)
        elif width is not None and not is_causal:
            masks["attention_mask"] = pair_mask(inputs)
        context, scores = new(inputs, inputs, return_attention_scores=True, **masks)
        if padding is not None:
            context = set_mask(context, new_mask=padding)
        return [context, scores] if options["return_attention"] else context

    return call


def _check_activation(layer: Any) -> None:
    activation = keras.activations.get(layer.options["attention_activation"])
    if activation is not None and activation is not keras.activations.linear:
        raise moves.refuse(
            layer,
            "no layer of ours puts an activation on the scores before their softmax. "
            f"Received: attention_activation={layer.options['attention_activation']!r}",
        )


def move_weighted_attention(layer: Any) -> Move:
    """`SeqWeightedAttention`: one learned query; its bias adds the same to all scores and is not needed."""
    new = AttentionPooling(**moves.common_config(layer))
    flat = keras.layers.Reshape((-1,), name=f"{layer.name}_scores", dtype=layer.dtype_policy)

    def call(inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        if not layer.options["return_attention"]:
            return new(inputs, mask=mask)
        output, scores = new(inputs, mask=mask, return_attention_scores=True)
        return [output, flat(scores)]

    return Move(new, lambda: moves.copy_named(new, {"query_vectors": _values(layer, "W")[0].T}), call)


def move_products(layer: Any) -> Move:
    """`ScaledDotProductAttention` of keras-self-attention: lists are query, key, value."""
    new = ScaledDotProductAttention(**moves.common_config(layer))
    set_mask = mask_layers.SetMask(name=f"{layer.name}_mask", dtype=layer.dtype_policy)

    def call(inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        query, key, value = inputs if isinstance(inputs, (list, tuple)) else [inputs] * 3
        if mask is None:
            masks = [moves.mask_of(query), moves.mask_of(key)]
        else:
            masks = list(mask[:2]) if isinstance(mask, (list, tuple)) else [mask, mask]
        query, key, value = (x if moves.mask_of(x) is None else set_mask(x) for x in (query, key, value))
        options = {} if masks[1] is None else {"key_mask": masks[1]}
        options["use_causal_mask"] = layer.options["history_only"]
        context, scores = new(query, value, key, return_attention_scores=True, **options)
        if masks[0] is not None:
            context = set_mask(context, new_mask=masks[0])
        return [context, scores] if layer.options["return_attention"] else context

    return Move(new, lambda: None, call)


def move_many_to_one(layer: Any) -> Move:
    """`attention.Attention`: the last position is the query; it does not look at masks."""
    additive = layer.options["score"] == "bahdanau"
    new = AttentionPooling(
        query="last",
        score="additive" if additive else "general",
        output_units=layer.options["units"],
        **moves.common_config(layer),
    )
    set_mask = mask_layers.SetMask(name=f"{layer.name}_mask", dtype=layer.dtype_policy)

    def copy_weights() -> None:
        if additive:
            names = {"query_kernel": "bahdanau_w1", "key_kernel": "bahdanau_w2", "output_kernel": "w_c"}
            moves.copy_named(new, {"score_kernel": ops.convert_to_numpy(layer.bahdanau_v.kernel).T})
        elif layer.options["score"] is None:
            names = {"key_kernel": "attention_score_vec", "output_kernel": "attention_vector"}
        else:
            names = {"key_kernel": "luong_w", "output_kernel": "w_c"}
        for name, old in names.items():
            moves.copy_named(new, {name: ops.convert_to_numpy(getattr(layer, old).kernel)})

    def call(inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        return new(inputs if moves.mask_of(inputs) is None else set_mask(inputs))

    return Move(new, copy_weights, call)


MOVERS: dict[type, Any] = {
    legacy_layers.SeqSelfAttention: move_self_attention,
    legacy_layers.SeqWeightedAttention: move_weighted_attention,
    legacy_layers.ScaledDotProductAttention: move_products,
    legacy_layers.Attention: move_many_to_one,
}
