"""How far a processor's answers may be from this machine's, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

STEPS = 2
"""Allowed for a quantized output."""
ROUNDING = 1e-6
"""Allowed for a float output of a file without integers inside, where the largest answer is 1 or below; else
as much of the largest answer."""
LEVELS = 255
"""Steps of an int8 scale: a file with integers inside may differ by one, as an int8 output would have it."""


@dataclass(frozen=True)
class Difference:
    """Answers of one kind of kernels on a processor, against those on this machine.

    Attributes:
        largest: difference, in steps of the output's scale where it has one, else in its own unit.
        allowed: how much of it is rounding; 0 where the bits must be equal.
        equal: whether all bits are.
    """

    largest: float
    allowed: float
    equal: bool

    @property
    def passed(self) -> bool:
        """Whether the answers are as they must be."""
        return self.largest <= self.allowed


@dataclass(frozen=True)
class Arm64Output:
    """One output on one processor, against the same file on this machine.

    Attributes:
        name: of the output.
        in_steps: whether it is quantized, so that differences are in steps.
        reference: of the plain kernels.
        xnnpack: of the kernels that an app gets.
        agreement: share of XNNPACK's answers with the same largest entry; None for outputs of a single one.
    """

    name: str
    in_steps: bool
    reference: Difference
    xnnpack: Difference
    agreement: float | None

    @property
    def passed(self) -> bool:
        """Whether the processor answers as it must."""
        return self.reference.passed and self.xnnpack.passed

    def kernels(self) -> dict[str, Difference]:
        """Return both comparisons, by what the kernels are called."""
        return {"reference": self.reference, "XNNPACK": self.xnnpack}


def compare(
    here: Mapping[str, Sequence[np.ndarray]],
    there: Mapping[str, Sequence[np.ndarray]],
    specs: Sequence[Mapping[str, Any]],
    *,
    has_integers: bool,
    has_floats: bool,
) -> tuple[Arm64Output, ...]:
    """Compare all outputs.

    The reference kernels of floats are compiled to fused multiply-adds on arm64 and to two roundings on x86,
    so only those of integers are equal to the bit.

    Args:
        here: kind of kernels -> one array per output, as `program.answer` gives them.
        there: the same of the emulated processor.
        specs: of the outputs, as `graph.interface` returns them.
        has_integers: whether the file computes in integers, or from stored ones, anywhere.
        has_floats: whether it computes in floats anywhere.
    """
    outputs = []
    for number, spec in enumerate(specs):
        ours, theirs = ({kind: side[kind][number] for kind in side} for side in (here, there))
        rounding = {kind: allowed(values, spec, has_integers=has_integers) for kind, values in ours.items()}
        if not has_floats:
            rounding["reference"] = 0.0
        outputs.append(
            Arm64Output(
                name=spec["name"],
                in_steps=ours["xnnpack"].dtype.kind != "f" and spec["scale"] is not None,
                reference=_compare(ours["reference"], theirs["reference"], rounding["reference"]),
                xnnpack=_compare(ours["xnnpack"], theirs["xnnpack"], rounding["xnnpack"]),
                agreement=_agreement(ours["xnnpack"], theirs["xnnpack"]),
            )
        )
    return tuple(outputs)


def _compare(ours: np.ndarray, theirs: np.ndarray, rounding: float) -> Difference:
    return Difference(_difference(ours, theirs), rounding, _same_bits(ours, theirs))


def allowed(answers: np.ndarray, spec: Mapping[str, Any], *, has_integers: bool) -> float:
    """Return by how much another processor may differ from these answers of this machine.

    Steps for a quantized output, nothing for other integers, which are class numbers or counts. A value that
    rounds to the other side of a step inside the file comes out as noise of that size, so float outputs of a
    quantized file get one step of the int8 scale that their range, with 0 in it, would have.
    """
    if answers.dtype.kind != "f":
        return 0.0 if spec["scale"] is None else float(STEPS)
    low, high = float(answers.min(initial=0.0)), float(answers.max(initial=0.0))
    if has_integers:
        return (high - low) / LEVELS
    return ROUNDING * max(1.0, high, -low)


def _same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def _difference(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference; infinite where only one side is finite, or the shapes differ."""
    if first.shape != second.shape:
        return float("inf")
    ours, theirs = first.astype(np.float64), second.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(ours - theirs))
    return float(np.where(np.isnan(distance), np.inf, distance).max(initial=0.0))


def _agreement(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return the share of answers with the same largest entry of the last axis."""
    if first.ndim < 2 or first.shape[-1] < 2 or first.shape != second.shape:
        return None
    return float((first.argmax(-1) == second.argmax(-1)).mean())
