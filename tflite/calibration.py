"""Activation ranges over the calibration samples.

One pass gives the true extremes and several percentiles, which leave rare outliers outside. All are
exact: the tails are kept, not a histogram. A moving average, the quantizer's own default, clips at
random and is not offered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

SHARES = {"minmax": 0.0, "percentile": 1e-4, "percentile 99.9": 1e-3, "percentile 99": 1e-2}
"""Kind of range -> share of a tensor's values that may lie outside it, both ends together."""
LEAST_SQUARES = "least squares"
"""The kind whose ranges make clipping and rounding to 8 bits together as small as they can be."""
_CUTS = (0.0, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Shares of values outside that are tried for the least squares, each end on its own."""
_BULK = 32
"""Samples whose values are taken in at once: for small tensors the calls cost more than the work."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Collected:
    """What one pass over the calibration samples gave.

    Attributes:
        by_kind: kind of range -> tensor index -> range.
        spread: tensor index -> squared width of its percentile range over its mean square: high where
            most values are small against the range, so that a static scale fits badly.
    """

    by_kind: dict[str, dict[int, Range]]
    spread: dict[int, float]


class _Tail:
    """The smallest values of one tensor over all samples."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._values = np.empty(0, np.float32)
        self._waiting: list[np.ndarray] = []
        self._count = 0
        self._cut = np.inf

    def add(self, values: np.ndarray) -> None:
        chosen = values[values < self._cut] if np.isfinite(self._cut) else values
        if not chosen.size:
            return
        self._waiting.append(chosen.copy())
        self._count += chosen.size
        if self._count > 2 * self._keep:
            self._settle()

    def _settle(self) -> None:
        values = np.concatenate([self._values, *self._waiting])
        if values.size > self._keep:
            values = np.partition(values, self._keep - 1)[: self._keep]
            self._cut = float(values.max())
        self._values, self._waiting, self._count = values, [], 0

    def sorted(self) -> np.ndarray:
        """Return the values, smallest first."""
        self._settle()
        return np.sort(self._values)


class _Watched:
    """Both tails and the energy of one tensor."""

    def __init__(self, shape: Sequence[int], count: int) -> None:
        self.shape = shape
        size = int(np.prod(shape))
        keep = max(1, math.ceil(size * count * max(_CUTS) / 2))
        self._low, self._high = _Tail(keep), _Tail(keep)
        self._squares = 0.0
        self._size = size * count
        self._waiting = np.empty((min(count, _BULK), size), np.float32)
        self._filled = 0

    def add(self, values: np.ndarray) -> None:
        self._waiting[self._filled] = values.ravel()
        self._filled += 1
        if self._filled == len(self._waiting):
            self.flush()

    def flush(self) -> None:
        """Take in the waiting values, many samples at a time.

        Raises:
            ValueError: one of them is infinite or NaN; it holds how many samples ago that was.
        """
        waiting = self._waiting[: self._filled]
        flat = waiting.ravel()
        if not np.isfinite(flat).all():
            bad = int(np.flatnonzero(~np.isfinite(waiting).all(axis=1))[0])
            raise ValueError(self._filled - bad)
        wide = flat.astype(np.float64)  # a mask of -1e30 squared is no float32
        self._squares += float(np.dot(wide, wide))
        self._low.add(flat)
        self._high.add(-flat)
        self._filled = 0

    def ranges(self) -> dict[str, Range]:
        low, high = self._low.sorted(), -self._high.sorted()
        places = {kind: max(0, math.ceil(self._size * share / 2) - 1) for kind, share in SHARES.items()}
        found = {
            kind: (float(low[min(place, low.size - 1)]), float(high[min(place, high.size - 1)]))
            for kind, place in places.items()
        }
        return {**found, LEAST_SQUARES: self._least_squares(low, high)}

    def _least_squares(self, low: np.ndarray, high: np.ndarray) -> Range:
        """Weigh the squares of what is clipped against those of the rounding to 255 steps."""
        ends = []
        for tail in (-low, high):  # largest first
            costs = []
            for cut in _CUTS:
                bound = max(float(tail[min(max(0, math.ceil(self._size * cut) - 1), tail.size - 1)]), 0.0)
                costs.append(
                    (bound, float(np.sum(np.square(np.maximum(tail.astype(np.float64) - bound, 0)))))
                )
            ends.append(costs)
        best = min(
            (below[1] + above[1] + self._size * ((below[0] + above[0]) / 255) ** 2 / 12, -below[0], above[0])
            for below in ends[0]
            for above in ends[1]
        )
        return best[1], best[2]

    def spread(self, bounds: Range) -> float:
        mean_square = self._squares / self._size
        return (bounds[1] - bounds[0]) ** 2 / mean_square if mean_square > 0.0 else 0.0


def collect_ranges(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    tensors: Iterable[int],
    progress: runtime.Progress | None = None,
) -> Collected:
    """Run the float model on each sample and return the ranges that its tensors take.

    Args:
        content: bytes of the float .tflite file.
        samples: input name -> array of samples, the first axis counts them.
        tensors: indices of the tensors of subgraph 0 to watch.
        progress: called with (done, total).

    Raises:
        ValueError: a watched tensor takes an infinite or NaN value.
    """
    interpreter = runtime.load_interpreter(content, keep_tensors=True)
    subgraph = graphs.read_graph(content).subgraphs[0]
    count = len(next(iter(samples.values())))
    watched = {index: _Watched(_shape(subgraph.tensors[index]), count) for index in tensors}
    for number in range(count):
        runtime.set_inputs(interpreter, {name: values[number] for name, values in samples.items()})
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise ValueError(
                f"Calibration sample {number} can't be run; integer inputs out of an Embedding's range are a "
                f"usual cause. {error}"
            ) from error
        for index, tensor in watched.items():
            _add(tensor, interpreter.get_tensor(index), index, number)
        if progress is not None:
            progress(number + 1, count)
    for index, tensor in watched.items():
        _add(tensor, None, index, count - 1)
    found = {index: tensor.ranges() for index, tensor in watched.items()}
    return Collected(
        {kind: {i: ranges[kind] for i, ranges in found.items()} for kind in (*SHARES, LEAST_SQUARES)},
        {index: tensor.spread(found[index]["percentile"]) for index, tensor in watched.items()},
    )


def _add(tensor: _Watched, values: np.ndarray | None, index: int, number: int) -> None:
    """Add a sample's values, or take in what waits; say which sample is at fault if one is."""
    try:
        tensor.flush() if values is None else tensor.add(values)
    except ValueError as error:
        raise ValueError(
            f"Calibration sample {number + 1 - error.args[0]} drives a tensor of the float model to an "
            f"infinite or NaN value (tensor {index}, shape {tuple(tensor.shape)}). Check that sample's scale."
        ) from None


def _shape(tensor: Any) -> list[int]:
    return [int(size) for size in (tensor.shape if tensor.shape is not None else [])]
