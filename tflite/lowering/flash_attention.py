"""Attention layers that demand a flash kernel, which TensorFlow lacks, take the plain form.

They were trained on JAX or torch; the file computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch

_ATTRIBUTES = ("flash_attention", "_flash_attention")
"""Ours, and that of keras.layers.MultiHeadAttention and GroupQueryAttention."""


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Take the demand off every layer that has it."""
    for layer in layers:
        for attribute in _ATTRIBUTES:
            if vars(layer).get(attribute) is True:
                lowering.note(layer, "plain attention instead of a flash kernel")
                yield Patch(layer, attribute, False)
