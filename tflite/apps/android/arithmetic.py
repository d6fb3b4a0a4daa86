"""Numbers that prove the app's arithmetic: what Python makes of raw values, for the check at an app's start.

Recorded samples hardly ever lie in the middle between two steps or beyond a type's limits, so golden pairs
can't tell one rounding from another.
"""

from __future__ import annotations

import numpy as np

from keras_attention.tflite import steps
from keras_attention.tflite.apps.android import shapes
from keras_attention.tflite.apps.description import Tensor

MOST = 4_096
"""Values at most for one input."""
_ULPS = 4
"""How many neighbours of a raw value are tried for one that is normalized to just the wanted number."""


def rows(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return raw values of an input, float32, and what the file must get for each: steps, or floats.

    The value at place n is for entry n % width of the last axis. None where raw floats go in as they are.
    """
    scaling = tensor.normalization
    if not shapes.is_float(tensor) or (scaling is None and not tensor.scale):
        return np.zeros(0, np.float32), np.zeros(0)
    wanted = _wanted(tensor)
    width = 1 if scaling is None else tensor.shape[-1]
    places = np.arange(min(MOST, width * max(1, min(len(wanted), MOST // width))))
    targets = wanted[(places // width + places) % len(wanted)]
    if scaling is None:
        raw = targets
    else:
        mean, std = (np.asarray(values)[places % width] for values in (scaling.mean, scaling.std))
        raw = _raw(targets, mean, std)
    value = normalized(tensor, raw)
    raw = np.where(np.isfinite(value), raw, np.float32(0))
    return raw, stored(tensor, raw)


def normalized(tensor: Tensor, raw: np.ndarray) -> np.ndarray:
    """Return float32((raw - mean) / std) in double precision, for values that start at entry 0."""
    if tensor.normalization is None:
        return raw
    places = np.arange(raw.size) % tensor.shape[-1]
    mean, std = (
        np.asarray(values)[places] for values in (tensor.normalization.mean, tensor.normalization.std)
    )
    with np.errstate(over="ignore"):
        return np.asarray((raw.astype(np.float64) - mean) / std, np.float32)


def stored(tensor: Tensor, raw: np.ndarray) -> np.ndarray:
    """Return what the file gets for raw values that start at entry 0: steps, or floats as doubles."""
    value = normalized(tensor, raw)
    if not tensor.scale:
        return value.astype(np.float64)
    return steps.quantize(value, tensor.scale, tensor.zero_point or 0, tensor.dtype).astype(np.float64)


def _wanted(tensor: Tensor) -> np.ndarray:
    """Return normalized numbers worth trying, float32."""
    if not tensor.scale:
        return np.array([0.1, -1.7, 3.3, 1000.1, -1e-3, 0.7], np.float32)
    scale, limits = tensor.scale, np.iinfo(tensor.dtype)
    low, high = (int(limit) - (tensor.zero_point or 0) for limit in (limits.min, limits.max))
    # Half a step is exact in float32 at any scale; other middles only nearly, which division in float misses.
    middles = np.float32((np.linspace(low, high, 11).round() + 0.5) * scale)
    return np.concatenate(
        [
            np.float32([scale / 2, -scale / 2, 0.7 * scale, -0.7 * scale, 0.0]),
            np.float32([(low - 3.3) * scale, (high + 3.3) * scale, -1e30, 1e30]),
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, np.float32(-np.inf)),
        ]
    )


def _raw(targets: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return float32 raw values that are normalized to the targets, or next to them where there is none."""
    with np.errstate(over="ignore"):
        start = np.asarray(targets.astype(np.float64) * std + mean, np.float32)
    found = start.copy()
    missing = np.asarray((found - mean) / std, np.float32) != targets
    for side in (-np.inf, np.inf):
        candidate = start
        for _ in range(_ULPS):
            candidate = np.nextafter(candidate, np.float32(side))
            with np.errstate(over="ignore", invalid="ignore"):
                fits = np.asarray((candidate - mean) / std, np.float32) == targets
            found = np.where(missing & fits, candidate, found)
            missing &= ~fits
    return found
