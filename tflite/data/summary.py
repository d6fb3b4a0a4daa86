"""Numbers that describe samples, for the report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

_FOR_PERCENTILES = 1_000_000
"""Percentiles of more values than this are taken over an even choice of them."""
_VALUES_OF_A_BLOCK = 1_000_000
_OUTLIER_DEVIATIONS = 6.0
_FAR = 20.0
"""The largest value sets the range alone if it is so many times as far from the median as 99 % of values."""


def summarize(inputs: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return, for each input, "min", "max", "mean", "std", "p0.01", "p99.99" and "outliers".

    "outliers" is the share of values outside mean +- 6 std. Percentiles are over an even choice of a
    million values where there are more.
    """
    return {name: _summarize(values) for name, values in inputs.items()}


def _summarize(values: np.ndarray) -> dict[str, float]:
    mean, std = (float(moment.item()) for moment in moments(values, tuple(range(values.ndim))))
    low, high = np.percentile(some_values(values), [0.01, 99.99])
    outside = sum(
        int(np.count_nonzero(np.abs(block - mean) > _OUTLIER_DEVIATIONS * std)) for block in _blocks(values)
    )
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": mean,
        "std": std,
        "p0.01": float(low),
        "p99.99": float(high),
        "outliers": outside / values.size,
    }


def moments(values: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation over `axes`, which hold the first; these keep the length 1.

    Sums are in float64 and go block by block, so that no copy in float64 of all the data is made.
    """
    count = math.prod(values.shape[axis] for axis in axes)
    mean = sum(block.sum(axis=axes, keepdims=True) for block in _blocks(values)) / count
    squares = sum(np.square(block - mean).sum(axis=axes, keepdims=True) for block in _blocks(values))
    return mean, np.sqrt(squares / count)


def some_values(values: np.ndarray) -> np.ndarray:
    """Return the values in one row in float64, or an even choice of a million."""
    flat = values.reshape(-1)
    return flat[:: -(-flat.size // _FOR_PERCENTILES)].astype(np.float64)


def outlier_remarks(argument: str, inputs: Mapping[str, np.ndarray]) -> list[str]:
    """Return a remark for each input of floats whose range is set by a few values far from all others."""
    remarks = []
    for name, values in inputs.items():
        if values.dtype.kind != "f":
            continue
        middle = float(np.median(some_values(values)))
        usual = float(np.percentile(np.abs(some_values(values) - middle), 99))
        distances = (middle - float(values.min()), float(values.max()) - middle)
        if usual == 0.0 or max(distances) <= _FAR * usual:
            continue
        extreme = values.min() if distances[0] > distances[1] else values.max()
        sample = int(np.argmax((values == extreme).reshape(len(values), -1).any(axis=1)))
        remarks.append(
            f"`{argument}`, input {name!r}: the value {extreme:.3g} of sample {sample} sets the range "
            f"alone. It is {max(distances) / usual:.3g} times as far from the median as 99 % of the values, "
            "which are left with few of the 256 steps. Remove it, or clip the data in the app as well."
        )
    return remarks


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    rows = max(1, _VALUES_OF_A_BLOCK * len(values) // values.size)
    return (values[start : start + rows].astype(np.float64) for start in range(0, len(values), rows))
