"""Puts what the stages measured into a `Report`."""

from __future__ import annotations

from typing import Any

from keras_attention.tflite import fidelity
from keras_attention.tflite import worst_samples
from keras_attention.tflite.building import Candidate
from keras_attention.tflite.building import FloatForm
from keras_attention.tflite.choosing import Choice
from keras_attention.tflite.data.summary import summarize
from keras_attention.tflite.judging import Reference
from keras_attention.tflite.manifest import Sealed
from keras_attention.tflite.report import Report
from keras_attention.tflite.samples import Samples
from keras_attention.tflite.size_prediction import predict_file_bytes

SLOWER = 1.1
"""Ratio of latencies above which the report says that a file is slower than float32."""


def make_report(
    form: FloatForm,
    choice: Choice,
    sealed: Sealed,
    reference: Reference,
    *,
    remarks: tuple[str, ...],
    versions: dict[str, str],
) -> Report:
    """Return the report of the chosen file.

    Args:
        form: the float file.
        choice: the chosen candidate, and all others.
        sealed: the file with its manifest.
        reference: what files were compared with.
        remarks: what the user should know.
        versions: package -> version.
    """
    answers, evidence = reference.answers, reference.evidence
    candidate, tasks = choice.best.candidate, choice.best.measured["task"]  # states have no task
    manifest_size = len(sealed.content) - len(candidate.content)
    unrolled = sum(size for path, size in form.sizes.items() if path not in form.loops)
    quantization = dict(candidate.quantization)
    graph_changes = {f"graph, {i + 1}": text for i, text in enumerate(quantization.pop("changes"))}
    sensitivity = tuple(quantization.pop("sensitivity", ()))
    predicted = predict_file_bytes(reference.model, unrolled, candidate.precision) if unrolled else 0
    file = {**candidate.file}
    for name in ("inputs", "outputs", "partition_map"):
        file[name] = tuple(file[name])
    return Report(
        precision=candidate.precision,
        model_name=reference.name,
        reference=reference.title,
        evaluation_source=evidence.source,
        samples=len(evidence.compared),
        size_bytes=len(sealed.content),
        float32_size_bytes=form.size_bytes() + manifest_size,
        float32_sqnr_db=fidelity.worst_sqnr_db(answers, form.answers()),
        predicted_size_bytes=predicted + manifest_size if unrolled else 0,
        latency_ms=candidate.latency,
        calibration=_calibration(evidence.calibrating, quantization),
        changes={**form.changes, **graph_changes},
        candidates=tuple(_with_manifest(row, manifest_size) for row in choice.rows),
        reason=choice.reason,
        sensitivity=sensitivity,
        worst_samples=worst_samples.find(
            answers[: len(tasks)], candidate.answers[: len(tasks)], tasks, form.outputs[: len(tasks)]
        ),
        manifest=dict(sealed.document["app"]),
        sha256=sealed.document["file"]["sha256"],
        **file,
        **choice.best.measured,
        remarks=remarks,
        versions=versions,
    )


def _with_manifest(row: dict[str, Any], size: int) -> dict[str, Any]:
    """Count a manifest of the same size into each candidate, so that like is compared with like."""
    return row if row["size_bytes"] is None else {**row, "size_bytes": row["size_bytes"] + size}


def remarks_on(candidate: Candidate) -> list[str]:
    """Return what the user should know of a file: what stayed float, and whether it is slower."""
    remarks = []
    left = candidate.quantization["left"]
    if left and candidate.precision == "int16x8":
        remarks.append(f"No int16 kernel, so these operators stay float: {', '.join(sorted(set(left)))}.")
    if candidate.float_layers:
        remarks.append(f"Left in float, since int8 made too much noise: {', '.join(candidate.float_layers)}.")
    ratio = candidate.latency["min"] / candidate.latency["float32_min"]
    if ratio <= SLOWER or candidate.precision in ("float32", "float16"):
        return remarks
    if candidate.precision in ("int8_full", "int16x8"):
        return [
            *remarks,
            f"On this machine the {candidate.precision} file takes {ratio:.1f} times as long as float32: the "
            "CPU engine lacks integer kernels for parts of it. It is meant for NPUs and microcontrollers.",
        ]
    return [
        *remarks,
        f"On this machine the {candidate.precision} file takes {ratio:.2f} times as long as the float32 "
        "file: its products are too small for int8 to pay. Try 'float16', and measure on the phone.",
    ]


def _calibration(calibrating: Samples | None, quantization: dict[str, Any]) -> dict[str, Any]:
    """Return how the file was quantized; empty where no activation has a fixed scale."""
    if not quantization or (calibrating is None and quantization.get("ranges") == "none"):
        return {}
    if calibrating is None:
        return {"samples": 0, **quantization}
    return {"samples": len(calibrating), "inputs": summarize(calibrating.inputs), **quantization}
