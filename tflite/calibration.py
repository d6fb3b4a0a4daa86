"""Activation ranges over the calibration samples, as the quantizer wants them.

Two kinds of range come out of one pass: the true minimum and maximum, and the 99.99 percentile,
which leaves rare outliers outside. Both are exact: the tails are kept, not a histogram.
A moving average, the quantizer's own default, clips at random and is not offered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

OUTLIER_SHARE = 1e-4
"""Share of a tensor's values that may lie outside a percentile range, both ends together."""

Ranges = dict[str, dict[str, np.ndarray]]
"""Tensor name -> {"min", "max"}, the quantizer's form."""


@dataclass(frozen=True)
class Collected:
    """What one pass over the calibration samples gave.

    Attributes:
        by_kind: "minmax" and "percentile" -> ranges.
        spread: tensor index -> squared width of its percentile range over its mean square: high where
            most values are small against the range, so that a static scale fits badly.
    """

    by_kind: dict[str, Ranges]
    spread: dict[int, float]


class _Tails:
    """The largest and smallest values of one tensor over all samples."""

    def __init__(self, total_size: int) -> None:
        self._keep = max(1, math.ceil(total_size * OUTLIER_SHARE / 2))
        self._low = np.empty(0, np.float32)
        self._high = np.empty(0, np.float32)
        self._squares = 0.0
        self._size = total_size

    def add(self, values: np.ndarray) -> None:
        flat = values.ravel()
        wide = flat.astype(np.float64)
        self._squares += float(np.dot(wide, wide))
        self._low = _smallest(np.concatenate([self._low, _smallest(flat, self._keep)]), self._keep)
        self._high = -_smallest(np.concatenate([-self._high, _smallest(-flat, self._keep)]), self._keep)

    def extremes(self) -> tuple[float, float]:
        return float(self._low.min()), float(self._high.max())

    def percentile(self) -> tuple[float, float]:
        return float(self._low.max()), float(self._high.min())

    def spread(self) -> float:
        low, high = self.percentile()
        mean_square = self._squares / self._size
        return (high - low) ** 2 / mean_square if mean_square > 0.0 else 0.0


def _smallest(values: np.ndarray, count: int) -> np.ndarray:
    if values.size <= count:
        return values
    if count == 1:
        return np.atleast_1d(values.min())
    return np.asarray(np.partition(values, count - 1)[:count])


def collect_ranges(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    tensors: Iterable[int],
    progress: runtime.Progress | None = None,
) -> Collected:
    """Run the float model on each sample and return the ranges that its tensors take.

    Args:
        content: bytes of the float .tflite file, each tensor with a name of its own.
        samples: input name -> array of samples, the first axis counts them.
        tensors: indices of the tensors of subgraph 0 to watch.
        progress: called with (done, total).

    Raises:
        ValueError: a watched tensor takes an infinite or NaN value; its name is given.
    """
    interpreter = runtime.load_interpreter(content, keep_tensors=True)
    subgraph = graphs.read_graph(content).subgraphs[0]
    count = len(next(iter(samples.values())))
    watched = {index: _watch(subgraph.tensors[index], count) for index in tensors}
    for number in range(count):
        runtime.set_inputs(interpreter, {name: values[number] for name, values in samples.items()})
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise ValueError(
                f"Calibration sample {number} can't be run; integer inputs out of an Embedding's range are a "
                f"usual cause. {error}"
            ) from error
        for index, tails in watched.items():
            values = interpreter.get_tensor(index)
            if not np.isfinite(values).all():
                raise ValueError(
                    f"Calibration sample {number} drives a tensor of the float model to an infinite or "
                    f"NaN value (tensor {index}, shape {tuple(values.shape)}). Check that sample's scale."
                )
            tails.add(values)
        if progress is not None:
            progress(number + 1, count)
    names = {index: graphs.tensor_name(subgraph.tensors[index]) for index in watched}
    ranks = {index: len(subgraph.tensors[index].shape or []) for index in watched}
    return Collected(
        {
            "minmax": {names[i]: _as_range(tails.extremes(), ranks[i]) for i, tails in watched.items()},
            "percentile": {names[i]: _as_range(tails.percentile(), ranks[i]) for i, tails in watched.items()},
        },
        {i: tails.spread() for i, tails in watched.items()},
    )


def _watch(tensor: Any, count: int) -> _Tails:
    return _Tails(count * int(np.prod(tensor.shape if tensor.shape is not None else [1])))


def _as_range(bounds: tuple[float, float], rank: int) -> dict[str, np.ndarray]:
    low, high = bounds
    shape = (1,) * rank
    return {"min": np.full(shape, low, np.float32), "max": np.full(shape, high, np.float32)}
