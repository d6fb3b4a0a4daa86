"""Walking a Keras model: the calls of its functional graphs, and whose class a layer is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.lowering import all_layers

_LIBRARIES = ("keras.", "keras_attention.")


def calls(model: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (layer or operation, node) for each call in the model's functional graphs, nested ones too.

    A subclassed model has no graph until it is traced, so that its own calls are not seen; those of
    functional models inside it are.
    """
    for layer in all_layers(model):
        graph = layer._functional if isinstance(layer, keras.Sequential) else layer
        if not isinstance(graph, keras.Model) or not hasattr(graph, "_nodes_by_depth"):
            continue
        for nodes in graph._nodes_by_depth.values():
            for node in nodes:
                if not node.is_input:
                    yield node.operation, node


def place(operation: Any) -> str:
    """Return how a finding names a layer or an operation such as `x + 1`."""
    if isinstance(operation, keras.layers.Layer):
        return str(operation.path or operation.name)  # a layer without weights may have no path
    return f"{type(operation).__name__} ({operation.name})" if operation.name else type(operation).__name__


def is_of_library(kind: type | Any) -> bool:
    """Tell whether a class or function comes with Keras or with these layers."""
    return str(getattr(kind, "__module__", "")).startswith(_LIBRARIES)


def carries_mask(tensor: Any) -> bool:
    """Tell whether a symbolic tensor has Keras' implicit mask attached."""
    return getattr(tensor, "_keras_mask", None) is not None


def shape_when_built(layer: Any) -> tuple[int | None, ...] | None:
    """Return the shape of the layer's first input as it was built, or None where that is not known."""
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    shape = next(iter(shapes.values()), None)
    if isinstance(shape, tuple | list) and all(size is None or isinstance(size, int) for size in shape):
        return tuple(shape)
    return None
