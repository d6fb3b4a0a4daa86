"""The last stages of a conversion: the manifest, the report, the floors, and the files."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_attention.tflite import fidelity
from keras_attention.tflite import files
from keras_attention.tflite import loop_rules
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import reporting
from keras_attention.tflite.building import FloatForm
from keras_attention.tflite.choosing import Choice
from keras_attention.tflite.judging import Reference
from keras_attention.tflite.report import Report


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


def finish(
    form: FloatForm,
    choice: Choice,
    reference: Reference,
    entries: Mapping[str, Any],
    path: Path | None,
) -> Conversion:
    """Seal the chosen file, report on it, refuse it below a floor, and write it.

    Args:
        form: the float file.
        choice: the chosen candidate, and all others.
        reference: what they were compared with.
        entries: what the app must know, as `manifest_entries.check_entries` returns it.
        path: the file to write, or None.

    Raises:
        FidelityError: the file is below a floor; nothing was written.
        ConversionError: a loop was kept where it can't be quantized.
    """
    candidate, evidence = choice.best.candidate, reference.evidence
    loops = loop_rules.check_loops(form.loops, form.sizes, candidate.precision, form.max_unrolled_steps)
    versions = {package: importlib.metadata.version(package) for package in reference.packages}
    sealed = manifests.seal(
        candidate.content,
        entries,
        precision=candidate.precision,
        packages=versions,
        tasks=(*choice.best.measured["task"], *["regression"] * form.states),  # states are outputs too
        source=evidence.source,
        samples=list(evidence.compared.inputs.values()),
        keras_answers=reference.answers,
        file_answers=candidate.answers,
    )
    report = reporting.make_report(
        form,
        choice,
        sealed,
        reference,
        remarks=(
            *loops,
            *evidence.remarks,
            *reference.check_float_form(),
            *reporting.remarks_on(candidate),
            *sealed.remarks,
        ),
        versions=versions,
    )
    fidelity.refuse(report, choice.best.faults or ([] if _passes(choice) else [choice.reason]))
    if path is not None:
        files.write_whole(path, sealed.content)
        files.write_whole(manifests.sidecar_path(path), sealed.sidecar())
    return Conversion(sealed.content, path, report)


def _passes(choice: Choice) -> bool:
    """Tell whether a search found a file that serves; a single precision was not searched."""
    return not choice.rows or any(row["chosen"] and row["passes"] for row in choice.rows)
