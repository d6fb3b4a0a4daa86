"""Samples taken out of whatever held them, and how many of them are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_CALIBRATION_SAMPLES = 1024
"""More calibration samples than this add minutes and no information; an even choice is taken."""
MAX_EVALUATION_SAMPLES = 10_000
READ_FACTOR = 8
"""A stream is read up to this many times the number of samples that are kept, so that an endless one ends."""


@dataclass(frozen=True)
class Gathered:
    """Arrays taken from the user's data, not yet checked against a model.

    Attributes:
        inputs: an array, a list of arrays in input order, or a dict by input name.
        targets: what the model should answer, one per sample, or None.
        remarks: what the user should know about the choice.
    """

    inputs: Any
    targets: Any = None
    remarks: tuple[str, ...] = ()


def most_samples(argument: str) -> int:
    """Return how many samples of "calibration" or "evaluation" are kept."""
    return MAX_CALIBRATION_SAMPLES if argument == "calibration" else MAX_EVALUATION_SAMPLES


def cut_remark(argument: str, kept: int, given: int, what: str = "samples") -> str:
    """Return the remark that not all was taken."""
    return f"`{argument}`: {kept:,} of {given:,} {what}, evenly spread, are used."
