"""The last stages of a conversion: the manifest, the report, the floors, and the files."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import fidelity
from keras_attention.tflite import files
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import reporting
from keras_attention.tflite.building import FloatForm
from keras_attention.tflite.choosing import Choice
from keras_attention.tflite.report import Report
from keras_attention.tflite.samples import Samples


@dataclass(frozen=True)
class Conversion:
    """A converted and verified model.

    Attributes:
        content: bytes of the .tflite file.
        path: where it was written, or None.
        report: what was measured.
    """

    content: bytes
    path: Path | None
    report: Report

    def write_report(self, path: str | Path) -> Path:
        """Write the report, as JSON or as a page by the ending of `path`, and return the path."""
        return self.report.write(path)


@dataclass(frozen=True)
class Evidence:
    """What files are compared with, and on which samples.

    Attributes:
        reference: who gave the reference answers, "Keras" or "the float file".
        answers: the reference answers, one array per output.
        compared: the samples that were answered.
        source: "evaluation", "calibration" or "random": whose samples they are.
        calibrating: calibration samples, or None.
    """

    reference: str
    answers: list[np.ndarray]
    compared: Samples
    source: str
    calibrating: Samples | None


def finish(
    form: FloatForm,
    choice: Choice,
    evidence: Evidence,
    *,
    model: Any,
    name: str,
    entries: Mapping[str, Any],
    packages: Sequence[str],
    float32: tuple[list[np.ndarray], int],
    remarks: Sequence[str],
    path: Path | None,
    verbose: int,
) -> Conversion:
    """Seal the chosen file, report on it, refuse it below a floor, and write it.

    Args:
        form: the float file.
        choice: the chosen candidate, and all others.
        evidence: the reference answers and the samples.
        model: the Keras model, None where there is none.
        name: of the model, for the report.
        entries: what the app must know, as `manifest_entries.check_entries` returns it.
        packages: whose versions the report and the manifest hold.
        float32: answers and size of the float32 file.
        remarks: what the user should know.
        path: the file to write, or None.
        verbose: whether the report is printed.

    Raises:
        FidelityError: the file is below a floor; nothing was written.
    """
    candidate = choice.best.candidate
    versions = {package: importlib.metadata.version(package) for package in packages}
    sealed = manifests.seal(
        candidate.content,
        entries,
        precision=candidate.precision,
        packages=versions,
        tasks=(*choice.best.measured["task"], *["regression"] * form.states),  # states are outputs too
        source=evidence.source,
        samples=list(evidence.compared.inputs.values()),
        keras_answers=evidence.answers,
        file_answers=candidate.answers,
    )
    report = reporting.make_report(
        model,
        form,
        choice,
        sealed,
        evidence.calibrating,
        answers=evidence.answers,
        float32_size=float32[1],
        model_name=name,
        reference=evidence.reference,
        evaluation_source=evidence.source,
        samples=len(evidence.compared),
        float32_sqnr_db=fidelity.worst_sqnr_db(evidence.answers, float32[0]),
        remarks=(*remarks, *sealed.remarks),
        versions=versions,
    )
    fidelity.refuse(report, choice.best.faults or ([] if _passes(choice) else [choice.reason]))
    if path is not None:
        files.write_whole(path, sealed.content)
        files.write_whole(manifests.sidecar_path(path), sealed.sidecar())
    if verbose:
        report.print()
    return Conversion(sealed.content, path, report)


def _passes(choice: Choice) -> bool:
    """Tell whether a search found a file that serves; a single precision was not searched."""
    return not choice.rows or any(row["chosen"] and row["passes"] for row in choice.rows)
