"""`from_keras` and `to_keras`: layers of Keras as layers of ours, and back, alone or in a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from typing import TypeVar

import keras

from keras_attention.migration import built_ins
from keras_attention.migration import hub
from keras_attention.migration import moves
from keras_attention.migration import rewriting
from keras_attention.migration import to_built_ins
from keras_attention.migration.moves import Move

_Layer = TypeVar("_Layer", bound=keras.layers.Layer)


def from_keras(layer_or_model: _Layer) -> Any:
    """Turn attention layers of Keras into layers of this package: same weights, same outputs.

    Takes `Attention`, `AdditiveAttention`, `MultiHeadAttention`, `GroupQueryAttention` and keras-hub's
    `TransformerEncoder`, or a functional or sequential model that holds some; a model is copied, with the
    weights of all its layers, and stays as it is. Name, dtype policy, `trainable`, dropout and its seed are
    kept, the state of an optimizer is not. A layer that is not built yet is moved without weights.

    Outputs differ where no key may be attended to: ours are zero there. See `docs/migration.md`.

    Args:
        layer_or_model: a layer of Keras, or a model that is built.

    Returns:
        Our layer, or a new model. What has no equal raises a `ValueError` that says why.

    Example:
    ```python
    import keras
    from keras_attention import from_keras

    inputs = keras.Input((16, 32))
    outputs = keras.layers.MultiHeadAttention(num_heads=4, key_dim=8)(inputs, inputs)
    model = from_keras(keras.Model(inputs, outputs))
    print(type(model.layers[-1]).__module__)  # keras_attention.attention.multi_head_attention
    ```
    """
    wanted = "`Attention`, `AdditiveAttention`, `MultiHeadAttention`, `GroupQueryAttention` and keras-hub's "
    wanted += "`TransformerEncoder`, but not subclasses of them"
    return _move(layer_or_model, _from, "from_keras", wanted)


def to_keras(layer_or_model: _Layer) -> Any:
    """Turn layers of this package into attention layers of Keras: the way back of `from_keras`.

    Takes `ScaledDotProductAttention`, `BahdanauAttention` without projections (identity kernels),
    `MultiHeadAttention` and `TransformerEncoderBlock`, or a functional or sequential model that holds some.

    Args:
        layer_or_model: a layer of ours, or a model that is built.

    Returns:
        A layer of Keras (or, for a block, of keras-hub), or a new model. A layer or an option that Keras does
        not have raises a `ValueError` that says so.

    Example:
    ```python
    from keras_attention import MultiHeadAttention
    from keras_attention import to_keras

    layer = to_keras(MultiHeadAttention(num_heads=4, key_dim=8, num_key_value_heads=2))
    print(type(layer).__name__)  # GroupedQueryAttention
    ```
    """
    wanted = "`ScaledDotProductAttention`, `BahdanauAttention`, `MultiHeadAttention` and "
    wanted += "`TransformerEncoderBlock` of this package"
    return _move(layer_or_model, _to, "to_keras", wanted)


def _from(layer: keras.layers.Layer) -> Move | None:
    return built_ins.find(layer) or hub.find(layer)


def _to(layer: keras.layers.Layer) -> Move | None:
    return hub.find_back(layer) or to_built_ins.find(layer)


def _move(layer: Any, find: Callable[[keras.layers.Layer], Move | None], function: str, wanted: str) -> Any:
    if not isinstance(layer, keras.layers.Layer):
        message = f"`{function}` takes a layer or a model of Keras 3. Received: {type(layer)!r}"
        if type(layer).__module__.split(".")[0] == "tf_keras" or "tf_keras" in sys.modules:
            message += ". Models of Keras 2 come over by their files, see `load_legacy_model`"
        raise TypeError(message)
    if rewriting.is_graph(layer):
        parts = layer._flatten_layers()
        if all(find(part) is None for part in parts):
            raise ValueError(
                f"The model {layer.name!r} holds none of the layers that `{function}` moves: {wanted}."
            )
        return rewriting.replace_layers(layer, find, strips_masks=function == "from_keras")
    move = find(layer)
    if move is None:
        raise ValueError(f"`{function}` moves {wanted}. Received: {moves.describe(layer)}")
    if layer.built:
        moves.build_alone(layer, move)
        moves.finish(layer, move)
    return move.layer
