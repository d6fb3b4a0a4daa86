"""Rules about the sizes in a Keras model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.linting import keras_graph
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.size_prediction import predict_unrolled_bytes

DEFAULT_STEPS = 512
"""`convert`'s default for `max_unrolled_steps`."""


def open_inputs(model: Any) -> Iterator[Finding]:
    """Inputs with an open axis besides the batch."""
    for tensor in keras.tree.flatten(getattr(model, "inputs", None) or []):
        shape = tuple(tensor.shape[1:])
        if None in shape:
            yield Finding(
                "KA101",
                "warning",
                tensor.name,
                f"its shape without the batch axis is {shape}; a phone file needs fixed sizes",
                f"pass samples of the final size to `convert`, or input_shapes={{{tensor.name!r}: "
                f"{tuple(128 if size is None else size for size in shape)}}}",
            )


def unrolled_size(model: Any) -> Iterator[Finding]:
    """How large each recurrent layer gets when its steps are written out."""
    for layer in all_layers(model):
        if not isinstance(layer, keras.layers.RNN):
            continue
        shape = keras_graph.shape_when_built(layer)
        steps = shape[1] if shape is not None and len(shape) > 1 else None
        if steps is None:
            continue  # KA101 speaks of the open size
        kilobytes = predict_unrolled_bytes(layer, steps) / 1000
        message = f"{steps} steps, about {kilobytes:,.0f} kB besides the weights"
        if steps > DEFAULT_STEPS:
            yield Finding(
                "KA102",
                "warning",
                keras_graph.place(layer),
                f"{message}; more than max_unrolled_steps={DEFAULT_STEPS}, so that its loop can't be int8",
                "shorten the sequence by a strided convolution or pooling in front, or raise the limit with "
                f"max_unrolled_steps={steps}",
            )
        else:
            yield Finding(
                "KA102",
                "note",
                keras_graph.place(layer),
                message,
                "a strided convolution in front makes it shorter",
            )


def high_rank(model: Any) -> Iterator[Finding]:
    """Tensors with more than four axes between the layers."""
    for operation, node in keras_graph.calls(model):
        ranks = [len(tensor.shape) for tensor in node.outputs]
        if max(ranks, default=0) > 4:
            yield Finding(
                "KA117",
                "warning",
                keras_graph.place(operation),
                f"its output has {max(ranks)} axes; delegates take up to four",
                "merge axes with a Reshape, or split along an axis first and reshape each part",
            )
