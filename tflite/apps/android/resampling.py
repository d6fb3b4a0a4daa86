"""A recorded series off the grid, and the windows that Python cuts from it, for the check at an app's start.

The app pushes rows of golden pairs with times that lie beside the grid, from two sensors; what it must get is
known by the time and a checksum of each window, so that the asset stays small.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_PAIRS = 3
"""Golden pairs whose rows make the series, one behind the other."""


@dataclass(frozen=True)
class Series:
    """What an app must cut from the rows.

    Attributes:
        hop: points from one window to the next.
        times: nanoseconds of the last point of each window.
        sums: CRC-32 of the values of each window, as big-endian floats.
    """

    hop: int
    times: tuple[int, ...]
    sums: tuple[int, ...]


def sources(names: Sequence[str]) -> list[list[str]]:
    """Return the axes of the sensors that push the series: every other name, in the order of the names."""
    ordered = sorted(names)
    return [part for part in (ordered[::2], ordered[1::2]) if part]


def time(row: int, source: int, rate: float) -> int:
    """Return when a sensor measured a row: later than the grid's point by a quarter, and unevenly."""
    period = int(1.0e9 / rate)
    return row * (period + period // 4) + (row * 7919 + source * 104729) % max(1, period // 3)


def series(rows: np.ndarray, names: Sequence[str], length: int, rate: float) -> Series:
    """Return the windows of rows of raw values, float32, columns by name; see SampleWindow for how."""
    hop = length // 2 + 2
    axes = sources(names)
    moments = [
        np.array([time(row, source, rate) for row in range(len(rows))], np.int64)
        for source in range(len(axes))
    ]
    start = max(int(times[0]) for times in moments)
    last = min(int(times[-1]) for times in moments) - start
    grid = np.arange(int(last * rate / 1.0e9) + 2) * 1.0e9 / rate
    grid = grid[grid <= last]
    points = np.zeros((len(grid), len(names)), np.float32)
    for times, own in zip(moments, axes, strict=True):
        columns = [list(names).index(name) for name in own]
        points[:, columns] = _interpolated((times - start).astype(np.float64), rows[:, columns], grid)
    ends = range(length, len(points) + 1, hop)
    return Series(
        hop,
        tuple(start + int(grid[end - 1]) for end in ends),
        tuple(zlib.crc32(points[end - length : end].astype(">f4").tobytes()) for end in ends),
    )


def _interpolated(times: np.ndarray, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    before = np.searchsorted(times, grid, side="right") - 1
    after = np.minimum(before + 1, len(times) - 1)
    spans = times[after] - times[before]
    is_between = (times[before] != grid) & (spans > 0)
    share = np.where(is_between, (grid - times[before]) / np.where(spans > 0, spans, 1.0), 0.0)
    first = values[before].astype(np.float64)
    return np.asarray(first + (values[after] - first) * share[:, None], np.float32)
