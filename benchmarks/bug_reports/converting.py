"""The half of a check that needs Keras: build the case's model, convert it, ask Keras for its answers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.bug_reports import in_process
from benchmarks.bug_reports.case import CALIBRATED
from benchmarks.bug_reports.families import CASES
from keras_attention import tflite

SAMPLES, CALIBRATION_SAMPLES = 32, 256


@dataclass(frozen=True)
class Attempt:
    """What became of one call of `convert`.

    Attributes:
        error: "kind: message" of what it raised, "" if it returned.
        is_refusal: whether that is a kind that `convert` may raise.
        samples: the evaluation samples.
        reference: Keras' answers to them, one array per output; empty after an error.
        has_weights: whether the model has a matrix or kernel.
    """

    error: str
    is_refusal: bool
    samples: Any
    reference: list[np.ndarray]
    has_weights: bool


def attempt(name: str, precision: Any, path: str) -> Attempt:
    """Convert the model of a case to `path`."""
    case, (model, samples) = CASES[name], _prepared(name)
    in_process.install(name)
    try:
        tflite.convert(
            model,
            path,
            precision=precision,
            calibration=case.calibration(CALIBRATION_SAMPLES) if precision in CALIBRATED else None,
            evaluation=samples,
            verbose=0,
        )
    except Exception as error:  # whatever it is, it is what the table speaks of
        is_refusal = isinstance(error, tflite.ConversionError | ValueError | TypeError)
        return Attempt(f"{type(error).__name__}: {error}", is_refusal, samples, [], False)
    reference, has_weights = _reference(name)
    return Attempt("", False, samples, reference, has_weights)


@functools.lru_cache(maxsize=1)
def _prepared(name: str) -> tuple[Any, Any]:
    """The model, or its path, and its samples; made once for all precisions."""
    keras.backend.clear_session()
    return CASES[name].build(), CASES[name].inputs(SAMPLES)


@functools.lru_cache(maxsize=1)
def _reference(name: str) -> tuple[list[np.ndarray], bool]:
    """Keras' answers, by `predict`, and whether any weight is a matrix."""
    model, samples = _prepared(name)
    if isinstance(model, str | Path):
        model = keras.models.load_model(model)
    answers = keras.tree.flatten(model.predict(samples, verbose=0))
    return [np.asarray(answer) for answer in answers], any(len(w.shape) >= 2 for w in model.weights)
