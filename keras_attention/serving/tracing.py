"""From a Keras model to a frozen TensorFlow graph that the ONNX converter understands.

Keras' own exporter hands over a function whose captured constants (the mean and variance of a
`Normalization` layer are such) become inputs of the ONNX file that nobody can feed, and exact GELU an
operator that ONNX doesn't have. Here the graph is frozen first, with all constants in it, and rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_attention.serving import graph_rewrites
from keras_attention.tflite.lowering import float32_form
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import output_names


@dataclass(frozen=True)
class FrozenGraph:
    """A graph without variables.

    Attributes:
        content: a serialized `GraphDef`.
        inputs: names of the tensors that are fed, in the order of the signature.
        outputs: names of the tensors that are the answers, in the order of `names`.
        names: of the outputs, as Keras has them.
    """

    content: bytes
    inputs: list[str]
    outputs: list[str]
    names: list[str]


def freeze(model: Any, signature: ModelSignature, batch_size: int | None) -> FrozenGraph:
    """Trace the model on the TensorFlow backend; with `batch_size` None the batch axis stays open."""
    import tensorflow as tf
    from tensorflow.python.framework import convert_to_constants  # no public name for it

    names: list[str] = []

    def serve(*tensors: Any) -> list[Any]:
        outputs = model(signature.pack(tensors), training=False)
        names[:] = output_names(model, outputs)
        return [tf.identity(output) for output in keras.tree.flatten(outputs)]

    specs = [
        tf.TensorSpec((batch_size, *spec.shape), spec.dtype, name=f"input_{index}")
        for index, spec in enumerate(signature.inputs)
    ]
    with float32_form(model):
        traced = tf.function(serve, input_signature=specs).get_concrete_function()
    for collection in traced.graph.collections:  # the freezing warns of what it can't copy of them
        traced.graph.clear_collection(collection)
    # Loops stay whole: the converter makes ONNX' own LSTM and Loop of them.
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        traced, lower_control_flow=False, aggressive_inlining=True
    )
    graph = frozen.graph.as_graph_def()
    graph_rewrites.rewrite(graph)
    return FrozenGraph(graph.SerializeToString(), _names(frozen.inputs), _names(frozen.outputs), list(names))


def _names(tensors: Sequence[Any]) -> list[str]:
    return [tensor.name for tensor in tensors]
