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
