"""A Keras model that computes in float64, to tell Keras' own rounding from a fault of the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Let each layer compute in float64, and let models take their inputs as they are."""
    del lowering
    for layer in layers:
        if keras.backend.is_float_dtype(layer.compute_dtype):
            yield Patch(layer, "_dtype_policy", keras.DTypePolicy("float64"))
        if hasattr(layer, "_convert_inputs_to_tensors"):
            yield Patch(layer, "_convert_inputs_to_tensors", list)


def variables() -> contextlib.AbstractContextManager[Any]:
    """Return the scope in which float variables are read as float64."""
    from keras.src.backend.common.variables import AutocastScope  # no public name for it

    scope: contextlib.AbstractContextManager[Any] = AutocastScope("float64")
    return scope
