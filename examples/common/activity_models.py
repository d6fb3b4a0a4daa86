"""Two small classifiers of a window of watch samples: a Transformer, and an LSTM with additive attention.

Both take the raw window `(batch, 128, 6)` in g and rad/s under the name `window`, normalize it inside the
model with the statistics of the training recordings, and return the probabilities `(batch, 7)` under the name
`exercise`. A convolutional stem takes four samples to one position: attention works on 32 positions of 80 ms.
"""

from collections.abc import Callable

import keras
import numpy as np
from keras import layers

import keras_attention
from common import watch_data

STRIDE = 4
"""Samples per position of the attention."""


def transformer(
    mean: np.ndarray,
    variance: np.ndarray,
    *,
    width: int = 64,
    num_heads: int = 4,
    num_blocks: int = 2,
    dropout: float = 0.2,
) -> keras.Model:
    """Convolutional stem, pre-norm Transformer blocks, mean over time.

    Args:
        mean: Mean of each axis over the training recordings, `(6,)`.
        variance: Variance of each axis, `(6,)`.
        width: Channels of each position.
        num_heads: Heads of each `keras_attention.MultiHeadAttention`.
        num_blocks: Transformer blocks.
        dropout: Share dropped after attention and in the feed-forward part; half of it in the stem.

    """
    window, x = _stem(mean, variance, width, dropout / 2)
    for block in range(1, num_blocks + 1):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = keras_attention.MultiHeadAttention(num_heads, width // num_heads, name=f"attention_{block}")(y, y)
        x = x + layers.Dropout(dropout)(y)
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = layers.Dense(2 * width, activation="relu")(y)
        y = layers.Dense(width)(layers.Dropout(dropout)(y))
        x = x + layers.Dropout(dropout)(y)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(x))
    return _classifier(window, x, name="transformer")


def bahdanau(
    mean: np.ndarray, variance: np.ndarray, *, width: int = 64, units: int = 64, dropout: float = 0.3
) -> keras.Model:
    """Convolutional stem, LSTM, and `keras_attention.BahdanauAttention` over the outputs of all steps.

    Args:
        mean: Mean of each axis over the training recordings, `(6,)`.
        variance: Variance of each axis, `(6,)`.
        width: Channels of the stem.
        units: Units of the LSTM and of the attention, whose query is the last state.
        dropout: Half of this share is dropped in the stem.

    """
    window, x = _stem(mean, variance, width, dropout / 2)
    outputs, state, _ = layers.LSTM(units, return_sequences=True, return_state=True, name="lstm")(x)
    x = keras_attention.BahdanauAttention(units, name="attention")(state, outputs)
    return _classifier(window, x, name="bahdanau")


BUILDERS: dict[str, Callable[..., keras.Model]] = {"transformer": transformer, "bahdanau": bahdanau}


def with_attention(model: keras.Model) -> keras.Model:
    """A copy of the model, same weights, that also returns the scores of its last attention layer.

    Scores are `(batch, num_heads, query_length, key_length)` for the Transformer and `(batch, key_length)`
    for the LSTM.
    """
    attention = [layer.name for layer in model.layers if layer.name.startswith("attention")]
    if not attention:
        raise ValueError(f"`model` has no layer named attention*. Received: model={model.name}")
    scores = []

    # The copy is called with scores from the start: Keras 3.15 cannot use a second call of a layer that has
    # more outputs than the first.
    def call(layer, *args, **kwargs):
        if layer.name != attention[-1]:
            return layer(*args, **kwargs)
        outputs, layer_scores = layer(*args, **kwargs, return_attention_scores=True)
        scores.append(layer_scores)
        return outputs

    copy = keras.models.clone_model(model, call_function=call)
    copy.set_weights(model.get_weights())
    return keras.Model(copy.input, [*copy.outputs, *scores], name=f"{model.name}_with_attention")


def _stem(mean: np.ndarray, variance: np.ndarray, width: int, dropout: float):
    """Raw window `(batch, 128, 6)` to normalized features `(batch, 32, width)`."""
    window = keras.Input((watch_data.WINDOW, len(watch_data.AXES)), name="window")
    x = layers.Normalization(mean=mean, variance=variance, name="normalization")(window)
    for number, kernel_size in enumerate((7, 5), start=1):
        x = layers.Conv1D(
            width, kernel_size, strides=2, padding="same", use_bias=False, name=f"convolution_{number}"
        )(x)
        x = layers.ReLU()(layers.BatchNormalization(name=f"normalization_{number}")(x))
        x = layers.SpatialDropout1D(dropout)(x)
    return window, x


def _classifier(window, features, *, name: str) -> keras.Model:
    features = layers.Dropout(0.3)(features)
    exercise = layers.Dense(len(watch_data.EXERCISES), activation="softmax", name="exercise")(features)
    return keras.Model(window, exercise, name=name)
