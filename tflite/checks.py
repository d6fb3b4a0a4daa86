"""What is looked at before a conversion starts: faults in the model that would surface much later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_attention.tflite import manifest_entries
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.lowering import stateful
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import declared_outputs


def check_model(model: Any, batch_size: int = 1) -> None:
    """Raise on what can't be converted.

    Args:
        model: the Keras model.
        batch_size: samples that the file takes at a time.

    Raises:
        TypeError: `model` is no Keras model.
        ConversionError: naming the layer and the cure.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model` must be a keras.Model or the path of a .keras file. "
            f"Received: {type(model).__module__}.{type(model).__name__}"
        )
    if not model.built:
        raise ConversionError(
            f"Model {model.name!r} is not built: it has no weights yet. Call it once on real data, or load "
            "its weights, before converting it."
        )
    _check_weights(model)
    for layer in all_layers(model):
        _check_layer(layer, batch_size)


def _check_weights(model: Any) -> None:
    for variable in model.variables:
        if not keras.backend.is_float_dtype(variable.dtype):
            continue
        values = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        if not np.isfinite(values).all():
            count = int(np.size(values) - np.isfinite(values).sum())
            raise ConversionError(
                f"Weight {variable.path!r} of model {model.name!r} holds {count} NaN or infinite values "
                f"of {values.size}. Train again with a lower learning rate or gradient clipping, or load a "
                "checkpoint from before."
            )


def _check_layer(layer: Any, batch_size: int) -> None:
    if getattr(layer, "quantization_mode", None) is not None:
        raise ConversionError(
            f"Layer {layer.path!r} was quantized by Keras already (mode {layer.quantization_mode!r}). "
            "Convert the model as it was before `model.quantize(...)`."
        )
    if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.states is not None:
        built = stateful.variables_of(layer)[0].shape[0]
        if built != 1 or batch_size != 1:
            raise ConversionError(
                f"Layer {layer.path!r} is stateful and was built for {built} samples at a time, and the file "
                f"is to take batch_size={batch_size}: both must be 1, since a file streams one sequence. "
                "Build the model with keras.Input(batch_shape=(1, ...)) and give it these weights."
            )


def check_names(entries: Mapping[str, Any], signature: ModelSignature, model: Any) -> None:
    """Compare what `convert(manifest=...)` says with a Keras model, before any work.

    A subclassed model doesn't say what its outputs are; there, the finished file is counted against.

    Raises:
        ValueError: a name, a number of names or a normalization doesn't fit the model.
    """
    outputs = declared_outputs(model)
    if outputs:
        names = signature.output_names([spec.name for spec in outputs])
        every = (*outputs, *signature.states)
        outputs = tuple(dataclasses.replace(spec, name=n) for spec, n in zip(every, names, strict=True))
    sides = {"inputs": signature.file_inputs(), "outputs": outputs}
    for key, side in manifest_entries.SIDES.items():
        if specs := sides[side]:
            shapes = {spec.name: (None, *spec.shape) for spec in specs}
            manifest_entries.name_axes(entries, key, shapes, [spec.dtype for spec in specs])
