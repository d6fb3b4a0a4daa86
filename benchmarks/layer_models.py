"""One small model per layer: real smartwatch windows in, classes out, seeded and untrained.

The table of `python -m benchmarks.layer_precision` and tests/tflite_export/test_layer_models.py convert
every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_attention

WIDTH = 48


def _attend(make: Callable[[], Any], is_pooling: bool = False) -> Callable[[Any], Any]:
    """Attention over a projected sequence, with the residual sum and the norm that go with it."""

    def body(sequence: Any) -> Any:
        if is_pooling:
            return make()(sequence[:, -1], sequence)
        return keras.layers.LayerNormalization()(sequence + make()(sequence, sequence))

    return body


def _encode(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Positions added to a sequence, which then attends to itself."""
    attend = _attend(lambda: keras_attention.MultiHeadAttention(4, WIDTH // 4))
    return lambda sequence: attend(make()(sequence))


def _position_heads(rotary: Any = None, bias: Any = None) -> Callable[[Any], Any]:
    """Four heads without projections whose products know positions, by a rotation or a bias."""

    def body(sequence: Any) -> Any:
        heads = keras.layers.Reshape((sequence.shape[1], 4, WIDTH // 4))(sequence)
        turned = heads if rotary is None else rotary()(heads)
        heads, turned = keras.layers.Permute((2, 1, 3))(heads), keras.layers.Permute((2, 1, 3))(turned)
        if bias is None:
            context = keras_attention.ScaledDotProductAttention()(turned, heads, turned)
        else:
            logits = keras.ops.matmul(turned, keras.ops.transpose(turned, (0, 1, 3, 2)))
            context = keras.ops.matmul(keras.layers.Softmax()(bias()(logits)), heads)
        context = keras.layers.Reshape(sequence.shape[1:])(keras.layers.Permute((2, 1, 3))(context))
        return keras.layers.LayerNormalization()(sequence + context)

    return body


LAYERS: dict[str, Callable[[Any], Any]] = {
    "`BahdanauAttention`": _attend(lambda: keras_attention.BahdanauAttention(WIDTH), is_pooling=True),
    "`LuongAttention`": _attend(
        lambda: keras_attention.LuongAttention("general", output_units=WIDTH), is_pooling=True
    ),
    "`AttentionPooling`": lambda x: keras_attention.AttentionPooling()(x),
    "`AttentionPooling` (additive, last position)": lambda x: keras_attention.AttentionPooling(
        query="last", score="additive", output_units=WIDTH
    )(x),
    "`AttentionPooling` (4 heads)": lambda x: keras_attention.AttentionPooling(
        4, WIDTH // 4, use_bias=True
    )(x),
    "`ScaledDotProductAttention`": _attend(lambda: keras_attention.ScaledDotProductAttention()),
    "`MultiHeadAttention`": _attend(lambda: keras_attention.MultiHeadAttention(4, WIDTH // 4)),
    "`SinusoidalPositionEncoding`": _encode(lambda: keras_attention.SinusoidalPositionEncoding()),
    "`LearnedPositionEmbedding`": _encode(lambda: keras_attention.LearnedPositionEmbedding(64)),
    "`RotaryEmbedding`": _position_heads(rotary=lambda: keras_attention.RotaryEmbedding()),
    "`ALiBi`": _position_heads(bias=lambda: keras_attention.ALiBi(4)),
    "`RelativePositionBias`": _position_heads(bias=lambda: keras_attention.RelativePositionBias(4)),
    "`RelativePositionBias` of an 8 x 8 window": _position_heads(
        bias=lambda: keras_attention.RelativePositionBias(4, window_size=(8, 8))
    ),
    "`keras.layers.MultiHeadAttention`": _attend(lambda: keras.layers.MultiHeadAttention(4, WIDTH // 4)),
    "`keras.layers.LSTM`": lambda x: keras.layers.LSTM(WIDTH, return_sequences=True)(x),
    "`keras.layers.GRU`": lambda x: keras.layers.GRU(WIDTH, return_sequences=True)(x),
    "`keras.layers.Bidirectional(LSTM)`": lambda x: keras.layers.Bidirectional(
        keras.layers.LSTM(WIDTH, return_sequences=True)
    )(x),
    "`Conv1D` + `BatchNormalization`": lambda x: keras.layers.ReLU()(
        keras.layers.BatchNormalization()(keras.layers.Conv1D(WIDTH, 5, padding="same")(x))
    ),
}


def build(body: Callable[[Any], Any], windows: np.ndarray) -> keras.Model:
    """Return a classifier of smartwatch windows around one layer, seeded and untrained."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(windows.shape[1:], name="window")
    mean, variance = windows.mean((0, 1)), windows.var((0, 1))
    x = keras.layers.Normalization(mean=mean, variance=variance)(inputs)
    x = keras.layers.Conv1D(WIDTH, 5, strides=2, padding="same", activation="relu")(x)
    x = body(x)
    if len(x.shape) == 3:
        x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(7, activation="softmax")(x))
