"""`convert`: from a Keras model to a verified .tflite file. See docs/conversion.md for the stages."""

from __future__ import annotations

import functools
import importlib.metadata
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attention.tflite import arguments
from keras_attention.tflite import checks
from keras_attention.tflite import child
from keras_attention.tflite import fidelity
from keras_attention.tflite import files
from keras_attention.tflite import sample_scales
from keras_attention.tflite import samples as sampling
from keras_attention.tflite.arguments import Precision
from keras_attention.tflite.arguments import Task
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.loading import load_model
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.report import Report
from keras_attention.tflite.samples import Samples

MAX_CALIBRATION_SAMPLES = 1024
"""More calibration samples than this add minutes and no information; an even choice is taken."""
RANDOM_SAMPLES = 16
SLOWER = 1.1
"""Ratio of latencies above which the report says that a file is slower than float32."""
_PACKAGES = ("keras", "tensorflow", "ai-edge-litert", "litert-quantizer", "numpy")


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
        """Write the report as JSON and return the path."""
        return self.report.write(path)


def convert(
    model: keras.Model | str | Path,
    path: str | Path | None = None,
    *,
    precision: Precision = "int8",
    calibration: Any = None,
    evaluation: Any = None,
    min_agreement: float | None = None,
    min_sqnr_db: float | None = None,
    max_metric_drop: float | None = None,
    task: Task | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    max_unrolled_steps: int = 512,
    verbose: int = 1,
) -> Conversion:
    """Convert a Keras model to a .tflite file, compare it with Keras on real inputs, and write it.

    The file takes one sample at a time, holds builtin operators only, and its signature has Keras'
    input names in Keras' order. Native code runs in a child process: whatever happens to it, the
    caller's process, model and files are unharmed.

    Args:
        model: a built `keras.Model` of any kind, or the path of a .keras file (read in safe mode).
        path: the .tflite file to write, whole or not at all. Nothing is written when None.
        precision: "float32"; "float16": weights in half precision; "dynamic": int8 weights, activations
            quantized at run time, needs no calibration; "int8": int8 wherever the phone's CPU runs it in
            one piece, scales from `calibration`. Defaults to "int8".
        calibration: representative real samples, needed for "int8": an array, a list of arrays in input
            order, or a dict by input name, the first axis counting samples; a tuple of two is taken as
            (inputs, targets). 100 to 1,000 samples are enough.
        evaluation: other real samples to compare on, in the same forms; targets as class indices, one-hot
            rows or values add the task metric to the report. Defaults to the calibration samples, and
            without those to random numbers, which prove less (the report says so).
        min_agreement: least share, 0 to 1, of samples answered as by Keras.
        min_sqnr_db: least signal-to-quantization-noise ratio, in dB. Defaults to 10, below which a file
            is certainly broken.
        max_metric_drop: largest loss of accuracy (or gain of mean absolute error) against Keras.
        task: "classification" or "regression" for all outputs. Defaults to classification where an
            output's last axis has two entries or more.
        input_shapes: input name -> shape without batch axis, for sizes that the model leaves open.
        max_unrolled_steps: recurrent layers up to this length are written out step by step.
        verbose: 1 shows progress and the report's table; 0 is silent.

    Returns:
        The `Conversion`: content, path and report.

    Raises:
        FidelityError: the file is less exact than a floor allows; its `report` holds the numbers.
        ConversionError: the model can't be converted as asked; layer and cure are named.
        ValueError, TypeError, OSError: an argument is wrong; it is named, with what is allowed.

    Example:
    ```python
    import keras
    import numpy as np
    from keras_attention import tflite

    model = keras.Sequential([keras.Input((16, 3), name="window"), keras.layers.LSTM(8),
                              keras.layers.Dense(4, activation="softmax")])
    windows = np.random.default_rng(0).normal(size=(100, 16, 3))
    result = tflite.convert(model, precision="int8", calibration=windows, verbose=0)
    print(result.report.agreement, result.report.size_bytes)
    ```
    """
    floors = {
        "min_agreement": min_agreement,
        "min_sqnr_db": min_sqnr_db,
        "max_metric_drop": max_metric_drop,
    }
    arguments.check_arguments(precision, floors, task, input_shapes, max_unrolled_steps, calibration)
    target = arguments.check_path(path, model)
    model = load_model(model) if isinstance(model, str | Path) else model
    checks.check_model(model)

    first = evaluation if evaluation is not None else calibration
    signature = read_signature(
        model, None if first is None else sampling.split_targets(first)[0], input_shapes
    )
    calibrating = (
        None
        if calibration is None
        else sampling.check_samples("calibration", calibration, signature, spread=True)
    )
    compared, source = _evaluation(evaluation, calibrating, signature, model)
    if calibrating is not None:
        sample_scales.check_alike(calibrating, compared)
    with StageProgress(verbose) as progress, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress("predict", 0, 0)
        reference = fidelity.predict(model, signature, compared)
        fidelity.check_targets(reference, compared.targets, max_metric_drop, task)
        _store(folder / "evaluation.npz", compared)
        if calibrating is not None and precision == "int8":
            _store(folder / "calibration.npz", calibrating.take(MAX_CALIBRATION_SAMPLES))
        result = _convert_in_child(model, signature, folder, precision, max_unrolled_steps, progress)
        content = (folder / "model.tflite").read_bytes()
        float32_size = (folder / "float32.tflite").stat().st_size
        converted = {
            kind: fidelity.load_outputs(folder / f"{kind}_outputs.npz") for kind in ("float32", "model")
        }
    remarks = checks.check_loops(result["loops"], precision, max_unrolled_steps)
    exact = functools.partial(fidelity.exact_answers, model, signature, compared)
    remarks += fidelity.check_float_form(reference, converted["float32"], model, result["changes"], exact)
    if source == "random":
        remarks.append(
            "Compared on random inputs only. Pass real samples as `evaluation` for numbers that count."
        )
    remarks += _slower(precision, latency := _latency(result["latency"]))
    measured = fidelity.compare(reference, converted["model"], compared.targets, task)
    report = Report(
        precision=precision,
        size_bytes=len(content),
        float32_size_bytes=float32_size,
        samples=len(compared),
        evaluation_source=source,
        float32_sqnr_db=fidelity.worst_sqnr_db(reference, converted["float32"]),
        latency_ms=latency,
        calibration=_calibration(calibrating, result) if precision == "int8" else {},
        changes=result["changes"],
        remarks=tuple(remarks),
        versions={package: importlib.metadata.version(package) for package in _PACKAGES},
        **{
            **result["file"],
            "inputs": tuple(result["file"]["inputs"]),
            "outputs": tuple(result["file"]["outputs"]),
        },
        **measured,
    )
    fidelity.check_floors(report, min_agreement, min_sqnr_db, max_metric_drop)
    if target is not None:
        files.write_whole(target, content)
    if verbose:
        report.print()
    return Conversion(content, target, report)


def _evaluation(
    evaluation: Any, calibrating: Samples | None, signature: ModelSignature, model: keras.Model
) -> tuple[Samples, str]:
    if evaluation is not None:
        return sampling.check_samples("evaluation", evaluation, signature, spread=False), "evaluation"
    if calibrating is not None:
        return calibrating, "calibration"
    return fidelity.random_samples(signature, model, RANDOM_SAMPLES), "random"


def _store(path: Path, samples: Samples) -> None:
    """Write the inputs in order; their names may be no file names."""
    np.savez(path, *samples.inputs.values())


def _convert_in_child(
    model: keras.Model,
    signature: ModelSignature,
    folder: Path,
    precision: str,
    max_unrolled_steps: int,
    progress: StageProgress,
) -> dict[str, Any]:
    """Trace the model here if its backend is TensorFlow, else in the child, and convert it there."""
    job = {
        "task": "convert",
        "precision": precision,
        "inputs": signature.names(),
        "outputs": None,
        "max_unrolled_steps": max_unrolled_steps,
    }
    traced: dict[str, Any] = {}
    if keras.backend.backend() == "tensorflow":
        from keras_attention.tflite import saved_model

        progress("export", 0, 0)
        try:
            job["outputs"], lowering = saved_model.export_saved_model(
                model, signature, folder / "saved_model", max_unrolled_steps
            )
        except Exception as error:
            raise ConversionError(f"Model {model.name!r} can't be traced for the file: {error}") from error
        checks.check_loops(lowering.loops, precision, max_unrolled_steps)
        traced = {"changes": lowering.changes, "loops": lowering.loops}
    else:
        model.save(folder / "model.keras")
    try:
        return {**child.run_job(folder, job, progress), **traced}
    except ConversionError as error:
        shapes = ", ".join(str(spec) for spec in signature.inputs)
        raise ConversionError(f"Model {model.name!r} ({shapes}) to {precision}: {error}") from error


def _latency(measured: list[dict[str, float]]) -> dict[str, float]:
    float32, final = measured
    return {**final, "float32_min": float32["min"], "float32_median": float32["median"]}


def _slower(precision: str, latency: dict[str, float]) -> list[str]:
    """Remark on a file that gains nothing in speed."""
    ratio = latency["min"] / latency["float32_min"]
    if ratio <= SLOWER or precision not in ("dynamic", "int8"):
        return []
    return [
        f"On this machine the {precision} file takes {ratio:.2f} times as long as the float32 file: its "
        "products are too small for int8 to pay. Try precision='float16', and measure on the phone."
    ]


def _calibration(calibrating: Samples | None, result: dict[str, Any]) -> dict[str, Any]:
    count = 0 if calibrating is None else min(len(calibrating), MAX_CALIBRATION_SAMPLES)
    return {"samples": count, **result["quantization"]}
