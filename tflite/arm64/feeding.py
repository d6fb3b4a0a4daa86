"""The user's samples in the form in which the file takes them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.tflite import samples as user_samples
from keras_attention.tflite import steps
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec


def take(data: Any, inputs: Sequence[Mapping[str, Any]], most: int) -> list[np.ndarray]:
    """Return one array per input, the first axis counting runs of the file, at most so many.

    Args:
        data: as `calibration` of `convert` takes it, real values where the file takes steps of a scale.
        inputs: of the file, as `graph.interface` returns them.
        most: how many runs at most, evenly spread over the samples.

    Raises:
        TypeError, ValueError, OSError: naming the input and the cure.
    """
    specs = tuple(
        TensorSpec(
            spec["name"],
            tuple(spec["shape"][1:]),
            spec["dtype"] if spec["scale"] is None else "float32",
        )
        for spec in inputs
    )
    size = inputs[0]["shape"][0] if inputs[0]["shape"] else 1
    structure = list(range(len(specs)))
    checked = user_samples.check_samples("data", data, ModelSignature(specs, structure), spread=False)
    chosen = checked.take(most * size)
    return [_runs(chosen.inputs[spec["name"]], spec, size) for spec in inputs]


def _runs(values: np.ndarray, spec: Mapping[str, Any], size: int) -> np.ndarray:
    """Cut samples into runs of `size`, the last sample repeated to fill, and quantize them."""
    missing = -len(values) % size
    filled = np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
    runs = filled.reshape(-1, *spec["shape"])
    if spec["scale"] is None:
        return runs
    return steps.quantize(runs, spec["scale"], spec["zero_point"], spec["dtype"])
