"""`convert`: from a Keras model to a verified .tflite file. See docs/conversion.md for the stages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attention.tflite import arguments
from keras_attention.tflite import building
from keras_attention.tflite import checks
from keras_attention.tflite import choosing
from keras_attention.tflite import fidelity
from keras_attention.tflite import finishing
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest_entries
from keras_attention.tflite import reporting
from keras_attention.tflite import samples as sampling
from keras_attention.tflite import streaming
from keras_attention.tflite.arguments import IoDtype
from keras_attention.tflite.arguments import Precision
from keras_attention.tflite.arguments import Target
from keras_attention.tflite.arguments import Task
from keras_attention.tflite.data.normalization import read_statistics
from keras_attention.tflite.data.plausibility import check_plausible
from keras_attention.tflite.finishing import Conversion
from keras_attention.tflite.loading import load_model
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import declared_inputs
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.samples import Samples

RANDOM_SAMPLES = 16
_PACKAGES = ("keras", "tensorflow", "ai-edge-litert", "litert-quantizer", "numpy")


def convert(
    model: keras.Model | str | Path,
    path: str | Path | None = None,
    *,
    precision: Precision = "int8",
    calibration: Any = None,
    evaluation: Any = None,
    target: Target = "cpu",
    min_agreement: float | None = None,
    min_sqnr_db: float | None = None,
    max_metric_drop: float | None = None,
    task: Task | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    max_unrolled_steps: int = 512,
    batch_size: int = 1,
    io_dtype: IoDtype | None = None,
    sensitivity: bool = False,
    manifest: Mapping[str, Any] | None = None,
    verbose: int = 1,
) -> Conversion:
    """Convert a Keras model to a .tflite file, compare it with Keras on real inputs, and write it.

    The file takes `batch_size` samples at a time, holds builtin operators only, and its signature has Keras'
    input names in Keras' order. Native code runs in a child process: whatever happens to it, the
    caller's process, model and files are unharmed.

    Args:
        model: a built `keras.Model` of any kind, or the path of a .keras file (read in safe mode).
        path: the .tflite file to write, whole or not at all. Nothing is written when None.
        precision: "float32"; "float16": weights in half precision; "dynamic": int8 weights, activations
            quantized at run time, needs no calibration; "int8": int8 wherever the phone's CPU runs it in
            one piece, scales from `calibration`; "int8_full": every tensor and the inputs and outputs int8,
            for NPUs and microcontrollers; "int16x8": int16 activations beside int8 weights; "auto": the file
            that serves `target` best of those that keep the floors. Defaults to "int8".
        calibration: representative real samples, needed for all that begins with "int" and for "auto"; 100
            to 1,000 are enough, at most 1,024 are used. An array, a list of arrays in input order or a dict
            by input name, the first axis counting samples, or a tuple of these and targets; a generator,
            data set or loader of samples or batches, or a function that returns one; or the path of an .npz,
            .npy or .csv file, or of a folder of .csv files or images. docs/calibration.md shows each.
        evaluation: other real samples to compare on, in the same forms, at most 10,000; targets as class
            indices, one-hot rows or values add the task metric to the report. Defaults to the calibration
            samples, and without those to random numbers, which prove less (the report says so).
        target: where the file is to run, for "auto": "cpu", "gpu", "npu" or "microcontroller".
        min_agreement: least share, 0 to 1, of samples answered as by Keras. Defaults to 0.99 for "auto".
        min_sqnr_db: least signal-to-quantization-noise ratio, in dB. Defaults to 10, below which a file
            is certainly broken (15 for "int8_full", 28 for "int16x8").
        max_metric_drop: largest loss of accuracy (or gain of mean absolute error) against Keras.
        task: "classification" or "regression" for all outputs. Defaults to classification where an
            output's last axis has two entries or more.
        input_shapes: input name -> shape without batch axis, for sizes that the model leaves open.
        max_unrolled_steps: recurrent layers up to this length are written out step by step.
        batch_size: samples that the file takes at a time, a fixed number.
        io_dtype: type of inputs and outputs that are float in Keras: "int8" or "uint8" for "int8_full"
            (defaults to "int8"), "float32" or "int16" for "int16x8" (defaults to "float32"), else "float32".
        sensitivity: whether the report says how much noise each layer makes by itself; it costs some
            seconds. Always so for "auto".
        manifest: what the app must know, kept in the file and beside it (model.manifest.json) with golden
            pairs that `verify` replays: "labels", "features", "sampling_rate_hz", "window_length",
            "preprocessing", "description", "author", "license", "version". See docs/manifest.md.
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
    named = {
        "min_agreement": min_agreement,
        "min_sqnr_db": min_sqnr_db,
        "max_metric_drop": max_metric_drop,
    }
    arguments.check_arguments(precision, named, task, input_shapes, max_unrolled_steps, calibration)
    arguments.check_target(target, precision)
    arguments.check_io_dtype(io_dtype, precision)
    arguments.check_batch_size(batch_size)
    floors = fidelity.Floors(
        arguments.least_agreement(precision, min_agreement, max_metric_drop), min_sqnr_db, max_metric_drop
    )
    written = arguments.check_path(path, model)
    entries = manifest_entries.check_entries(manifest)
    model = load_model(model) if isinstance(model, str | Path) else model
    checks.check_model(model, batch_size)

    declared = declared_inputs(model, input_shapes, batch_size)
    calibration, evaluation = (
        None if data is None else sampling.gather(argument, data, declared)
        for argument, data in (("calibration", calibration), ("evaluation", evaluation))
    )
    first = evaluation if evaluation is not None else calibration
    signature = read_signature(model, None if first is None else first.inputs, input_shapes, batch_size)
    checks.check_names(entries, signature, model)
    calibrating = (
        None
        if calibration is None
        else sampling.check_samples("calibration", calibration, signature, spread=True)
    )
    compared, source = _evaluation(evaluation, calibrating, signature, model)
    remarks = _about_samples(calibrating, compared if source == "evaluation" else None, signature, model)
    if source == "random":
        remarks.append(
            "Compared on random inputs only. Pass real samples as `evaluation` for numbers that count."
        )
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        progress("predict", 0, 0)
        compared = streaming.with_zero_states(compared, signature)
        reference = fidelity.predict(model, signature, compared)
        fidelity.check_targets(reference, compared.targets, max_metric_drop, task)
        building.store(folder / "evaluation.npz", compared)
        if calibrating is not None and precision in arguments.CALIBRATED:
            carried = streaming.with_carried_states(model, calibrating, signature)
            building.store(folder / "calibration.npz", carried)
        form = building.make_float_form(model, signature, folder, precision, max_unrolled_steps, progress)
        about_float: list[str] = []

        def make(kind: str, float_layers: Sequence[str] = ()) -> choosing.Judged:
            candidate = building.make_candidate(
                form,
                kind,
                progress,
                io_dtype=arguments.io_dtype_of(io_dtype, kind, target if precision == "auto" else None),
                float_layers=float_layers,
                sensitivity=(sensitivity or precision == "auto") and kind in arguments.CALIBRATED,
            )
            exact = functools.partial(fidelity.exact_answers, model, signature, compared)
            about_float[:] = fidelity.check_float_form(
                reference, form.answers(), model, form.changes, exact, form.outputs, form.states
            )
            measured = fidelity.compare(
                reference, candidate.answers, compared.targets, task, form.outputs, form.states
            )
            if form.states:
                folders = (form.folder, candidate.folder)
                measured = streaming.compare(
                    model, signature, compared, folders, measured, form.changes, task, form.outputs
                )
            return choosing.Judged(candidate, measured, floors.faults(measured, kind))

        if precision == "auto":
            choice = choosing.choose(make, target, loops=bool(form.loops))
        else:
            choice = choosing.Choice(make(precision), (), "")
        float32 = form.answers(), form.size_bytes()
    candidate = choice.best.candidate
    remarks = [
        *checks.check_loops(form.loops, form.sizes, candidate.precision, max_unrolled_steps),
        *remarks,
        *about_float,
        *reporting.remarks_on(candidate),
    ]
    evidence = finishing.Evidence("Keras", reference, compared, source, calibrating)
    return finishing.finish(
        form,
        choice,
        evidence,
        model=model,
        name=model.name,
        entries=entries,
        packages=_PACKAGES,
        float32=float32,
        remarks=remarks,
        path=written,
        verbose=verbose,
    )


def _evaluation(
    evaluation: Any, calibrating: Samples | None, signature: ModelSignature, model: keras.Model
) -> tuple[Samples, str]:
    if evaluation is not None:
        return sampling.check_samples("evaluation", evaluation, signature, spread=False), "evaluation"
    if calibrating is not None:
        return calibrating, "calibration"
    return fidelity.random_samples(signature, model, RANDOM_SAMPLES), "random"


def _about_samples(
    calibrating: Samples | None, compared: Samples | None, signature: ModelSignature, model: keras.Model
) -> list[str]:
    """Return what the user should know of the samples; raise where calibration can't be real data."""
    given = [samples for samples in (calibrating, compared) if samples is not None]
    remarks = [remark for samples in given for remark in samples.remarks]
    calibration, evaluation = (s if s is None else s.inputs for s in (calibrating, compared))
    return remarks + check_plausible(calibration, evaluation, read_statistics(model, signature))
