"""Rules about masks in a Keras model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attention.tflite.linting import keras_graph
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.lowering import all_layers

LARGE = 1e4
"""Masks of this size set the range of an int8 tensor; scores are rarely above 100."""
LARGE_FACTOR = 6e4
"""A positive number is taken for a mask's, as in `scores - 1e9 * padding`, from this size on."""
_MASK_ARGUMENTS = ("mask", "attention_mask", "query_mask", "value_mask", "key_mask", "use_causal_mask")
_WITH_PENALTY = (
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
    keras.layers.Attention,
    keras.layers.AdditiveAttention,
    keras.layers.Softmax,
)
"""Layers of Keras that set masked scores to about -1e9."""


def lost(model: Any) -> Iterator[Finding]:
    """Layers and operations that get a mask and neither use it nor pass it on."""
    for operation, node in keras_graph.calls(model):
        if getattr(operation, "supports_masking", False) or getattr(operation, "_call_has_mask_arg", False):
            continue
        if any(keras_graph.carries_mask(tensor) for tensor in node.input_tensors):
            yield Finding(
                "KA103",
                "warning",
                keras_graph.place(operation),
                "gets a masked input and drops the mask: padded steps count from here on",
                "set supports_masking=True in a layer that keeps the time axis, hand the mask to the layers "
                "behind by their `mask` argument, or move the padding-aware layer in front",
            )


def large_negative(model: Any) -> Iterator[Finding]:
    """Numbers of -1e4 and below that are added to scores, or put in their place."""
    for layer in all_layers(model):
        if not isinstance(layer, keras.Model | keras.layers.Masking):
            for name, value in _numbers_of(layer):
                if value <= -LARGE:
                    yield _penalty(keras_graph.place(layer), f"`{name}` is {value:g}", value)
    for operation, node in keras_graph.calls(model):
        if not isinstance(operation, keras.layers.Layer):
            lowest = _lowest(operation, node)
            if lowest <= -LARGE:
                yield _penalty(keras_graph.place(operation), f"it takes the constant {lowest:g}", lowest)
        elif isinstance(operation, _WITH_PENALTY) and _is_masked(node):
            found = f"keras.layers.{type(operation).__name__} puts about -1e9 into masked scores"
            yield _penalty(keras_graph.place(operation), found, -1e9)


def _penalty(where: str, found: str, value: float) -> Finding:
    cure = (
        "a bound 30 to 50 below the scores masks as well; or keep scores and softmax in float "
        "(precision='int8' does)"
    )
    if math.isinf(value):
        return Finding(
            "KA104",
            "error",
            where,
            f"{found}: times 0, or in a row that is masked wholly, it gives NaN, and calibration fails on it",
            "a bound 30 to 50 below the scores masks as well",
        )
    return Finding(
        "KA104",
        "warning",
        where,
        f"{found}: where such scores are int8, the mask takes the whole range and the others become equal",
        cure,
    )


def _numbers_of(layer: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers among a layer's attributes: arguments by rule, and constants."""
    for name, value in vars(layer).items():
        if isinstance(value, int | float | np.floating) and not name.startswith("_"):
            yield name, float(value)


def _lowest(operation: Any, node: Any) -> float:
    """Return the lowest constant that an operation adds; a large factor counts as negative."""
    flat = keras.tree.flatten((node.arguments.args, node.arguments.kwargs))
    values = [np.asarray(value, np.float64).ravel() for value in flat if _is_constant(value)]
    joined = np.concatenate([*values, np.zeros(1)])
    joined = joined[~np.isnan(joined)]
    if type(operation).__name__ in ("Multiply", "Subtract"):
        joined = np.where(joined >= LARGE_FACTOR, -joined, joined)
    return float(joined.min())


def _is_constant(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f"
    return isinstance(value, float)


def _is_masked(node: Any) -> bool:
    kwargs = node.arguments.kwargs
    given = any(
        kwargs.get(name) is not None and kwargs.get(name) is not False
        for name in _MASK_ARGUMENTS
        if not isinstance(kwargs.get(name), list | tuple) or any(item is not None for item in kwargs[name])
    )
    return given or any(keras_graph.carries_mask(tensor) for tensor in node.input_tensors)
