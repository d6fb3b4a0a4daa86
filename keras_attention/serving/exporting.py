"""`export_onnx`: from a Keras model to an ONNX file that answers as Keras does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import keras_attention
from keras_attention.serving import checking
from keras_attention.serving import comparison
from keras_attention.serving import packages
from keras_attention.serving import sample_inputs
from keras_attention.serving import tracing
from keras_attention.serving.comparison import Answers
from keras_attention.serving.onnx_export import OnnxExport
from keras_attention.tflite import checks
from keras_attention.tflite import child
from keras_attention.tflite import fidelity
from keras_attention.tflite import files
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest_entries
from keras_attention.tflite import samples as sampling
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.loading import load_model
from keras_attention.tflite.lowering import float32_form
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import declared_inputs
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.samples import Samples

_RANDOM_SAMPLES = 11
_MOST_SAMPLES = 256
_TASK = "onnx"
_COLOURS = re.compile(r"\x1b\[\d*m")


def export_onnx(
    model: keras.Model | str | Path,
    path: str | Path | None = None,
    *,
    samples: Any = None,
    batch_size: int | None = None,
    opset: int = 18,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    manifest: Mapping[str, Any] | None = None,
    max_error: float = 1e-4,
    overwrite: bool = False,
    verbose: int = 1,
) -> OnnxExport:
    """Export a Keras model as an ONNX file, run it in onnxruntime beside Keras, and write it.

    Inputs and outputs have Keras' names; every operator is one of ONNX' own; the file is float32.
    Conversion and runtime work in a child process.

    Args:
        model: a built `keras.Model` of any kind, or the path of a .keras file (read in safe mode).
        path: the .onnx file to write, whole or not at all. Nothing is written when None.
        samples: real inputs to compare on, in any form that `tflite.convert` takes for `calibration`; at
            most 256 are used. Defaults to random values in the range that the first layer expects.
        batch_size: a fixed number of samples at a time. Defaults to None: the file takes any number, and
            is compared one at a time and three at a time.
        opset: version of ONNX' operator set, 15 to 18.
        input_shapes: input name -> shape without batch axis, for sizes that the model leaves open.
        manifest: what the app must know (docs/manifest.md), kept in the file's metadata, one property per
            entry: texts as they are, all else as JSON.
        max_error: largest absolute difference from Keras, for outputs of up to 1; for larger ones it is a
            share of the largest.
        overwrite: whether an existing file is replaced.
        verbose: 1 shows progress and a table; 0 is silent.

    Returns:
        The `OnnxExport`: content, path, errors, operators.

    Raises:
        ConversionError: the model can't be exported, or answers otherwise than Keras; nothing was written.
        ValueError, TypeError, OSError: an argument is wrong; it is named, with what is allowed.

    Example:
    ```python
    import keras
    from keras_attention import serving

    window = keras.Input((16, 3), name="window")
    features = keras.layers.LSTM(8)(window)
    gesture = keras.layers.Dense(4, activation="softmax", name="gesture")(features)
    model = keras.Model(window, gesture)
    export = serving.export_onnx(model, verbose=0)
    print(export.errors["gesture"].max_error, export.operators)
    ```
    """
    packages.check_installed("onnx", "tf2onnx", "onnxruntime")
    checking.check_arguments(batch_size, opset, max_error)
    target = checking.check_path(path, model, overwrite)
    entries = manifest_entries.check_entries(manifest)
    model = load_model(model) if isinstance(model, str | Path) else model
    size = None if batch_size is None else int(batch_size)
    checks.check_model(model, size or 1)
    checking.check_states(model)
    gathered = None if samples is None else sampling.gather("samples", samples, declared_inputs(model))
    signature = read_signature(model, None if gathered is None else gathered.inputs, input_shapes, size or 1)
    checking.check_types(signature)
    checks.check_names(entries, signature, model)
    chosen = _choose_samples(model, signature, gathered, size)
    is_traced_here = keras.backend.backend() == "tensorflow"
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        with child.Ahead(folder, _TASK, needs_keras=True) as ahead:
            progress("predict", 0, 0)
            reference = comparison.ask_keras(model, signature, chosen)
            checking.check_output_names(reference, signature)
            entries = _name_entries(entries, signature, reference)
            np.savez(folder / "samples.npz", *chosen.inputs.values())
            job = {
                "task": _TASK,
                "frozen": None,
                "inputs": signature.names(),
                "outputs": reference.names,
                "output_shapes": [list(array.shape[1:]) for array in reference.arrays],
                "opset": int(opset),
                "batch_size": size,
                "input_shapes": {spec.name: list(spec.shape) for spec in signature.inputs},
                "metadata": _metadata(entries),
            }
            if is_traced_here:
                progress("export", 0, 0)
                job["frozen"] = _trace(model, signature, size, folder)
            else:
                model.save(folder / "model.keras")
            result = _run(model, signature, folder, job, progress, ahead)
        runs = [
            fidelity.load_outputs(file)
            for file in (folder / "answers_single.npz", folder / "answers_batch.npz")
            if file.exists()
        ]
        content = (folder / "model.onnx").read_bytes()
    errors = comparison.compare(reference, runs, max_error)
    comparison.check(errors, f"The ONNX file of model {model.name!r}")
    checking.check_interface(result["interface"], signature, reference)
    if target is not None:
        files.write_whole(target, content)
    export = OnnxExport(
        content=content,
        path=target,
        name=model.name,
        opset=int(opset),
        batch_size=size,
        inputs=signature.inputs,
        outputs=reference.specs(),
        errors=errors,
        operators=result["operators"],
        latency_ms=result["latency_ms"],
        source="random" if samples is None else "samples",
        entries=entries,
        remarks=(*chosen.remarks, *_precision_remarks(model)),
        samples=chosen.inputs,
        answers=tuple(reference.arrays),
        max_error=max_error,
    )
    if verbose:
        export.print()
    return export


def _choose_samples(model: Any, signature: ModelSignature, gathered: Any, batch_size: int | None) -> Samples:
    """Return what is compared: a whole number of batches where their size is fixed."""
    if gathered is None:
        chosen = sample_inputs.make(model, signature, max(_RANDOM_SAMPLES, 2 * (batch_size or 1)))
    else:
        taken = sampling.check_samples("samples", gathered, signature, spread=False)
        chosen = Samples(taken.take(_MOST_SAMPLES).inputs, None, taken.remarks)
    if batch_size is None:
        return chosen
    if len(chosen) < batch_size:
        raise ValueError(
            f"`samples` must hold at least batch_size={batch_size} samples. Received: {len(chosen)}"
        )
    whole = len(chosen) // batch_size * batch_size
    return Samples({name: values[:whole] for name, values in chosen.inputs.items()}, None, chosen.remarks)


def _name_entries(
    entries: Mapping[str, Any], signature: ModelSignature, reference: Answers
) -> dict[str, Any]:
    """Bring labels and features under the names of their tensors."""
    for key, specs in (("features", signature.inputs), ("labels", reference.specs())):
        shapes = {spec.name: (None, *spec.shape) for spec in specs}
        entries = manifest_entries.name_axes(entries, key, shapes, [spec.dtype for spec in specs])
    return dict(entries)


def _metadata(entries: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in entries.items()
    }
    made = f"keras_attention {keras_attention.__version__}, keras {keras.__version__}"
    return {**texts, "made_with": made}


def _trace(model: Any, signature: ModelSignature, batch_size: int | None, folder: Path) -> dict[str, Any]:
    try:
        frozen = tracing.freeze(model, signature, batch_size)
    except Exception as error:  # whatever the user's layers raise on symbolic tensors
        reason = _COLOURS.sub("", str(error))
        raise ConversionError(
            f"Model {model.name!r} can't be traced for the file: {reason}\nA condition or loop of Python "
            "on the values of a tensor can't be; write it with keras.ops.where, keras.ops.cond or "
            "keras.ops.while_loop."
        ) from error
    (folder / "frozen.pb").write_bytes(frozen.content)
    return {"inputs": frozen.inputs, "outputs": frozen.outputs, "names": frozen.names}


def _run(
    model: Any,
    signature: ModelSignature,
    folder: Path,
    job: dict[str, Any],
    progress: StageProgress,
    ahead: child.Ahead,
) -> dict[str, Any]:
    try:
        return child.run_job(folder, job, progress, ahead=ahead)
    except ConversionError as error:
        inputs = ", ".join(str(spec) for spec in signature.inputs)
        raise ConversionError(f"Model {model.name!r} ({inputs}) to ONNX: {error}") from error


def _precision_remarks(model: Any) -> list[str]:
    with float32_form(model) as lowering:
        changes = dict(lowering.changes)
    return [f"{what}: {change}; the errors are against Keras in float32." for what, change in changes.items()]
