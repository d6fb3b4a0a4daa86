"""Layers that compute in half or double precision compute in float32 on the phone.

The CPU runtime has no half precision kernels. The variables of a mixed policy are float32 anyway;
those of a pure float16, bfloat16 or float64 layer are cast where they are read, which folds away.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch

FLOATS = ("float16", "bfloat16", "float64")


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace each policy that computes in another float type than float32."""
    counts: collections.Counter[str] = collections.Counter()
    for layer in layers:
        policy = layer.dtype_policy
        if policy.compute_dtype in FLOATS and policy.quantization_mode is None:
            counts[policy.name] += 1
            yield Patch(layer, "_dtype_policy", keras.DTypePolicy("float32"))
    for name, count in counts.items():
        lowering.changes[f"policy {name}"] = f"{count} layers compute in float32"


def float32_variables() -> contextlib.AbstractContextManager[Any]:
    """Return the scope in which float variables of any type are read as float32."""
    from keras.src.backend.common.variables import AutocastScope  # no public name for it

    scope: contextlib.AbstractContextManager[Any] = AutocastScope("float32")
    return scope
