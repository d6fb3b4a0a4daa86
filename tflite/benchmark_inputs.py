"""What `benchmark` feeds to a file: the user's arrays, or random values of the right kind."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.tflite import steps

_SEED = 20240601


def random_inputs(interface: Sequence[Mapping[str, Any]], number: int = 0) -> dict[str, np.ndarray]:
    """Return seeded values by input name, the same for the same interface and number of the sample.

    Floats are standard normal, quantized integers and images use their whole range, other integers are
    0 or 1, which are valid token numbers everywhere. All-zero inputs are avoided: kernels may be quicker
    on them.
    """
    generator = np.random.default_rng(_SEED + number)
    return {spec["name"]: _random(generator, spec) for spec in interface}


def _random(generator: np.random.Generator, spec: Mapping[str, Any]) -> np.ndarray:
    kind, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
    if kind.kind == "f":
        return generator.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind not in "iu":
        raise ValueError(
            f"Input {spec['name']!r} takes {spec['dtype']}, for which there are no random values. Benchmark "
            "the part of the model behind its text layers."
        )
    if spec["scale"] or kind == np.uint8:
        limits = np.iinfo(kind)
        return generator.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return generator.integers(0, 2, shape).astype(kind)


def given_inputs(interface: Sequence[Mapping[str, Any]], given: Any, file: str) -> dict[str, np.ndarray]:
    """Return the user's first sample by input name in the file's types and order.

    Raises:
        ValueError, TypeError: naming the file, the input, what was received and the cure.
    """
    names = [spec["name"] for spec in interface]
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise ValueError(
                f"`inputs` must be a dict of arrays by input name, since {file!r} has the inputs {names}. "
                f"Received: {type(given).__name__}"
            )
        given = {names[0]: given}
    if set(given) != set(names):
        raise ValueError(
            f"`inputs` must hold one array for each input of {file!r}, which are {names}. "
            f"Received: {list(given)}. Rename the arrays."
        )
    return {spec["name"]: _fit(spec, given[spec["name"]], file) for spec in interface}


def _fit(spec: Mapping[str, Any], value: Any, file: str) -> np.ndarray:
    where = f"`inputs`, input {spec['name']!r} of {file!r}"
    values, shape, kind = np.asarray(value), tuple(spec["shape"]), np.dtype(spec["dtype"])
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{where}: must be an array of numbers. Received: dtype={values.dtype}")
    if values.ndim != len(shape) or values.shape[1:] != shape[1:] or values.shape[:1] < shape[:1]:
        wanted = ", ".join(("samples", *map(str, shape[1:]))) if shape else "no axis"
        raise ValueError(
            f"{where}: must have the shape ({wanted}) with at least {shape[0] if shape else 1} sample(s). "
            f"Received: shape={values.shape}. One sample without the first axis: pass array[None]."
        )
    values = values[: shape[0]] if shape else values
    if not np.isfinite(values).all():
        raise ValueError(f"{where}: its first sample holds NaN or infinite values. Remove or repair them.")
    if spec["scale"] and values.dtype.kind == "f":
        return steps.quantize(values, spec["scale"], spec["zero_point"], kind)
    converted = values.astype(kind)
    if kind.kind != "f" and not np.array_equal(converted, values):
        raise TypeError(
            f"{where}: must hold values that {kind} can represent. Received: dtype={values.dtype} with "
            f"values from {values.min():g} to {values.max():g}"
        )
    return converted
