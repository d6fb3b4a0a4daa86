"""What a case is: a model from a public report, its samples, and what converting it must lead to."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Literal

import keras
import numpy as np

Outcome = Literal["file", "refusal", "either"]
Draw = Callable[[np.random.Generator, int, float], Any]
Body = Callable[..., Any]

FLOORS = {"float32": 90, "float16": 45, "dynamic": 30, "int8": 25, "int8_full": 18, "int16x8": 35}
"""Precision -> SQNR in dB that a file must reach where a case says nothing else."""
CALIBRATED = ("int8", "int8_full", "int16x8")
"""The precisions that take their scales from samples."""
BOUNDS = ("min_sqnr_db", "min_channel_sqnr_db", "min_agreement", "max_abs", "max_partitions", "max_kb")
"""What a bound can be about, `max_versions` (operator -> version) aside."""

EVALUATION_SEED, CALIBRATION_SEED, WEIGHT_SEED, TRAINING_SEED = 1, 2, 3, 4
EVALUATION_SPREAD = 0.8
"""Evaluation samples lie within the calibrated ranges: the bounds speak of rounding, not of clipping."""


@dataclass(frozen=True)
class Expectation:
    """What must come out for one precision.

    Attributes:
        outcome: a "file" within the bounds, a "refusal" that says why, or "either".
        bounds: "min_sqnr_db", "min_channel_sqnr_db", "min_agreement", "max_abs" (see `measure`),
            "max_partitions" (pieces of the graph under XNNPACK; 1 is the whole graph in one), "max_kb"
            (1,000 bytes), "max_versions" (operator name -> highest version).
        message: text that the refusal must hold, in whatever case of letters.
    """

    outcome: Outcome
    bounds: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True)
class Case:
    """One model from public reports.

    Attributes:
        name: unique; other lists of these models use it too.
        reports: where it was reported, as "owner/repository#number".
        fault: what users met with the stock tools, in one sentence.
        build: makes the Keras model, the same weights each time, or saves one and returns the path.
        inputs: n -> evaluation samples, an array or a dict by input name.
        calibration: n -> independent calibration samples; in some cases the bad argument itself.
        expect: precision -> what must come out; what is not listed is not asked for.
        note: why a bound is looser than usual.
    """

    name: str
    reports: tuple[str, ...]
    fault: str
    build: Callable[[], Any]
    inputs: Callable[[int], Any]
    calibration: Callable[[int], Any]
    expect: Mapping[str, Expectation]
    note: str = ""


def define(name: str, draw: Draw, *, calibration: Callable[[int], Any] | None = None, **fields: Any) -> Case:
    """Return a case whose samples come from `draw(generator, n, spread)`, calibration unless given."""

    def evaluation(n: int) -> Any:
        return draw(np.random.default_rng(EVALUATION_SEED), n, EVALUATION_SPREAD)

    def representative(n: int) -> Any:
        return draw(np.random.default_rng(CALIBRATION_SEED), n, 1.0)

    return Case(name=name, inputs=evaluation, calibration=calibration or representative, **fields)


def file(decibels: float, **bounds: Any) -> Expectation:
    """A file with at least this SQNR."""
    return Expectation("file", {"min_sqnr_db": decibels, **bounds})


def either(decibels: float) -> Expectation:
    """A refusal, or a file with at least this SQNR."""
    return Expectation("either", {"min_sqnr_db": decibels})


def refusal(message: str) -> Expectation:
    """An error that says `message`."""
    return Expectation("refusal", message=message)


def files(**changes: float | Expectation) -> dict[str, Expectation]:
    """Files in every precision: `FLOORS`, or the SQNR or expectation given for one."""
    wanted = {**FLOORS, **changes}
    return {
        precision: value if isinstance(value, Expectation) else file(value)
        for precision, value in wanted.items()
    }


def in_one_piece(**decibels: float) -> dict[str, Expectation]:
    """Files that XNNPACK takes as a whole, in the precisions given."""
    return {precision: file(value, max_partitions=1) for precision, value in decibels.items()}


def only(*precisions: str) -> dict[str, Expectation]:
    """Files in these precisions alone."""
    return {precision: file(FLOORS[precision]) for precision in precisions}


def everywhere(expectation: Expectation) -> dict[str, Expectation]:
    """The same in every precision."""
    return dict.fromkeys(FLOORS, expectation)


def calibrated(expectation: Expectation) -> dict[str, Expectation]:
    """The same in every precision that needs calibration samples."""
    return dict.fromkeys(CALIBRATED, expectation)


def seeded(build: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Return a call of `build(*args)` that draws the same weights each time."""

    def make() -> Any:
        keras.utils.set_random_seed(WEIGHT_SEED)
        return build(*args)

    return make


def functional(
    shape: tuple[int, ...], body: Body, name: str = "inputs", dtype: str | None = None
) -> Callable[[], Any]:
    """Return a seeded builder of the model that `body` makes of one input."""

    def build() -> keras.Model:
        inputs = keras.Input(shape, dtype=dtype, name=name)
        return keras.Model(inputs, body(inputs))

    return seeded(build)


def chain(*makers: Callable[[], Any]) -> Body:
    """Return a body of layers, each made when its turn comes, so that weights are drawn in that order."""

    def body(x: Any) -> Any:
        for make in makers:
            x = make()(x)
        return x

    return body


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Draw:
    """Normal values, cut at three deviations."""

    def draw(generator: np.random.Generator, n: int, spread: float = 1.0) -> np.ndarray:
        values = generator.normal(size=(n, *shape)).clip(-3, 3)
        return (spread * scale * values + shift).astype("float32")

    return draw


def measure(reference: Any, result: Any) -> dict[str, float]:
    """Compare outputs (an array, or a list of arrays in the same order); the worst output counts.

    Returns:
        "min_sqnr_db": power of the reference over power of the difference; "min_channel_sqnr_db": the
        same for the worst index of the last axis; "min_agreement": share of equal argmax over the last
        axis; "max_abs": the largest difference.
    """
    if not isinstance(reference, list):
        reference, result = [reference], [result]
    scores = [
        _compare(np.asarray(a, float), np.asarray(b, float)) for a, b in zip(reference, result, strict=True)
    ]
    worst = {key: min(score[key] for score in scores) for key in scores[0]}
    return {**worst, "max_abs": max(score["max_abs"] for score in scores)}


def _compare(wanted: np.ndarray, got: np.ndarray) -> dict[str, float]:
    if wanted.shape != got.shape:
        raise ValueError(f"an output has shape {got.shape} where Keras' has {wanted.shape}")
    signal, noise = np.square(wanted), np.square(wanted - got)
    channels = tuple(range(wanted.ndim - 1))
    return {
        "min_sqnr_db": _decibels(signal.sum(), noise.sum()),
        "min_channel_sqnr_db": _decibels(signal.sum(channels), noise.sum(channels)),
        "min_agreement": float(np.mean(wanted.argmax(-1) == got.argmax(-1))),
        "max_abs": float(np.abs(wanted - got).max()),
    }


def _decibels(signal: Any, noise: Any) -> float:
    """The lowest ratio; infinite where there is no noise, NaN (below every bound) where there is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.min(10 * (np.log10(signal) - np.log10(noise))))
