"""`quantize`: from a float .tflite file of any origin to a verified quantized one, without its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import arguments
from keras_attention.tflite import building
from keras_attention.tflite import child
from keras_attention.tflite import fidelity
from keras_attention.tflite import finishing
from keras_attention.tflite import foreign
from keras_attention.tflite import judging
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest_entries
from keras_attention.tflite.arguments import IoDtype
from keras_attention.tflite.arguments import Precision
from keras_attention.tflite.arguments import Target
from keras_attention.tflite.arguments import Task
from keras_attention.tflite.arguments import Wanted
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.finishing import Conversion
from keras_attention.tflite.judging import Reference
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.progress import StageProgress

REFERENCE = "the float file"
_PACKAGES = ("ai-edge-litert", "litert-quantizer", "numpy")


def quantize(
    file: str | Path | bytes,
    path: str | Path | None = None,
    *,
    precision: Precision = "int8",
    calibration: Any = None,
    evaluation: Any = None,
    target: Target = "cpu",
    min_agreement: float | Mapping[str, float] | None = None,
    min_sqnr_db: float | None = None,
    max_metric_drop: float | None = None,
    task: Task | None = None,
    io_dtype: IoDtype | None = None,
    sensitivity: bool = False,
    manifest: Mapping[str, Any] | None = None,
    verbose: int = 1,
) -> Conversion:
    """Quantize a float .tflite file, compare it with the float file on real inputs, and write it.

    The file may come from TensorFlow, Keras, PyTorch or elsewhere; the model itself is not needed. An open
    batch size becomes 1, float16 weights are turned back to float32 first, and a file without a signature
    gets one. All else is as in `convert`, with the answers of the float file in place of Keras'.

    Args:
        file: the .tflite file, or its bytes.
        path: the .tflite file to write, whole or not at all. Nothing is written when None.
        precision: as in `convert`; "float32" gives the float file with fixed shapes. Defaults to "int8".
        calibration: real samples, as `convert` takes them, by the names of the file's inputs.
        evaluation: other real samples to compare on, in the same forms. Defaults to the calibration samples,
            and without those to random numbers, which prove less (the report says so).
        target: where the file is to run, for "auto": "cpu", "gpu", "npu" or "microcontroller". The last also
            goes with "int8_full" and "int16x8": products become convolutions, which tflite-micro rounds as
            LiteRT does.
        min_agreement: least share, 0 to 1, of samples answered as by the float file. Defaults to 0.99 for
            "auto".
        min_sqnr_db: least signal-to-quantization-noise ratio, in dB. Defaults to that of `convert`.
        max_metric_drop: largest loss of accuracy (or gain of mean absolute error) against the float file.
        task: "classification" or "regression" for all outputs. Defaults to classification where an
            output's last axis has two entries or more.
        io_dtype: type of the inputs and outputs that are float in the float file, as in `convert`.
        sensitivity: whether the report says how much noise each layer makes by itself. Always so for "auto".
        manifest: what the app must know, as in `convert`. Defaults to that of the float file, if it has one.
        verbose: 1 shows progress and the report's table; 0 is silent.

    Returns:
        The `Conversion`: content, path and report.

    Raises:
        FidelityError: the file is less exact than a floor allows; its `report` holds the numbers.
        ConversionError: the file can't be quantized: it is damaged, quantized already, holds several
            subgraphs, custom or Flex operators, or a state; the message says which, and the cure.
        ValueError, TypeError, OSError: an argument is wrong; it is named, with what is allowed.

    Example:
    ```python
    import numpy as np
    from keras_attention import tflite

    samples = np.load("samples.npz")["window"]
    result = tflite.quantize("float.tflite", "int8.tflite", precision="int8", calibration=samples)
    print(result.report.agreement, result.report.size_bytes)
    ```
    """
    floors = fidelity.Floors(min_agreement, min_sqnr_db, max_metric_drop)
    wanted = Wanted(precision, target, floors, task, io_dtype, sensitivity)
    wanted = arguments.check(wanted, calibration)
    content, title = _read(file)
    written = arguments.check_path(path, None if isinstance(file, bytes) else file, "file")
    entries = manifest_entries.check_entries(manifest)
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        (folder / "given.tflite").write_bytes(content)
        found = _run(folder, {"task": "adopt"}, progress, title, foreign.limits())
        signature, outputs = _signature(found), [entry["name"] for entry in found["outputs"]]
        floors.check_outputs(outputs)
        entries = entries if manifest is not None else found["entries"]
        for key, side in manifest_entries.SIDES.items():
            shapes = {entry["name"]: entry["shape"] for entry in found[side]}
            kinds = [entry["dtype"] for entry in found[side]]
            manifest_entries.name_axes(entries, key, shapes, kinds)
        evidence = judging.take_evidence(calibration, evaluation, signature, None)
        calibrating = evidence.calibrating if precision in arguments.CALIBRATED else None
        building.store(folder, evidence.compared, calibrating)
        _run(folder, {"task": "answer", "inputs": signature.names()}, progress, title)
        answers = fidelity.finite_answers(fidelity.load_outputs(folder / "given_outputs.npz"), title)
        fidelity.check_targets(answers, evidence.compared.targets, max_metric_drop, task)
        form = building.FloatForm(title, folder, signature.names(), outputs, found["changes"], {}, {})
        reference = Reference(
            title=REFERENCE,
            name="" if isinstance(file, bytes) else Path(file).stem,
            model=None,
            packages=_PACKAGES,
            answers=answers,
            evidence=evidence,
            check_float_form=lambda: _check_prepared(answers, form.answers(), title),
        )
        choice = judging.make_judged(form, reference, wanted, progress)
        conversion = finishing.finish(form, choice, reference, entries, written)
    if verbose:
        conversion.report.print()
    return conversion


def _read(file: Any) -> tuple[bytes, str]:
    """Return the bytes of the float file, and how messages call it."""
    if isinstance(file, bytes):
        return file, "The file"
    if not isinstance(file, str | Path):
        raise TypeError(f"`file` must be the path of a .tflite file or its bytes. Received: {file!r}")
    if not Path(file).is_file():
        raise FileNotFoundError(f"`file` must be a .tflite file. No such file: {str(file)!r}")
    return Path(file).read_bytes(), repr(str(file))


def _run(
    folder: Path, job: dict[str, Any], progress: StageProgress, title: str, limits: child.Limits | None = None
) -> dict[str, Any]:
    try:
        return child.run_job(folder, job, progress, limits=limits)
    except ConversionError as error:
        raise ConversionError(f"{title} can't be quantized. {error}") from error


def _signature(found: dict[str, Any]) -> ModelSignature:
    """Return the file's inputs as samples are checked against them."""
    specs = tuple(
        TensorSpec(entry["name"], tuple(entry["shape"][1:]), entry["dtype"]) for entry in found["inputs"]
    )
    return ModelSignature(specs, list(range(len(specs))), batch_size=found["inputs"][0]["shape"][0])


def _check_prepared(given: list[np.ndarray], prepared: list[np.ndarray], title: str) -> list[str]:
    """Raise unless the float file answers as before, now that its shapes are fixed; there are no remarks."""
    ratio = fidelity.worst_sqnr_db(given, prepared)
    if ratio < fidelity.FLOAT_FLOOR_DB:
        raise ConversionError(
            f"{title} can't be quantized: with fixed shapes it computes something else, SQNR {ratio:.1f} dB "
            f"where at least {fidelity.FLOAT_FLOOR_DB:.0f} dB are rounding. Are sizes inside it computed "
            "from values, or is an operator random?"
        )
    return []
