"""The verdict on one case in one precision: ok, refused rightly, or a fault that is put in words."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal

from benchmarks.bug_reports import converting
from benchmarks.bug_reports import running
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import measure
from benchmarks.bug_reports.isolation import Ended
from benchmarks.bug_reports.isolation import Failed
from benchmarks.bug_reports.isolation import Isolated

QUANTIZED = ("dynamic", "int8", "int8_full", "int16x8")


@dataclass(frozen=True)
class Verdict:
    """What came of one case in one precision.

    Attributes:
        case: its name.
        precision: the one asked for.
        outcome: "ok": a file within the bounds; "refused": rightly; "fault".
        detail: what is wrong, or the refusal's text.
        scores: what was measured on the file.
        seconds: how long it took.
    """

    case: str
    precision: str
    outcome: Literal["ok", "refused", "fault"]
    detail: str = ""
    scores: Mapping[str, float] | None = None
    seconds: float = 0.0


def judge(case: Case, precision: str, folder: Path, converter: Isolated, runner: Isolated) -> Verdict:
    """Convert a case in one process, run the file in another, and compare with what is expected.

    Args:
        case: of which `expect` lists the precision.
        precision: as `convert` takes it.
        folder: an empty folder for the file.
        converter: the process that builds and converts.
        runner: the process that runs the file.
    """
    expected = case.expect[precision]
    path = folder / "model.tflite"
    try:
        attempt = converter.call(converting.attempt, case.name, precision, str(path))
    except (Ended, Failed) as error:
        return Verdict(case.name, precision, "fault", f"convert: {error}")
    left = sorted(entry.name for entry in folder.iterdir())
    if attempt.error:
        wrong = _refusal_fault(attempt, expected, left)
        return Verdict(case.name, precision, "fault" if wrong else "refused", wrong or attempt.error)
    if expected.outcome == "refusal":
        return Verdict(case.name, precision, "fault", f"a file instead of: {expected.message!r}")
    if left != ["model.manifest.json", path.name]:
        return Verdict(case.name, precision, "fault", f"the folder holds {left}")
    try:
        facts = runner.call(running.examine, str(path), attempt.samples)
        scores = measure(attempt.reference, facts.outputs)
    except (Ended, Failed, ValueError) as error:
        return Verdict(case.name, precision, "fault", f"running the file: {error}")
    scores |= {"max_partitions": facts.partitions + (not facts.is_whole), "max_kb": facts.kilobytes}
    faults = [*_file_faults(precision, attempt, facts), *_bound_faults(expected.bounds, scores, facts)]
    return Verdict(case.name, precision, "fault" if faults else "ok", "; ".join(faults), scores)


def _refusal_fault(attempt: Any, expected: Any, left: list[str]) -> str:
    """What is wrong with an error, "" if it is what was wanted."""
    if expected.outcome == "file":
        return f"refused: {attempt.error}"
    if not attempt.is_refusal:
        return f"an error of the wrong kind: {attempt.error}"
    if expected.message.lower() not in attempt.error.lower():
        return f"the message lacks {expected.message!r}: {attempt.error}"
    return f"refused, and left {left}" if left else ""


def _file_faults(precision: str, attempt: Any, facts: running.Facts) -> Iterator[str]:
    """What no file may do, whatever the case."""
    if facts.custom:
        yield f"operators that are not builtin: {', '.join(facts.custom)}"
    if not facts.is_repeatable:
        yield "a second run answers otherwise"
    if precision in QUANTIZED and attempt.has_weights and not facts.int8_weights:
        yield "no int8 weights"
    if precision == "int8_full" and facts.float_tensors:
        yield f"{facts.float_tensors} float tensors"
    columns = attempt.samples if isinstance(attempt.samples, dict) else {"": attempt.samples}
    for values, kind in zip(columns.values(), facts.input_types.values(), strict=True):
        wanted = str(values.dtype)
        allowed = (wanted, wanted.replace("64", "32"))
        if values.dtype.kind in "iu" and kind.split()[0] not in allowed:
            yield f"an input of type {kind} where Keras takes {wanted}"


def _bound_faults(bounds: Mapping[str, Any], scores: Mapping[str, float], facts: Any) -> Iterator[str]:
    """Every bound that is not kept; a score that is no number keeps none."""
    for name, bound in bounds.items():
        if name == "max_versions":
            for operator, highest in bound.items():
                if facts.versions.get(operator, 0) > highest:
                    yield f"{operator} of version {facts.versions[operator]}, at most {highest} allowed"
        elif name.startswith("min") and not scores[name] >= bound:
            yield f"{name[4:]} {scores[name]:.4g}, at least {bound:g} wanted"
        elif name.startswith("max") and not scores[name] <= bound:
            yield f"{name[4:]} {scores[name]:.4g}, at most {bound:g} wanted"
