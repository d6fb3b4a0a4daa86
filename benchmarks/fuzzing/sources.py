"""`python -m benchmarks.fuzzing.sources FOLDER`: the sound files that are then damaged."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

from keras_attention import MultiHeadAttention
from keras_attention import tflite


def main(folder: Path) -> None:
    """Save three models, and convert each in one precision."""
    generator = np.random.default_rng(20240701)
    keras.utils.set_random_seed(20240701)
    for name, (model, shape, precision) in _models().items():
        samples = generator.normal(size=(64, *shape)).astype(np.float32)
        model.save(folder / f"{name}.keras")
        calibration = samples if precision in ("int8", "int8_full") else None
        tflite.convert(
            model,
            folder / f"{name}.tflite",
            precision=precision,
            calibration=calibration,
            evaluation=samples,
            manifest={"labels": ["rest", "walk", "run"]},
            verbose=0,
        )


def _models() -> dict[str, tuple[Any, tuple[int, ...], Any]]:
    window = keras.Input((11, 5), name="window")
    x = layers.Dense(16)(window)
    normed = layers.LayerNormalization()(x)
    x = layers.GlobalAveragePooling1D()(x + MultiHeadAttention(2, 8)(normed, normed))
    transformer = keras.Model(window, layers.Dense(3, activation="softmax", name="classes")(x))
    steps = keras.Input((7, 3), name="steps")
    x = layers.Conv1D(8, 3, padding="same", activation="relu")(steps)
    recurrent = keras.Model(steps, layers.Dense(3, name="scores")(layers.LSTM(11)(x)))
    image = keras.Input((13, 17, 3), name="image")
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, strides=2)(image)))
    x = layers.GlobalAveragePooling2D()(layers.DepthwiseConv2D(3, activation="relu")(x))
    convolution = keras.Model(image, layers.Dense(3, name="scores")(x))
    return {
        "transformer": (transformer, (11, 5), "int8"),
        "recurrent": (recurrent, (7, 3), "float32"),
        "convolution": (convolution, (13, 17, 3), "int8_full"),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
