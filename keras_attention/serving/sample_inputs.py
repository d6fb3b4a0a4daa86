"""Seeded inputs in the range that a model expects, for a comparison without samples."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.tflite import fidelity
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.samples import Samples


def make(model: Any, signature: ModelSignature, count: int) -> Samples:
    """Return random samples: what the first layer normalizes or scales gets values of its range.

    Bytes take their whole range where the model has no Embedding; else integers are valid tokens.
    """
    base = fidelity.random_samples(signature, model, count)
    has_tokens = any(isinstance(layer, keras.layers.Embedding) for layer in all_layers(model))
    generator = np.random.default_rng(1)
    inputs = {}
    for spec, layer in zip(signature.inputs, _first_layers(model, signature), strict=True):
        values = base.inputs[spec.name]
        if values.dtype == np.uint8 and not has_tokens:
            values = generator.integers(0, 256, values.shape, np.uint8)
        elif values.dtype.kind == "f" and layer is not None:
            values = _in_range_of(layer, values).astype(values.dtype)
        inputs[spec.name] = values
    return Samples(inputs)


def _first_layers(model: Any, signature: ModelSignature) -> list[Any]:
    """Return the layer that takes each input where it is one that scales it; else None."""
    tensors = getattr(model, "inputs", None)
    if not tensors or len(tensors) != len(signature.inputs):
        return [None] * len(signature.inputs)
    struct = getattr(getattr(model, "_functional", model), "_inputs_struct", None)  # Sequential wraps one
    positions = keras.tree.flatten(signature.structure)
    leaves = keras.tree.flatten(struct) if struct is not None else list(tensors)
    by_position = dict(zip(positions, leaves, strict=True))
    return [_scaling_layer(by_position[index]) for index in range(len(positions))]


def _scaling_layer(tensor: Any) -> Any:
    for node in tensor._keras_history.operation._outbound_nodes:
        if isinstance(node.operation, keras.layers.Normalization | keras.layers.Rescaling):
            return node.operation
    return None


def _in_range_of(layer: Any, values: np.ndarray) -> np.ndarray:
    """Turn standard normal values into ones that the layer takes to about -1 to 1."""
    if isinstance(layer, keras.layers.Rescaling):
        scale, offset = np.asarray(layer.scale), np.asarray(layer.offset)
        return np.asarray((np.tanh(values) - offset) / scale)
    if layer.invert or layer.mean is None:
        return values
    mean, variance = (keras.ops.convert_to_numpy(number) for number in (layer.mean, layer.variance))
    return np.asarray(mean + np.sqrt(variance) * values)
