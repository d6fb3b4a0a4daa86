"""`precision="auto"`: files of several precisions, each measured, and the one that serves best."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_attention.tflite.building import Candidate
from keras_attention.tflite.errors import ConversionError

LADDERS = {
    "cpu": ("float32", "float16", "dynamic", "int8"),
    "gpu": ("float32", "float16"),
    "npu": ("int8_full", "int16x8"),
    "microcontroller": ("int8_full", "int16x8"),
}
"""Target -> precisions that run well there. NPUs and microcontrollers take integers only."""
INTEGER_TARGETS = frozenset({"npu", "microcontroller"})
FLOATS = frozenset({"float32", "float16"})
SLOWEST, SLACK_MS = 1.1, 0.02
"""A file that takes longer than float32 by this factor is not chosen for a CPU; a few microseconds more,
which is what the conversions of a tiny model cost, are no reason."""
LEFT_IN_FLOAT = (1, 2, 4, 8)
"""Numbers of layers that are left in float, one after the other, where int8 misses a floor."""


@dataclass(frozen=True)
class Judged:
    """A candidate with what was measured against Keras.

    Attributes:
        candidate: the file.
        measured: as `fidelity.compare` returns it.
        faults: what is below a floor, in words.
    """

    candidate: Candidate
    measured: dict[str, Any]
    faults: list[str]


@dataclass(frozen=True)
class Choice:
    """The outcome of a search.

    Attributes:
        best: the chosen one, or the one that came closest if none passes.
        rows: one for each candidate, as `Report.candidates` holds them.
        reason: why, in a sentence.
    """

    best: Judged
    rows: tuple[dict[str, Any], ...]
    reason: str


Make = Callable[[str, Sequence[str]], Judged]


def choose(make: Make, target: str, *, loops: bool) -> Choice:
    """Make and judge the candidates for a target and return the choice.

    Args:
        make: (precision, layers to leave in float) -> the judged file; raises ConversionError.
        target: key of `LADDERS`.
        loops: whether the model kept recurrent loops, which can't be quantized.

    Raises:
        ConversionError: no candidate could be made at all.
    """
    judged: list[Judged] = []
    failed: list[dict[str, Any]] = []
    for precision in LADDERS[target]:
        if loops and precision not in FLOATS:
            failed.append(_failure(precision, "a loop can't be quantized; raise max_unrolled_steps"))
            continue
        try:
            judged.append(make(precision, ()))
        except ConversionError as error:
            failed.append(_failure(precision, str(error)))
    if target == "cpu":
        judged += _with_float_layers(make, judged)
    if not judged:
        reasons = "; ".join(f"{row['precision']}: {row['remark']}" for row in failed)
        raise ConversionError(f"No file for target={target!r} can be made. {reasons}")
    passing = [one for one in judged if not one.faults and _serves(one, target)]
    best = min(passing, key=_cost) if passing else max(judged, key=lambda one: one.measured["sqnr_db"])
    rows = [_row(one, best, target) for one in judged] + failed
    return Choice(best, tuple(rows), _reason(best, passing, len(rows), target))


def _with_float_layers(make: Make, judged: Sequence[Judged]) -> list[Judged]:
    """Where int8 misses a floor, leave the noisiest layers in float, more and more of them."""
    tried = [one for one in judged if one.candidate.precision == "int8"]
    if not tried or not tried[0].faults:
        return []
    noisy = [row["layer"] for row in tried[0].candidate.quantization.get("sensitivity", ())]
    found: list[Judged] = []
    for count in LEFT_IN_FLOAT:
        if count > len(noisy) or (found and not found[-1].faults):
            break
        found.append(make("int8", noisy[:count]))
    return found


def _serves(one: Judged, target: str) -> bool:
    """Tell whether the file runs as the target wants it."""
    if target in INTEGER_TARGETS:
        return one.candidate.file["tensor_dtypes"].get("float32", 0) == 0
    return target != "cpu" or _slowdown(one) <= SLOWEST


def _slowdown(one: Judged) -> float:
    """Return the latency as a share of float32's, both with the slack."""
    latency = one.candidate.latency
    return (latency["min"] + SLACK_MS) / (latency["float32_min"] + SLACK_MS)


def _cost(one: Judged) -> float:
    """Weigh size and latency alike; pieces outside of the CPU engine count as slower."""
    pieces = 1.0 if one.candidate.file["fully_delegated"] else 1.5
    return len(one.candidate.content) * _slowdown(one) * pieces


def _name(candidate: Candidate) -> str:
    if not candidate.float_layers:
        return candidate.precision
    return f"{candidate.precision}, {len(candidate.float_layers)} layers in float"


def _row(one: Judged, best: Judged, target: str) -> dict[str, Any]:
    remark = "; ".join(one.faults)
    if not remark and not _serves(one, target):
        latency = one.candidate.latency
        slow = f"takes {latency['min'] / latency['float32_min']:.2f} times as long as float32"
        remark = "tensors stay float" if target in INTEGER_TARGETS else slow
    if one.candidate.float_layers:
        remark = "; ".join(filter(None, [f"in float: {', '.join(one.candidate.float_layers)}", remark]))
    return {
        "precision": _name(one.candidate),
        "size_bytes": len(one.candidate.content),
        "latency_ms": {key: one.candidate.latency[key] for key in ("min", "median")},
        "agreement": one.measured["agreement"],
        "sqnr_db": one.measured["sqnr_db"],
        "metric": one.measured["metric"],
        "delegate_partitions": one.candidate.file["delegate_partitions"],
        "fully_delegated": one.candidate.file["fully_delegated"],
        "passes": not one.faults and _serves(one, target),
        "chosen": one is best,
        "remark": remark,
    }


def _failure(precision: str, remark: str) -> dict[str, Any]:
    nothing = ("size_bytes", "agreement", "sqnr_db", "metric", "delegate_partitions", "fully_delegated")
    return {
        "precision": precision,
        **dict.fromkeys(nothing),
        "latency_ms": {"min": None, "median": None},
        "passes": False,
        "chosen": False,
        "remark": remark,
    }


def _reason(best: Judged, passing: Sequence[Judged], count: int, target: str) -> str:
    name = _name(best.candidate)
    if not passing:
        return f"None of {count} files for target={target!r} keeps the floors; {name} comes closest."
    latency = best.candidate.latency
    ratio = latency["min"] / latency["float32_min"]
    numbers = (
        f"{len(best.candidate.content) / 1000:,.0f} kB before the manifest, "
        f"{ratio:.2f} times the latency of float32, agreement {best.measured['agreement']:.4f}"
    )
    if len(passing) == 1:
        return f"{name} is the only one of {count} files that keeps the floors: {numbers}."
    others = f"of the {len(passing)} files that keep the floors"
    return f"{name} has the least size times latency {others}: {numbers}."
