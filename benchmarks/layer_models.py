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


def _heads(**options: Callable[[], Any]) -> Callable[[Any], Any]:
    """Multi-head attention with layers as options, each given as a function that makes it."""
    return _attend(
        lambda: keras_attention.MultiHeadAttention(
            4, WIDTH // 4, **{n: make() for n, make in options.items()}
        )
    )


def _decode(sequence: Any) -> Any:
    """The second half of a sequence, which attends to itself and to the first half."""
    half = sequence.shape[1] // 2
    block = keras_attention.TransformerDecoderBlock(2 * WIDTH, 4)
    return block(sequence[:, half:], sequence[:, :half])


def _attend_grid(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Attention over the sequence folded into rows of eight steps."""

    def body(sequence: Any) -> Any:
        grid = keras.layers.Reshape((-1, 8, WIDTH))(sequence)
        attended = keras.layers.Reshape(sequence.shape[1:])(make()(grid))
        return keras.layers.LayerNormalization()(sequence + attended)

    return body


def _weigh_grid(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """A gate over the sequence folded into rows of eight steps."""

    def body(sequence: Any) -> Any:
        grid = keras.layers.Reshape((-1, 8, WIDTH))(sequence)
        return keras.layers.Reshape(sequence.shape[1:])(make()(grid))

    return body


def _on_grid(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """A layer of images on the sequence folded into eight rows of eight steps, and unfolded again."""

    def body(sequence: Any) -> Any:
        x = make()(keras.layers.Reshape((-1, 8, WIDTH))(sequence))
        return x if len(x.shape) == 3 else keras.layers.Reshape((-1, x.shape[-1]))(x)

    return body


def _answer(make: Callable[[], Any], num_facts: int) -> Callable[[Any], Any]:
    """The last state as a question about the others, pooled to so many facts."""

    def body(sequence: Any) -> Any:
        facts = keras.layers.MaxPooling1D(sequence.shape[1] // num_facts)(sequence)
        return make()(sequence[:, -1], facts)

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
    "`AttentionPooling` (4 heads)": lambda x: keras_attention.AttentionPooling(4, WIDTH // 4, use_bias=True)(
        x
    ),
    "`ScaledDotProductAttention`": _attend(lambda: keras_attention.ScaledDotProductAttention()),
    "`MultiHeadAttention`": _attend(lambda: keras_attention.MultiHeadAttention(4, WIDTH // 4)),
    "`MultiHeadAttention` with two key heads and norms": _attend(
        lambda: keras_attention.MultiHeadAttention(
            4, WIDTH // 4, num_key_value_heads=2, use_query_key_norm=True
        )
    ),
    "`SinusoidalPositionEncoding`": _encode(lambda: keras_attention.SinusoidalPositionEncoding()),
    "`LearnedPositionEmbedding`": _encode(lambda: keras_attention.LearnedPositionEmbedding(64)),
    "`RotaryEmbedding`": _heads(rotary=lambda: keras_attention.RotaryEmbedding()),
    "`ALiBi`": _heads(position_bias=lambda: keras_attention.ALiBi(4)),
    "`RelativePositionBias`": _heads(position_bias=lambda: keras_attention.RelativePositionBias(4)),
    "`RelativePositionBias` of an 8 x 8 window": _heads(
        position_bias=lambda: keras_attention.RelativePositionBias(4, window_size=(8, 8))
    ),
    "`TransformerEncoderBlock`": lambda x: keras_attention.TransformerEncoderBlock(2 * WIDTH, 4)(x),
    "`TransformerEncoderBlock` with RMS norm and SwiGLU": lambda x: keras_attention.TransformerEncoderBlock(
        2 * WIDTH, 4, normalization="rms", activation="swiglu", use_bias=False
    )(x),
    "`TransformerDecoderBlock`": _decode,
    "`LocalAttention`": _attend(lambda: keras_attention.LocalAttention(4, WIDTH // 4, 8)),
    "`LocalAttention`, a global token": _attend(
        lambda: keras_attention.LocalAttention(4, WIDTH // 4, 8, num_global_tokens=1)
    ),
    "`LinearAttention`": _attend(lambda: keras_attention.LinearAttention(4, WIDTH // 4)),
    "`LinearAttention`, Performer": _attend(
        lambda: keras_attention.LinearAttention(4, WIDTH // 4, "performer")
    ),
    "`SparseAttention`": _attend(lambda: keras_attention.SparseAttention(4, WIDTH // 4, 8)),
    "`SparseAttention`, top-k blocks": _attend(
        lambda: keras_attention.SparseAttention(4, WIDTH // 4, 8, "top_k")
    ),
    "`AxialAttention`": _attend_grid(lambda: keras_attention.AxialAttention(4, WIDTH // 4)),
    "`SqueezeExcite`": lambda x: keras_attention.SqueezeExcite()(x),
    "`SqueezeExcite`, one layer": lambda x: keras_attention.SqueezeExcite(
        gate_activation="hard_sigmoid", use_bottleneck=False
    )(x),
    "`EfficientChannelAttention`": lambda x: keras_attention.EfficientChannelAttention()(x),
    "`ChannelAttention`": lambda x: keras_attention.ChannelAttention()(x),
    "`SpatialAttention`": lambda x: keras_attention.SpatialAttention()(x),
    "`CBAM`": lambda x: keras_attention.CBAM()(x),
    "`GlobalContext`": lambda x: keras_attention.GlobalContext()(x),
    "`GlobalContext`, added": lambda x: keras_attention.GlobalContext(fusion="add")(x),
    "`CoordinateAttention`": _weigh_grid(lambda: keras_attention.CoordinateAttention()),
    "`WindowAttention`": _attend_grid(lambda: keras_attention.WindowAttention(4, WIDTH // 4, 4)),
    "`WindowAttention`, shifted": _attend_grid(lambda: keras_attention.WindowAttention(4, WIDTH // 4, 4, 2)),
    "`WindowAttention`, shifted and padded": _attend_grid(
        lambda: keras_attention.WindowAttention(4, WIDTH // 4, 3, 1)
    ),
    "`SwinBlock`": _on_grid(lambda: keras_attention.SwinBlock(2 * WIDTH, 4, 4, 2)),
    "`PatchEmbedding`": _on_grid(
        lambda: keras_attention.PatchEmbedding(2, WIDTH, use_class_token=True, use_position_embedding=True)
    ),
    "`PatchMerging`": _on_grid(lambda: keras_attention.PatchMerging()),
    "`ViTBlock`": lambda x: keras_attention.ViTBlock(2 * WIDTH, 4)(x),
    "`MemoryAttention`": _attend(lambda: keras_attention.MemoryAttention(4, WIDTH // 4, num_slots=8)),
    "`MemoryNetwork`": _answer(lambda: keras_attention.MemoryNetwork(WIDTH, max_facts=16), 16),
    "`DynamicMemory`": _answer(lambda: keras_attention.DynamicMemory(WIDTH), 16),
    "`DynamicMemory` (GRU over 8 facts)": _answer(
        lambda: keras_attention.DynamicMemory(WIDTH, episode="gru"), 8
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
