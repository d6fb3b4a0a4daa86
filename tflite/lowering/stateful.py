"""Stateful recurrent layers: their state becomes an input and an output of the file.

A file keeps nothing between two calls. What Keras holds in a variable is handed in with each sample,
zeros to start with, and the state after it is handed out, to be handed in again with the next one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def layers_of(model: Any) -> list[Any]:
    """Return the model's stateful recurrent layers, each once, in the order in which the model holds them."""
    found = {id(layer): layer for layer in model._flatten_layers(include_self=True, recursive=True)}
    return [
        layer
        for layer in found.values()
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.states is not None
    ]


def variables_of(layer: Any) -> list[Any]:
    """Return the layer's states in one list, cells of a stack one after the other (LSTM: h, then c)."""
    return list(keras.tree.flatten(layer.states))


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Let every stateful layer take its state from `lowering.states` and leave the next one there."""
    for layer in layers:
        if isinstance(layer, keras.layers.RNN) and layer.stateful:
            yield Patch(layer, "call", functools.partial(_call, layer, lowering))
            yield Patch(layer, "stateful", False)


def _call(
    layer: Any,
    lowering: Lowering,
    sequences: Any,
    initial_state: Any = None,
    mask: Any = None,
    training: bool = False,
) -> Any:
    """Stand in for `RNN.call`."""
    if initial_state is not None:
        raise ConversionError(
            f"Layer {layer.path!r} is stateful and is handed an initial_state as well, so that its own state "
            "is never read. Set stateful=False, or hand it no state."
        )
    given = keras.tree.pack_sequence_as(layer.states, lowering.states[id(layer)])
    returns = layer.return_state
    vars(layer)["return_state"] = True
    try:
        output, *states = type(layer).call(
            layer, sequences, initial_state=given, mask=mask, training=training
        )
    finally:
        vars(layer)["return_state"] = returns
    lowering.states[id(layer)] = list(keras.tree.flatten(states))
    done = lowering.changes.get(layer.path)
    made = "state made an input and an output"
    lowering.changes[layer.path] = made if done is None else f"{done}, {made}"
    return (output, *states) if returns else output


def read(model: Any) -> list[np.ndarray]:
    """Return the present states of the model's stateful layers, one array per state."""
    return [
        np.array(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")))
        for layer in layers_of(model)
        for variable in variables_of(layer)
    ]


def reset(model: Any) -> None:
    """Set every state to zeros; Keras' own `reset_state` can't reset the states of stacked cells."""
    for layer in layers_of(model):
        for variable in variables_of(layer):
            variable.assign(keras.ops.zeros(variable.shape, variable.dtype))


@contextlib.contextmanager
def kept(model: Any) -> Iterator[None]:
    """Give the model's states back, as they were before, after the `with` block."""
    variables = [variable for layer in layers_of(model) for variable in variables_of(layer)]
    before = [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
