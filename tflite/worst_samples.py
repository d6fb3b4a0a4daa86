"""The evaluation samples on which the file is farthest from Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.tflite import metrics

MOST_SAMPLES = 8
MOST_VALUES = 32


def find(
    reference: Sequence[np.ndarray],
    result: Sequence[np.ndarray],
    tasks: Sequence[str],
    names: Sequence[str],
) -> tuple[dict[str, Any], ...]:
    """Return up to eight samples, the largest error first, each with the output that errs most.

    Errors of outputs in different units are compared after division by the range of Keras' outputs.
    Samples that are answered exactly are left out.

    Args:
        reference: Keras' outputs, one array per output, first axis counting samples.
        result: the file's outputs, in the same order and of the same shapes.
        tasks: per output, as in `Report.task`.
        names: names of the outputs.

    Returns:
        Per sample {"index", "output", "keras", "tflite", "first", "max_abs_error", "agrees"}: at most 32
        values of the output, flattened, from place `first` on, the largest error among them; `agrees` tells
        whether all positions of that output count as agreeing.
    """
    errors = [_errors(a, b) for a, b in zip(reference, result, strict=True)]
    relative = np.stack([_relative(error, a) for error, a in zip(errors, reference, strict=True)])
    largest = relative.max(axis=0)
    order = np.argsort(-largest, kind="stable")[:MOST_SAMPLES]
    agreeing = [
        np.asarray(metrics.agreeing(a, b, task).reshape(len(a), -1).all(axis=1))
        for a, b, task in zip(reference, result, tasks, strict=True)
    ]
    found = []
    for index in order[largest[order] > 0.0]:
        output = int(relative[:, index].argmax())
        place = int(errors[output][index].argmax())
        first, end = _window(reference[output].shape[1:], place)
        found.append(
            {
                "index": int(index),
                "output": names[output],
                "keras": _numbers(reference[output][index], first, end),
                "tflite": _numbers(result[output][index], first, end),
                "first": first,
                "max_abs_error": float(errors[output][index].max()),
                "agrees": bool(agreeing[output][index]),
            }
        )
    return tuple(found)


def _errors(reference: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Return the absolute differences, one row per sample, infinite where the result is not finite."""
    difference = np.abs(np.asarray(reference, np.float64) - np.asarray(result, np.float64))
    return np.where(np.isfinite(difference), difference, np.inf).reshape(len(reference), -1)


def _relative(errors: np.ndarray, reference: np.ndarray) -> np.ndarray:
    values = np.asarray(reference, np.float64)
    spread = float(values.max() - values.min()) or float(np.abs(values).max()) or 1.0
    return np.asarray(errors.max(axis=1) / spread)


def _window(shape: tuple[int, ...], place: int) -> tuple[int, int]:
    """Return first and end of what to show: all, or the row of `place`, or the part of the row around it."""
    size = int(np.prod(shape))
    if size <= MOST_VALUES:
        return 0, size
    row = shape[-1]
    start = place // row * row
    if row <= MOST_VALUES:
        return start, start + row
    first = min(max(place - MOST_VALUES // 2, start), start + row - MOST_VALUES)
    return first, first + MOST_VALUES


def _numbers(output: np.ndarray, first: int, end: int) -> list[float]:
    return [float(value) for value in np.asarray(output).reshape(-1)[first:end]]
