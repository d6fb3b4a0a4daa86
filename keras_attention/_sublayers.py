"""Layers that are arguments of layers: how they stand in a config."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras


def serialize(layer: Any) -> Any:
    """The layer as a value of a config, which JSON takes; `None` stays `None`."""
    if layer is None:
        return None
    keras.saving.serialize_keras_object(layer)
    # Where a model is saved, Keras marks what it meets a second time: so a layer that several others hold is
    # read as one again.
    serialized = keras.saving.serialize_keras_object(layer)
    # The layer that holds it builds it: the config is the same before and after.
    return {name: value for name, value in serialized.items() if name != "build_config"}


def revive(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The config with layers in place of their serialized forms, for the arguments of these names."""
    return {
        name: keras.saving.deserialize_keras_object(value) if name in names else value
        for name, value in config.items()
    }
