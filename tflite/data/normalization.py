"""What a model itself says about its inputs: the statistics of Normalization layers that they feed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite.model_signature import ModelSignature


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation that a layer was given or has seen in training.

    Attributes:
        layer: its name.
        mean: in a shape that broadcasts against a batch of the input.
        std: in the same shape.
    """

    layer: str
    mean: np.ndarray
    std: np.ndarray


def read_statistics(model: Any, signature: ModelSignature) -> dict[str, Statistics]:
    """Return input name -> statistics of the Normalization layer that it goes into, where there is one.

    Layers inside a model inside the model are found too. A layer that was never adapted (mean 0, variance 1)
    says nothing, and so does a subclassed model.
    """
    import keras

    if not getattr(model, "inputs", None):
        return {}
    functional = getattr(model, "_functional", None) or model  # a Sequential model wraps a functional one
    tensors = keras.tree.flatten(functional._inputs_struct)
    positions = keras.tree.flatten(signature.structure)
    found = {}
    for tensor, position in zip(tensors, positions, strict=True):
        statistics = _of_tensor(functional, tensor)
        if statistics is not None:
            found[signature.inputs[position].name] = statistics
    return found


def _of_tensor(model: Any, tensor: Any) -> Statistics | None:
    for operation in model.operations:
        for node in operation._inbound_nodes:
            if not any(argument is tensor for argument in node.input_tensors):
                continue
            statistics = _of_layer(operation)
            if statistics is not None:
                return statistics
    return None


def _of_layer(operation: Any) -> Statistics | None:
    import keras

    if isinstance(operation, keras.Model):
        functional = getattr(operation, "_functional", None) or operation
        inputs = getattr(functional, "inputs", None) or []
        return _of_tensor(functional, inputs[0]) if len(inputs) == 1 else None
    if not isinstance(operation, keras.layers.Normalization) or operation.invert or operation.mean is None:
        return None
    mean = keras.ops.convert_to_numpy(operation.mean).astype(np.float64)
    variance = keras.ops.convert_to_numpy(operation.variance).astype(np.float64)
    if np.all(mean == 0.0) and np.all(variance == 1.0):
        return None
    return Statistics(operation.name, mean, np.sqrt(variance))
