"""Sums in which one side is broadcast stay sums.

Keras takes an addend with a single axis longer than 1 for a bias. With one sample at a time that also
fits (1, steps, 1) added to (1, steps, channels): the converter refuses the form that comes of it, and
where the numbers of steps and channels are equal the addend lands on the wrong axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace the backend's `add` where the addend has several axes."""
    del layers, lowering
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy as backend  # `keras.ops.add` looks `add` up there

    original = backend.add

    def add(x1: Any, x2: Any) -> Any:
        ranks = [len(getattr(x, "shape", ())) for x in (x1, x2)]
        if ranks[0] < 2 or ranks[1] < 2:
            return original(x1, x2)
        dtype = keras.backend.result_type(x1.dtype, x2.dtype)
        return tf.add(keras.ops.cast(x1, dtype), keras.ops.cast(x2, dtype))

    yield Patch(backend, "add", add)
