"""What it means to put one layer in the place of another: the new layer, its calls and its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np


@dataclasses.dataclass(frozen=True)
class Move:
    """One layer that takes the place of another.

    Attributes:
        layer: the new layer; built where it stands alone, built by its first call inside a model.
        copy_weights: copies the weights of the old layer, once the new one is built.
        call: calls the new layer with the arguments that the old one was called with.
        keeps_trainable: whether `trainable` of the old layer and its parts holds for the new one.
        takes_list: whether the new layer is built with one list of shapes.
        unmasked: arguments from whose tensors the layer of Keras takes the mask, for all calls after it.
    """

    layer: keras.layers.Layer
    copy_weights: Callable[[], None]
    call: Callable[..., Any]
    keeps_trainable: bool = True
    takes_list: bool = False
    unmasked: tuple[str, ...] = ()


def mask_of(x: Any) -> Any:
    """The mask that is attached to a tensor, or `None`."""
    return getattr(x, "_keras_mask", None)


def describe(layer: keras.layers.Layer) -> str:
    """How messages name a layer."""
    return f"`{type(layer).__name__}` layer {layer.name!r}"


def refuse(layer: keras.layers.Layer, reason: str) -> ValueError:
    """The error for a layer that has no equal."""
    return ValueError(f"The {describe(layer)} cannot be moved: {reason}")


def common_config(layer: keras.layers.Layer) -> dict[str, Any]:
    """Name, dtype policy and `trainable`, which every move keeps."""
    return {"name": layer.name, "trainable": layer.trainable, "dtype": layer.dtype_policy}


def check_plain(layer: keras.layers.Layer) -> None:
    """Raise for a layer whose weights are not what its config says: LoRA, or int8 weights."""
    for part in layer._flatten_layers():
        if getattr(part, "lora_enabled", False):
            raise refuse(
                layer, f"{part.name!r} has LoRA weights; save the model, which merges them, and load it"
            )
        if getattr(part, "quantization_mode", None) is not None:
            raise refuse(layer, f"{part.name!r} is quantized; move the float model and quantize afterwards")


def copy_variables(old: Sequence[Any], new: Sequence[Any]) -> None:
    """Copy the values of variables, one by one; the shapes have to agree."""
    for source, target in zip(old, new, strict=True):
        target.assign(keras.ops.convert_to_numpy(source).reshape(target.shape))


def copy_named(layer: keras.layers.Layer, values: Mapping[str, Any]) -> None:
    """Assign the attributes of a layer that are variables."""
    for name, value in values.items():
        getattr(layer, name).assign(np.asarray(value))


def build_alone(old: keras.layers.Layer, move: Move) -> None:
    """Build the new layer, outside of any model, for the shapes that the old one was built for."""
    config = old.get_build_config()
    shapes = config["shapes_dict"].values() if "shapes_dict" in config else config["input_shape"]
    shapes = list(shapes) if isinstance(next(iter(shapes)), (list, tuple)) else [shapes]
    shapes = [tuple(shape) for shape in shapes if shape is not None]
    move.layer.build(shapes) if move.takes_list else move.layer.build(*shapes)


def finish(old: keras.layers.Layer, move: Move) -> None:
    """Give the new layer, once it is built, what the old one has learned, and how it goes on learning."""
    move.copy_weights()
    if move.keeps_trainable:
        copy_trainable(old, move.layer)


def copy_trainable(old: keras.layers.Layer, new: keras.layers.Layer) -> None:
    """Copy `trainable` of a layer and of its parts, matched by name in order; outer ones first."""
    if old.trainable != new.trainable:
        new.trainable = old.trainable
    parts = {part.name: part for part in new._flatten_layers(include_self=False, recursive=False)}
    for part in old._flatten_layers(include_self=False, recursive=False):
        if part.name in parts:
            copy_trainable(part, parts[part.name])
