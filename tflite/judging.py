"""What `convert` and `quantize` have in common: samples to compare on, and files judged on them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import building
from keras_attention.tflite import choosing
from keras_attention.tflite import fidelity
from keras_attention.tflite import samples as sampling
from keras_attention.tflite.arguments import Wanted
from keras_attention.tflite.building import FloatForm
from keras_attention.tflite.data.normalization import read_statistics
from keras_attention.tflite.data.plausibility import check_plausible
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.samples import Samples

RANDOM_SAMPLES = 16


@dataclass(frozen=True)
class Evidence:
    """The samples of a conversion.

    Attributes:
        calibrating: calibration samples, or None.
        compared: what files are compared on.
        source: "evaluation", "calibration" or "random": whose samples the compared ones are.
        remarks: what the user should know of them.
    """

    calibrating: Samples | None
    compared: Samples
    source: str
    remarks: tuple[str, ...]


def take_evidence(calibration: Any, evaluation: Any, signature: ModelSignature, model: Any) -> Evidence:
    """Check what the caller gave as `calibration` and `evaluation`; without either, take random samples.

    Args:
        calibration: as `samples.check_samples` takes it, or None.
        evaluation: the same.
        signature: the inputs.
        model: the Keras model, None where there is none.

    Raises:
        TypeError, ValueError: the samples don't fit, or calibration can't be data of this model.
    """
    calibrating = evaluating = None
    if calibration is not None:
        calibrating = sampling.check_samples("calibration", calibration, signature, spread=True)
    if evaluation is not None:
        evaluating = sampling.check_samples("evaluation", evaluation, signature, spread=False)
    given = [samples for samples in (calibrating, evaluating) if samples is not None]
    arrays = [None if samples is None else samples.inputs for samples in (calibrating, evaluating)]
    remarks = [remark for samples in given for remark in samples.remarks]
    statistics = {} if model is None else read_statistics(model, signature)
    remarks += check_plausible(arrays[0], arrays[1], statistics)
    if given:
        source = "calibration" if evaluating is None else "evaluation"
        return Evidence(calibrating, given[-1], source, tuple(remarks))
    remarks.append(
        "Compared on random inputs only. Pass real samples as `evaluation` for numbers that count."
    )
    return Evidence(None, fidelity.random_samples(signature, model, RANDOM_SAMPLES), "random", tuple(remarks))


@dataclass(frozen=True)
class Reference:
    """Whose answers a file must give.

    Attributes:
        title: "Keras" or "the float file".
        name: of the model, for the report.
        model: the Keras model, None where there is none.
        packages: whose versions the report and the manifest hold.
        answers: one array per output.
        evidence: the samples that were answered, and those to calibrate on.
        check_float_form: raises unless the float32 file answers so too, and returns remarks.
        compare_in_a_row: for stateful models: compares over samples in a row as well. Takes the folders of
            the float32 file's outputs and of the final one's, and what was measured one by one.
    """

    title: str
    name: str
    model: Any
    packages: tuple[str, ...]
    answers: list[np.ndarray]
    evidence: Evidence
    check_float_form: Callable[[], list[str]]
    compare_in_a_row: Callable[[tuple[Path, Path], dict[str, Any]], dict[str, Any]] | None = None


def make_judged(
    form: FloatForm, reference: Reference, wanted: Wanted, progress: StageProgress
) -> choosing.Choice:
    """Make the file of the precision that is wanted, or of several for "auto", and measure it.

    Raises:
        ConversionError: it can't be made, or the float32 file computes something else than the reference.
    """
    wanted.floors.check_outputs(form.outputs)

    def make(precision: str, float_layers: Sequence[str] = ()) -> choosing.Judged:
        candidate = building.make_candidate(
            form,
            precision,
            progress,
            io_dtype=wanted.io_dtype_of(precision),
            float_layers=float_layers,
            sensitivity=wanted.measures_layers(precision),
            convolutions=wanted.needs_convolutions,
        )
        reference.check_float_form()
        targets = reference.evidence.compared.targets
        measured = fidelity.compare(
            reference.answers, candidate.answers, targets, wanted.task, form.outputs, form.states
        )
        if reference.compare_in_a_row is not None:
            measured = reference.compare_in_a_row((form.folder, candidate.folder), measured)
        return choosing.Judged(candidate, measured, wanted.floors.faults(measured, precision))

    if wanted.precision == "auto":
        return choosing.choose(make, wanted.target, loops=bool(form.loops))
    return choosing.Choice(make(wanted.precision), (), "")
