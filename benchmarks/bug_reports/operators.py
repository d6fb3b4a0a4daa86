"""Single operators, values of extreme size, and token ids."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.attention import time_weights
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import Expectation
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import either
from benchmarks.bug_reports.case import everywhere
from benchmarks.bug_reports.case import files
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import seeded


def difference() -> keras.Model:
    """One input minus the other."""
    pair = [keras.Input((16,), name="left"), keras.Input((16,), name="right")]
    return keras.Model(pair, layers.Subtract()(pair))


def draw_pair(generator: Any, n: int, spread: float) -> dict[str, np.ndarray]:
    """Two independent inputs."""
    return {name: normal(16)(generator, n, spread) for name in ("left", "right")}


def draw_twins(generator: Any, n: int, spread: float) -> dict[str, np.ndarray]:
    """Two equal inputs."""
    values = normal(16, scale=40.0)(generator, n, spread)
    return {"left": values, "right": values.copy()}


def token_case(name: str, dtype: str, words: int, fault: str, **changes: Any) -> Case:
    """Embedding and attention pooling of twelve token ids."""

    def body(tokens: Any) -> Any:
        embedded = layers.Embedding(words, 16)(tokens)
        pooled = ops.sum(time_weights(embedded) * embedded, axis=1)
        return layers.Dense(3)(pooled)

    return define(
        f"token_ids_{name}",
        lambda generator, n, spread: generator.integers(0, words, (n, 12)).astype(dtype),
        reports=(
            "tensorflow/tensorflow#40681",
            "tensorflow/tensorflow#44197",
            "PINTO0309/onnx2tf#248",
        ),
        fault=fault,
        build=functional((12,), body, "tokens", dtype),
        expect=files(**{"int8": 22, "int16x8": 28, **changes}),
        note="A few sentences reach beyond the calibrated ranges.",
    )


def within(largest: float, outcome: Any = "file") -> Expectation:
    """Bound the largest difference, where there is no signal to speak of."""
    return Expectation(outcome, {"max_abs": largest})


SUBTRACTION = ("tensorflow/tensorflow#61828", "tensorflow/tensorflow#62618")
FLOAT_IDS = {"int8_full": either(15), "int16x8": either(28)}
single = functools.partial(define, reports=SUBTRACTION)

CASES = [
    define(
        "weights_kept",
        normal(10, 4),
        reports=(
            "keras-team/keras#19274",
            "keras-team/keras#19108",
            "tensorflow/tensorflow#63987",
        ),
        fault="The file runs and answers nonsense, for the weights were left behind.",
        build=functional((10, 4), lambda x: layers.Dense(3)(x), "series"),
        expect=files(),
    ),
    single(
        "subtract",
        draw_pair,
        fault="A quantized subtraction ends the process when its tensors are allocated.",
        build=seeded(difference),
        expect=files(),
    ),
    single(
        "subtract_equal_inputs",
        draw_twins,
        fault="A difference that is always zero has no range.",
        build=seeded(difference),
        expect=everywhere(within(1e-6))
        | {"int8_full": within(1.0, "either"), "int16x8": within(0.01, "either")},
        note="One step of the inputs is 0.94 with 8 bits, 0.004 with 16.",
    ),
    single(
        "add_and_subtract_constant",
        normal(16, scale=1e-3),
        fault="A small value beside a large constant leaves int8 with nothing.",
        build=functional((16,), lambda x: (x + 1000.0) - 1000.0, "left"),
        expect=everywhere(within(1e-4)) | {"int8_full": either(12), "int16x8": within(1e-4, "either")},
        note="float32 itself rounds to 6e-5 there.",
    ),
    single(
        "tiny_gate",
        normal(16),
        fault="An output of about 1e-7 gives a factor that the kernel refuses.",
        build=functional((16,), lambda x: x * 1e-7 * ops.sigmoid(x), "left"),
        expect=files(int8_full=either(15), int16x8=either(35)),
        note="A half precision 1e-7 would be a fifth off.",
    ),
    single(
        "large_square",
        normal(16),
        fault="An output of about 1e9 gives a factor that the kernel refuses.",
        build=functional((16,), lambda x: ops.square(x * 1e4), "left"),
        expect=files(int8_full=either(15), int16x8=either(35)),
    ),
    token_case("int32", "int32", 300, "Ids are asked for in int8, or int16x8 is refused for them."),
    token_case("int64", "int64", 300, "Ids of 64 bits are not what the phone's code expects."),
    token_case("float32", "float32", 300, "Ids that come as floats are rounded to 256 values.", **FLOAT_IDS),
    token_case(
        "float32_5000", "float32", 5000, "With 5,000 words each id becomes another word.", **FLOAT_IDS
    ),
]
