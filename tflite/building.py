"""From the Keras model to files of every precision, each made in a child process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_attention.tflite import child
from keras_attention.tflite import fidelity
from keras_attention.tflite import layer_names
from keras_attention.tflite import loop_rules
from keras_attention.tflite import streaming
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.samples import Samples

if TYPE_CHECKING:
    import keras

LATENCY_SECONDS = 0.4
"""How long the float file and the other one are timed, each."""


@dataclass(frozen=True)
class FloatForm:
    """The float file in a folder, with the samples beside it.

    Attributes:
        about: name and inputs of the model, for errors.
        folder: holds float.tflite, evaluation.npz and, where given, calibration.npz.
        inputs: names of the file's inputs in order.
        outputs: names of its outputs in order.
        changes: what lowering changed.
        loops: layer path -> steps of each recurrent loop that was kept.
        sizes: layer path -> bytes of its written-out steps.
        states: number of states that are inputs and outputs.
        max_unrolled_steps: the limit that kept the loops.
        quantizer: the process that waits for the first candidate, if one does.
    """

    about: str
    folder: Path
    inputs: list[str]
    outputs: list[str]
    changes: dict[str, str]
    loops: dict[str, int]
    sizes: dict[str, int]
    states: int = 0
    max_unrolled_steps: int = 0
    quantizer: child.Ahead | None = None

    def size_bytes(self) -> int:
        """Return the size of the float32 file, once a candidate was made."""
        return (self.folder / "float32.tflite").stat().st_size

    def answers(self) -> list[np.ndarray]:
        """Return what the float32 file answers, once a candidate was made."""
        return fidelity.load_outputs(self.folder / "float32_outputs.npz")


@dataclass(frozen=True)
class Candidate:
    """A file of one precision and what was measured on it.

    Attributes:
        precision: as in `convert`.
        float_layers: layers that were left in float on purpose.
        folder: holds its outputs.
        content: bytes of the file.
        answers: what it answers on the evaluation, one array per output.
        latency: {"min", "median", "float32_min", "float32_median"} in milliseconds.
        quantization: how it was quantized.
        file: what the file holds, as `inspect` says it.
    """

    precision: str
    float_layers: tuple[str, ...]
    folder: Path
    content: bytes
    answers: list[np.ndarray]
    latency: dict[str, float]
    quantization: dict[str, Any]
    file: dict[str, Any]


def store(folder: Path, compared: Samples, calibrating: Samples | None) -> None:
    """Put samples where the child finds them, inputs in order; their names may be no file names."""
    np.savez(folder / "evaluation.npz", *compared.inputs.values())
    if calibrating is not None:
        np.savez(folder / "calibration.npz", *calibrating.inputs.values())


def start_converter(folder: Path) -> child.Ahead:
    """Start the child that makes the float file; it loads the model itself if another backend has it."""
    import keras

    is_traced_here = keras.backend.backend() == "tensorflow"
    return child.Ahead(folder, "convert" if is_traced_here else "trace", needs_keras=not is_traced_here)


def start_quantizer(folder: Path) -> child.Ahead:
    """Start the child that makes the first candidate."""
    return child.Ahead(folder / "candidate_0", "quantize")


def make_float_form(
    model: keras.Model,
    signature: ModelSignature,
    folder: Path,
    precision: str,
    max_unrolled_steps: int,
    progress: StageProgress,
    converter: child.Ahead,
    quantizer: child.Ahead,
) -> FloatForm:
    """Trace the model here if its backend is TensorFlow, else in the child, and convert it there.

    Both children have been started, and import what they need in the meantime.
    """
    from keras_attention.tflite.lowering import all_layers

    inputs = [spec.name for spec in signature.file_inputs()]
    job: dict[str, Any] = {"task": converter.task, "inputs": inputs}
    traced: dict[str, Any] = {}
    if job["task"] == "convert":
        from keras_attention.tflite import saved_model

        progress("export", 0, 0)
        try:
            job["outputs"], lowering = saved_model.export_saved_model(
                model, signature, folder / "saved_model", max_unrolled_steps
            )
        except Exception as error:
            raise ConversionError(f"Model {model.name!r} can't be traced for the file: {error}") from error
        loop_rules.check_loops(lowering.loops, lowering.sizes, precision, max_unrolled_steps)
        job["layers"] = layer_names.of_model(all_layers(model)[1:])
        traced = {"changes": lowering.changes, "loops": lowering.loops, "sizes": lowering.sizes}
    else:
        job |= {"batch_size": signature.batch_size, "max_unrolled_steps": max_unrolled_steps}
        job["input_shapes"] = {spec.name: list(spec.shape) for spec in signature.inputs}
        model.save(folder / "model.keras")
    about = f"Model {model.name!r} ({', '.join(str(spec) for spec in signature.inputs)})"
    result = {**_run(folder, job, progress, f"{about} to {precision}: ", converter), **traced}
    kept = {name: result[name] for name in ("outputs", "changes", "loops", "sizes")}
    return FloatForm(
        about,
        folder,
        inputs,
        states=len(signature.states),
        max_unrolled_steps=max_unrolled_steps,
        quantizer=quantizer,
        **kept,
    )


def make_candidate(
    form: FloatForm,
    precision: str,
    progress: StageProgress,
    *,
    io_dtype: str | None = None,
    float_layers: Sequence[str] = (),
    sensitivity: bool = False,
    convolutions: bool = False,
) -> Candidate:
    """Make and measure the file of one precision.

    Raises:
        ConversionError: it can't be made.
    """
    ahead = None if form.quantizer is None or form.quantizer.is_given else form.quantizer
    if ahead is None:
        number = sum(1 for path in form.folder.iterdir() if path.name.startswith("candidate_"))
        folder = form.folder / f"candidate_{number}"
        folder.mkdir()
    else:
        folder = ahead.folder
    job = {
        "task": "quantize",
        "source": str(form.folder),
        "precision": precision,
        "inputs": form.inputs,
        "io_dtype": io_dtype,
        "float_layers": list(float_layers),
        "sensitivity": sensitivity,
        "convolutions": convolutions,
        "states": form.states,
        "stream": streaming.STREAM,
        "latency_seconds": LATENCY_SECONDS,
    }
    about = f"{form.about} to {precision}: "
    result = _run(folder, job, progress, about, ahead)
    float32, final = result["latency"]
    return Candidate(
        precision=precision,
        float_layers=tuple(float_layers),
        folder=folder,
        content=(folder / "model.tflite").read_bytes(),
        answers=fidelity.load_outputs(folder / "model_outputs.npz"),
        latency={**final, "float32_min": float32["min"], "float32_median": float32["median"]},
        quantization=result["quantization"],
        file=result["file"],
    )


def _run(
    folder: Path,
    job: dict[str, Any],
    progress: StageProgress,
    about: str,
    ahead: child.Ahead | None,
) -> dict[str, Any]:
    try:
        return child.run_job(folder, job, progress, ahead=ahead)
    except ConversionError as error:
        raise ConversionError(f"{about}{error}") from error
