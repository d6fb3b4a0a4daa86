"""Puts what the stages measured into a `Report`."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import worst_samples
from keras_attention.tflite.building import Candidate
from keras_attention.tflite.building import FloatForm
from keras_attention.tflite.choosing import Choice
from keras_attention.tflite.data.summary import summarize
from keras_attention.tflite.manifest import Sealed
from keras_attention.tflite.report import Report
from keras_attention.tflite.samples import Samples
from keras_attention.tflite.size_prediction import predict_file_bytes

SLOWER = 1.1
"""Ratio of latencies above which the report says that a file is slower than float32."""


def make_report(
    model: Any,
    form: FloatForm,
    choice: Choice,
    sealed: Sealed,
    calibrating: Samples | None,
    *,
    answers: list[np.ndarray],
    float32_size: int,
    **measured: Any,
) -> Report:
    """Return the report of the chosen file.

    Args:
        model: the Keras model, None where there is none and no recurrent layer was unrolled.
        form: the float file.
        choice: the chosen candidate, and all others.
        sealed: the file with its manifest.
        calibrating: calibration samples.
        answers: those of the reference.
        float32_size: size of the float32 file without manifest.
        **measured: further fields of the report, as they are.
    """
    candidate, tasks = choice.best.candidate, choice.best.measured["task"]  # states have no task
    added = len(sealed.content) - len(candidate.content)
    unrolled = sum(size for path, size in form.sizes.items() if path not in form.loops)
    quantization = dict(candidate.quantization)
    graph_changes = {f"graph, {i + 1}": text for i, text in enumerate(quantization.pop("changes"))}
    sensitivity = tuple(quantization.pop("sensitivity", ()))
    manifest_size = len(sealed.content) - len(candidate.content)
    predicted = predict_file_bytes(model, unrolled, candidate.precision) + manifest_size if unrolled else 0
    file = {**candidate.file}
    for name in ("inputs", "outputs", "partition_map"):
        file[name] = tuple(file[name])
    return Report(
        precision=candidate.precision,
        size_bytes=len(sealed.content),
        float32_size_bytes=float32_size + manifest_size,
        predicted_size_bytes=predicted,
        latency_ms=candidate.latency,
        calibration=_calibration(calibrating, quantization),
        changes={**form.changes, **graph_changes},
        candidates=tuple(_with_manifest(row, added) for row in choice.rows),
        reason=choice.reason,
        sensitivity=sensitivity,
        worst_samples=worst_samples.find(
            answers[: len(tasks)], candidate.answers[: len(tasks)], tasks, form.outputs[: len(tasks)]
        ),
        manifest=dict(sealed.document["app"]),
        **file,
        **choice.best.measured,
        **measured,
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
