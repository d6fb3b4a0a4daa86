"""keras-hub's `TransformerEncoder` as `TransformerEncoderBlock`, and back. keras-hub is imported by its user."""

from __future__ import annotations

import keras

from keras_attention.migration.moves import Move


def find(layer: keras.layers.Layer) -> Move | None:
    return None


def find_back(layer: keras.layers.Layer) -> Move | None:
    return None
