"""Rules about the numbers in a Keras model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attention.tflite.linting import keras_graph
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.lowering import all_layers

FLOAT16_MAX = 65504.0
OUTLIER_RATIO = 100.0
"""A channel this much larger than the median leaves the others 2.5 of the 255 steps of int8."""
DEAD_VARIANCE_RATIO = 1e-3


def non_finite(model: Any) -> Iterator[Finding]:
    """NaN and infinite weights."""
    for path, values in _weights(model):
        bad = int(values.size - np.isfinite(values).sum())
        if bad:
            yield Finding(
                "KA109",
                "error",
                path,
                f"{bad} of {values.size} values are NaN or infinite",
                "train again with a lower learning rate or gradient clipping, or load an earlier checkpoint",
            )


def outlier_channels(model: Any) -> Iterator[Finding]:
    """Kernels in which a few output channels are far larger than the rest."""
    for path, values in _weights(model):
        if values.ndim < 2 or values.shape[-1] < 3 or not np.isfinite(values).all():
            continue
        largest = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
        median = float(np.median(largest))
        channels = np.flatnonzero(largest > OUTLIER_RATIO * median)
        if median > 0.0 and channels.size:
            yield Finding(
                "KA114",
                "warning",
                path,
                f"channel {_few(channels)} is up to {largest.max() / median:,.0f} times the median channel; "
                "the output shares one int8 scale, which the large channel takes",
                "look at the sensitivity report; divide the channel and multiply the layer behind by the "
                "same factor, or leave this layer in float",
            )


def dead_batch_normalization(model: Any) -> Iterator[Finding]:
    """BatchNormalization with channels whose variance is far below `epsilon` and below the others."""
    for layer in all_layers(model):
        if not isinstance(layer, keras.layers.BatchNormalization) or not layer.built:
            continue
        variance = _values(layer.moving_variance)
        limit = min(layer.epsilon, DEAD_VARIANCE_RATIO * float(np.median(variance)))
        channels = np.flatnonzero(variance < limit)
        if channels.size:
            factor = 1.0 / np.sqrt(float(variance[channels].min()) + layer.epsilon)
            yield Finding(
                "KA115",
                "warning",
                keras_graph.place(layer),
                f"channel {_few(channels)} never varied in training (variance "
                f"{variance[channels].min():.1e}, median {np.median(variance):.1e}): whatever differs on the "
                f"phone is multiplied by {factor:,.0f}",
                "prune the dead channel, or set its gamma to 0",
            )


def float16_overflow(model: Any) -> Iterator[Finding]:
    """Weights above the largest float16 number."""
    for path, values in _weights(model):
        finite = values[np.isfinite(values)]
        largest = float(np.abs(finite).max(initial=0.0))
        if largest > FLOAT16_MAX:
            yield Finding(
                "KA116",
                "warning",
                path,
                f"its largest value is {largest:g}; the GPU delegate computes in float16, up to 65504",
                "rescale the layer, or run the file on the CPU",
            )


def _weights(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    for variable in model.variables:
        if keras.backend.is_float_dtype(variable.dtype):
            yield variable.path, _values(variable)


def _values(variable: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")))


def _few(channels: np.ndarray) -> str:
    shown = ", ".join(str(channel) for channel in channels[:3])
    return shown if len(channels) <= 3 else f"{shown} and {len(channels) - 3} more"
