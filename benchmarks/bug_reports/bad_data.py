"""Calibration samples of every form, good and bad, and weights that are no numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.case import CALIBRATED
from benchmarks.bug_reports.case import CALIBRATION_SEED
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import calibrated
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import either
from benchmarks.bug_reports.case import everywhere
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import only
from benchmarks.bug_reports.case import refusal
from benchmarks.bug_reports.case import seeded


def good(n: int) -> np.ndarray:
    """Samples as they should be."""
    return normal(4)(np.random.default_rng(CALIBRATION_SEED), n)


def one_by_one(n: int) -> Iterator[list[np.ndarray]]:
    """The form that the stock converter wants: lists of one array, with a batch of one."""
    for sample in good(n):
        yield [sample[None]]


def spent(n: int) -> Iterator[list[np.ndarray]]:
    """A generator that something else has read to its end."""
    samples = one_by_one(n)
    for _ in samples:
        pass
    return samples


def with_one(value: float) -> Callable[[int], np.ndarray]:
    """Samples of which the third holds `value`."""

    def samples(n: int) -> np.ndarray:
        values = good(max(n, 3))
        values[2, 0] = value
        return values

    return samples


def two_dense(weight: float | None = None) -> keras.Model:
    """Two dense layers; `weight` replaces one value of the first kernel."""
    features = keras.Input((4,), name="features")
    hidden = layers.Dense(8, activation="relu", name="hidden")
    model = keras.Model(features, layers.Dense(3)(hidden(features)))
    if weight is not None:
        kernel, bias = hidden.get_weights()
        kernel[0, 0] = weight
        hidden.set_weights([kernel, bias])
    return model


GOOD, BAD = only(*CALIBRATED), calibrated(refusal("calibration"))
NOT_FINITE = (
    "tensorflow/tensorflow#44114",
    "tensorflow/tensorflow#120295",
    "tensorflow/tensorflow#118185",
)
spoilt = functools.partial(define, draw=normal(4), reports=NOT_FINITE)


def form_case(name: str, calibration: Callable[[int], Any], fault: str, expect: Any = BAD) -> Case:
    """One form of the argument `calibration`."""
    return define(
        f"calibration_{name}",
        normal(4),
        calibration=calibration,
        reports=(
            "tensorflow/tensorflow#38392",
            "tensorflow/tensorflow#40681",
            "tensorflow/tensorflow#30861",
            "tensorflow/tensorflow#33144",
            "google-coral/edgetpu#142",
            "PINTO0309/PINTO_model_zoo#41",
        ),
        fault=fault,
        build=functional((4,), lambda x: layers.Dense(3)(x), "features"),
        expect=expect,
    )


def value_case(name: str, value: float, fault: str, expect: Any = BAD) -> Case:
    """One bad value in the third calibration sample."""
    return spoilt(
        f"calibration_with_{name}",
        calibration=with_one(value),
        fault=fault,
        build=seeded(two_dense),
        expect=expect,
    )


def weight_case(name: str, value: float, fault: str) -> Case:
    """One bad value in the kernel of the layer `hidden`, which the message must name."""
    return spoilt(
        f"weight_{name}",
        fault=fault,
        build=seeded(two_dense, value),
        expect=everywhere(refusal("hidden")),
    )


CASES = [
    form_case("array", good, "One array of samples works: the baseline.", GOOD),
    form_case("missing", lambda n: None, "Without samples the quantizer stops late, or writes floats."),
    form_case("empty", lambda n: good(0), "With no sample at all the file comes out in float, silently."),
    form_case("spent_generator", spent, "A generator used twice is empty: the file comes out in float."),
    form_case(
        "generator",
        one_by_one,
        "A generator is refused, for a function that returns one is expected.",
        calibrated(either(25)) | {"int8_full": either(18)},
    ),
    form_case("float64", lambda n: good(n).astype("float64"), "NumPy's own type is refused.", GOOD),
    form_case("tensor", lambda n: ops.convert_to_tensor(good(n)), "A tensor works.", GOOD),
    form_case(
        "uint8_codes",
        lambda n: np.random.default_rng(5).integers(0, 256, (n, 4)).astype("uint8"),
        "Samples that the user quantized already: 0 to 255 where -3 to 3 is meant.",
    ),
    form_case("without_batch", lambda n: good(1)[0], "One sample without the axis that counts is accepted."),
    form_case(
        "wrong_width",
        lambda n: normal(5)(np.random.default_rng(CALIBRATION_SEED), n),
        "One feature too many ends in a message about tensors.",
    ),
    form_case("by_name", lambda n: {"features": good(n)}, "A dict by input name works.", GOOD),
    form_case(
        "unknown_name",
        lambda n: {"pixels": good(n)},
        "A misspelt input name is hard to make out in the message.",
    ),
    weight_case("nan", float("nan"), "A NaN among the weights passes, and every answer is NaN."),
    weight_case("infinite", float("inf"), "An infinite weight ends in a message about a scale."),
    value_case("nan", float("nan"), "A NaN among the samples is passed over in silence."),
    value_case("infinity", float("inf"), "An infinite value ends the process."),
    value_case("minus_infinity", float("-inf"), "An infinite value ends the process."),
    value_case(
        "1e30", 1e30, "One absurd value sets the range: every answer is a constant.", calibrated(either(15))
    ),
]
