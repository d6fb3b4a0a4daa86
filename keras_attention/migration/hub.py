"""keras-hub's `TransformerEncoder` as `TransformerEncoderBlock`, and back; nothing here imports keras-hub."""

from __future__ import annotations

import sys
from typing import Any

import keras
from keras import ops

from keras_attention import _weights
from keras_attention.blocks.transformer_encoder_block import TransformerEncoderBlock
from keras_attention.migration import built_ins
from keras_attention.migration import moves
from keras_attention.migration.moves import Move

# Part of keras-hub's layer -> part of ours, in the order of their weights.
PARTS = {
    "_self_attention_layer": "_attention",
    "_self_attention_layer_norm": "_attention_norm",
    "_feedforward_layer_norm": "_feedforward_norm",
    "_feedforward_intermediate_dense": "_intermediate_dense",
    "_feedforward_output_dense": "_output_dense",
}


def find(layer: keras.layers.Layer) -> Move | None:
    """The move of an encoder of keras-hub; only who has imported it has one."""
    return _move_encoder(layer) if type(layer) is _encoder_class() else None


def find_back(layer: keras.layers.Layer) -> Move | None:
    """The move of a block of ours to keras-hub; `None` for any other layer."""
    return _move_block(layer) if type(layer) is TransformerEncoderBlock else None


def _encoder_class() -> Any:
    hub = sys.modules.get("keras_hub")
    return None if hub is None else hub.layers.TransformerEncoder


def _move_encoder(layer: Any) -> Move:
    new = TransformerEncoderBlock(
        layer.intermediate_dim,
        num_heads=layer.num_heads,
        activation=layer.activation,
        normalize_first=layer.normalize_first,
        dropout=layer.dropout,
        epsilon=layer.layer_norm_epsilon,
        kernel_initializer=layer.kernel_initializer,
        bias_initializer=layer.bias_initializer,
        **moves.common_config(layer),
    )
    moves.check_plain(layer)

    def call(inputs: Any, padding_mask: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """The mask that keras-hub is given hides keys; an attached one hides queries too, as ours does."""
        if padding_mask is not None:
            hidden = built_ins.as_bool(ops.expand_dims(padding_mask, axis=1))  # (batch, 1, length)
            if attention_mask is None:
                attention_mask = hidden
            else:
                attention_mask = ops.logical_and(hidden, ops.cast(attention_mask, "bool"))
        if attention_mask is not None:
            options["attention_mask"] = built_ins.as_bool(attention_mask)
        return new(inputs, **options)

    return Move(new, lambda: _copy(layer, new, PARTS), call, unmasked=_unmasked(layer))


def _move_block(layer: TransformerEncoderBlock) -> Move:
    moves.check_plain(layer)
    unlike = {
        "attention": layer.attention,
        "normalization": None if layer.normalization == "layer" else layer.normalization,
        "activation": "swiglu" if layer.activation == "swiglu" else None,
        "use_bias": None if layer.use_bias else layer.use_bias,
        **{name: getattr(layer, name) for name in _weights.NAMES if not name.endswith("initializer")},
    }
    for name, value in unlike.items():
        if value is not None:
            raise moves.refuse(
                layer,
                f"keras-hub's `TransformerEncoder` does not have this option. Received: {name}={value!r}",
            )
    if _encoder_class() is None:
        raise moves.refuse(layer, "its equal is keras-hub's `TransformerEncoder`: `import keras_hub` first")
    new = _encoder_class()(
        layer.intermediate_dim,
        num_heads=layer.num_heads,
        dropout=layer.dropout,
        activation=layer.activation,
        layer_norm_epsilon=layer.epsilon,
        kernel_initializer=layer.kernel_initializer,
        bias_initializer=layer.bias_initializer,
        normalize_first=layer.normalize_first,
        **moves.common_config(layer),
    )

    def call(inputs: Any, mask: Any = None, use_causal_mask: bool = False, **options: Any) -> Any:
        if use_causal_mask:
            raise moves.refuse(
                layer, "it is called with `use_causal_mask=True`, which keras-hub's layer lacks"
            )
        attention_mask = options.get("attention_mask")
        if attention_mask is not None and len(attention_mask.shape) != 3:
            raise moves.refuse(
                layer,
                "keras-hub's layer takes an `attention_mask` of rank 3. "
                f"Received: attention_mask.shape={tuple(attention_mask.shape)}",
            )
        return new(inputs, padding_mask=mask, **options)

    back = {ours: theirs for theirs, ours in PARTS.items()}
    return Move(new, lambda: _copy(layer, new, back), call, unmasked=_unmasked(layer))


def _unmasked(layer: Any) -> tuple[str, ...]:
    """Without a norm in between, the inputs go to `keras.layers.MultiHeadAttention` as they are."""
    return () if layer.normalize_first else ("inputs",)


def _copy(layer: Any, new: Any, parts: dict[str, str]) -> None:
    for old_name, new_name in parts.items():
        old_part, new_part = getattr(layer, old_name), getattr(new, new_name)
        moves.copy_variables(old_part.weights, new_part.weights)
        moves.copy_trainable(old_part, new_part)
