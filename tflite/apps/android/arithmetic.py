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
_COLOURS = np.array(
    [
        [255, 0, 0, 255],
        [0, 255, 0, 255],
        [0, 0, 255, 255],
        [13, 101, 211, 7],
        [251, 127, 2, 128],
        [1, 2, 3, 0],
    ]
)
"""Red, green, blue, alpha."""
_ULPS = 4
"""How many neighbours of a raw value are tried for one that is normalized to just the wanted number."""


def rows(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return raw values of an input, float32, and what the file must get for each: steps, or floats.

    The value at place n is for entry n % width of the last axis. None where raw floats go in as they are,
    or choose rows of a table.
    """
    scaling = tensor.normalization
    if not shapes.is_float(tensor) or tensor.below is not None or (scaling is None and not tensor.scale):
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


def pixels(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels 0xAARRGGBB and what the file must get for each, all channels: every grey, and colours."""
    levels = np.arange(256)
    greys = np.stack([levels, levels, levels, np.full(256, 255)], axis=-1)
    rows = np.concatenate([greys, _COLOURS])
    argb = rows[:, 3] << 24 | rows[:, 0] << 16 | rows[:, 1] << 8 | rows[:, 2]
    if tensor.shape[-1] == 1:  # as Pillow's "L"
        channels = (rows[:, :1] * 19595 + rows[:, 1:2] * 38470 + rows[:, 2:3] * 7471 + 32768) >> 16
    else:
        channels = rows[:, : tensor.shape[-1]]
    return argb, of_bytes(tensor, channels.ravel())


def of_bytes(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Return what the file must get for 8-bit values of an image that start at entry 0."""
    low, high = tensor.pixel_range or (0.0, 255.0)
    real = low + (high - low) * values.astype(np.float64) / 255.0
    if shapes.is_float(tensor):
        return stored(tensor, real.astype(np.float32))
    limits = np.iinfo(tensor.dtype)
    return np.clip(np.round(real), limits.min, limits.max)


def as_bytes(tensor: Tensor, given: np.ndarray, raw: np.ndarray) -> bool:
    """Tell whether an image is one of 8-bit pixels, up to rounding.

    Args:
        tensor: the input.
        given: what the file got.
        raw: the same as raw values.
    """
    if not shapes.takes_pixels(tensor) or tensor.pixel_range is None:
        return False
    low, high = tensor.pixel_range
    levels = np.round((raw.astype(np.float64).ravel() - low) * 255.0 / (high - low))
    if levels.min() < 0 or levels.max() > 255:
        return False
    found, known = of_bytes(tensor, levels), given.astype(np.float64).ravel()
    if tensor.dtype != "float32":
        return bool(np.array_equal(found, known))
    return bool(np.allclose(found, known, rtol=1e-5, atol=1e-5 * float(np.abs(known).max(initial=0.0))))


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
        return np.asarray(np.arange(41) * 0.137 - 2.9, np.float32)
    scale, limits = tensor.scale, np.iinfo(tensor.dtype)
    low, high = (int(limit) - (tensor.zero_point or 0) for limit in (limits.min, limits.max))
    # Half a step is exact in float32 at any scale; other middles only nearly, which division in float misses.
    middles = np.asarray((np.linspace(low, high, 11).round() + 0.5) * scale, np.float32)
    around = np.array([0.5, -0.5, 0.7, -0.7, 0.0, low - 3.3, high + 3.3]) * scale
    return np.concatenate(
        [
            np.asarray([*around, -1e30, 1e30], np.float32),
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
