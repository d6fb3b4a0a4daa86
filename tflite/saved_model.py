"""From a Keras model to a SavedModel, which `tensorflow_converter` makes a float .tflite file of.

The model is traced wherever it lives, on the TensorFlow backend. Inputs and outputs are numbered on the way,
so that no name can be changed by a tool in between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from keras_attention.tflite.lowering import mobile_form
from keras_attention.tflite.lowering import stateful
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import output_names
from keras_attention.tflite.tensorflow_converter import ENDPOINT


def export_saved_model(
    model: Any, signature: ModelSignature, folder: Path, max_unrolled_steps: int
) -> tuple[list[str], Lowering]:
    """Write the mobile form of the model, for a fixed number of samples at a time, as a SavedModel.

    Returns:
        The names of the outputs in order, and the record of the lowering.
    """
    import tensorflow as tf

    names: list[str] = []
    holders = stateful.layers_of(model)

    def serve(*tensors: Any) -> dict[str, Any]:
        given = iter(tensors[len(signature.inputs) :])
        for layer in holders:
            lowering.states[id(layer)] = [next(given) for _ in stateful.variables_of(layer)]
        outputs = model(signature.pack(tensors), training=False)
        names[:] = signature.output_names(output_names(model, outputs))
        states = [state for layer_states in lowering.states.values() for state in layer_states]
        flat = [tf.identity(output) for output in (*keras.tree.flatten(outputs), *states)]
        return {f"output_{index}": output for index, output in enumerate(flat)}

    specs = [
        tf.TensorSpec((signature.batch_size, *spec.shape), spec.dtype, name=f"input_{index}")
        for index, spec in enumerate(signature.file_inputs())
    ]
    module = tf.Module()
    with mobile_form(model, max_unrolled_steps) as lowering:
        traced = tf.function(serve, input_signature=specs).get_concrete_function()
        # Only what the trace reads is saved: tracking the model itself would trace it a second time,
        # with an open batch size.
        module.variables_read = list(traced.graph.variables)
        tf.saved_model.save(module, str(folder), signatures={ENDPOINT: traced})
    return names, lowering
