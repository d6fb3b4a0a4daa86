"""Rules about whether a Keras model can be saved, and loaded on another machine."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.linting import keras_graph
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.lowering import all_layers

_OF_EVERY_LAYER = ("self", "name", "dtype", "trainable", "activity_regularizer", "autocast")
_FUNCTIONS = ("activation", "recurrent_activation")


def config_round_trip(model: Any) -> Iterator[Finding]:
    """Layers of the user's whose arguments don't come back through get_config and from_config."""
    for layer in _own_layers(model):
        cure = "override get_config: return {**super().get_config(), 'argument': self.argument, ...}"
        try:
            config = layer.get_config()
        except Exception as error:  # the user's code, or Keras' refusal: that is the finding
            yield Finding(
                "KA106", "warning", keras_graph.place(layer), f"get_config fails: {_first_line(error)}", cure
            )
            continue
        missing = sorted(set(_arguments(type(layer))) - set(config))
        if missing:
            yield Finding(
                "KA106",
                "warning",
                keras_graph.place(layer),
                f"its __init__ takes {', '.join(map(repr, missing))}, which get_config doesn't return",
                cure,
            )
        try:
            type(layer).from_config(config)
        except Exception as error:  # as above
            message = f"from_config(get_config()) fails: {_first_line(error)}"
            yield Finding("KA106", "warning", keras_graph.place(layer), message, cure)


def unregistered(model: Any) -> Iterator[Finding]:
    """Classes and activation functions of the user's that a .keras file can't name."""
    seen: set[Any] = set()
    for layer in all_layers(model):
        own: list[Any] = [] if keras_graph.is_of_library(type(layer)) else [type(layer)]
        for name in _FUNCTIONS:
            function = vars(layer).get(name)
            if inspect.isfunction(function) and not keras_graph.is_of_library(function):
                own.append(function)
        for item in own:
            if item in seen or ">" in keras.saving.get_registered_name(item):
                continue
            seen.add(item)
            if keras.saving.get_registered_object(item.__name__) is item:
                continue  # registered by keras.saving.get_custom_objects()
            yield Finding(
                "KA107",
                "warning",
                keras_graph.place(layer),
                f"{item.__name__} is not registered: the .keras file can't be loaded without custom_objects",
                '@keras.saving.register_keras_serializable(package="yours") above its definition, '
                "and import that module before loading",
            )


def lambdas(model: Any) -> Iterator[Finding]:
    """Lambda layers, whose code would have to be run to load the file."""
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.Lambda):
            yield Finding(
                "KA108",
                "warning",
                keras_graph.place(layer),
                "its Python code is stored in the .keras file, which loads only where code is trusted",
                "use keras.ops on the tensors directly, or a registered layer",
            )


def _own_layers(model: Any) -> Iterator[Any]:
    for layer in all_layers(model):
        if not keras_graph.is_of_library(type(layer)):
            yield layer


def _arguments(kind: Any) -> list[str]:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and parameter.name not in _OF_EVERY_LAYER
    ]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no text'}"
