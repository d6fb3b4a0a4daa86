"""`convert`: from a Keras model to a verified .tflite file. See docs/conversion.md for the stages."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attention.tflite import arguments
from keras_attention.tflite import building
from keras_attention.tflite import checks
from keras_attention.tflite import fidelity
from keras_attention.tflite import finishing
from keras_attention.tflite import judging
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest_entries
from keras_attention.tflite import samples as sampling
from keras_attention.tflite import streaming
from keras_attention.tflite.arguments import IoDtype
from keras_attention.tflite.arguments import Precision
from keras_attention.tflite.arguments import Target
from keras_attention.tflite.arguments import Task
from keras_attention.tflite.arguments import Wanted
from keras_attention.tflite.finishing import Conversion
from keras_attention.tflite.judging import Reference
from keras_attention.tflite.loading import load_model
from keras_attention.tflite.model_signature import declared_inputs
from keras_attention.tflite.model_signature import declared_outputs
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.progress import StageProgress

_PACKAGES = ("keras", "tensorflow", "ai-edge-litert", "litert-quantizer", "numpy")


def convert(
    model: keras.Model | str | Path,
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
        target: where the file is to run, for "auto": "cpu", "gpu", "npu" or "microcontroller". The last also
            goes with "int8_full" and "int16x8": products become convolutions, which tflite-micro rounds as
            LiteRT does.
        min_agreement: least share, 0 to 1, of samples answered as by Keras; of all outputs, or of those that
            are named: {"classes": 0.99}. Defaults to 0.99 for "auto".
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
            "pixel_range", "preprocessing", "description", "author", "license", "version"; see
            docs/manifest.md.
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
    floors = fidelity.Floors(min_agreement, min_sqnr_db, max_metric_drop)
    wanted = Wanted(precision, target, floors, task, io_dtype, sensitivity)
    wanted = arguments.check(wanted, calibration)
    arguments.check_sizes(input_shapes, max_unrolled_steps, batch_size)
    max_unrolled_steps, batch_size = int(max_unrolled_steps), int(batch_size)  # NumPy's are no plain values
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
    if outputs := declared_outputs(model):
        floors.check_outputs([spec.name for spec in outputs])
    evidence = judging.take_evidence(calibration, evaluation, signature, model)
    with (
        StageProgress(verbose) as progress,
        leftovers.work_folder() as folder,
        building.start_converter(folder) as converter,
        building.start_quantizer(folder) as quantizer,
    ):
        progress("predict", 0, 0)
        compared = streaming.with_zero_states(evidence.compared, signature)
        answers = fidelity.predict(model, signature, compared)
        fidelity.check_targets(answers, compared.targets, max_metric_drop, task)
        calibrating = evidence.calibrating if precision in arguments.CALIBRATED else None
        building.store(folder, compared, streaming.with_carried_states(model, calibrating, signature))
        form = building.make_float_form(
            model, signature, folder, precision, max_unrolled_steps, progress, converter, quantizer
        )

        @functools.cache  # asked again with each file of "auto"
        def check_float_form() -> list[str]:
            exact = functools.partial(fidelity.exact_answers, model, signature, compared)
            return fidelity.check_float_form(
                answers, form.answers(), model, form.changes, exact, form.outputs, form.states
            )

        in_a_row = functools.partial(
            streaming.compare,
            model,
            signature,
            compared,
            changes=form.changes,
            task=task,
            names=form.outputs,
        )
        reference = Reference(
            title="Keras",
            name=model.name,
            model=model,
            packages=_PACKAGES,
            answers=answers,
            evidence=dataclasses.replace(evidence, compared=compared),
            check_float_form=check_float_form,
            compare_in_a_row=in_a_row if signature.states else None,
        )
        choice = judging.make_judged(form, reference, wanted, progress)
        conversion = finishing.finish(form, choice, reference, entries, written)
    if verbose:
        conversion.report.print()
    return conversion
