"""`write_openvino`: an exported model as the two files that OpenVINO reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_attention.serving import comparison
from keras_attention.serving import packages
from keras_attention.serving.comparison import Answers
from keras_attention.serving.comparison import OutputError
from keras_attention.serving.onnx_export import OnnxExport
from keras_attention.tflite import child
from keras_attention.tflite import fidelity
from keras_attention.tflite import files
from keras_attention.tflite import leftovers
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.progress import StageProgress

_BATCH = 3


def check_paths(path: str | Path, overwrite: bool) -> tuple[Path, Path]:
    """Return the .xml and the .bin file to write, after a look whether they can be.

    Raises:
        ValueError, OSError: naming the file and the cure.
    """
    packages.check_installed("openvino")
    target = Path(path)
    if target.suffix != ".xml":
        raise ValueError(
            f"`path` must end in .xml; the weights go into the .bin beside it. Received: {path!r}"
        )
    for file in (target, target.with_suffix(".bin")):
        files.check_writable(file)
        if file.exists() and not overwrite:
            raise FileExistsError(
                f"{str(file)!r} exists already. Pass overwrite=True (--overwrite) to replace it, or another "
                "path."
            )
    return target, target.with_suffix(".bin")


def write_openvino(
    export: OnnxExport, path: str | Path, *, overwrite: bool = False, verbose: int = 0
) -> Mapping[str, OutputError]:
    """Write an exported model as OpenVINO's .xml and .bin, float32, after a comparison with Keras.

    What the manifest says stands in the .xml too, under rt_info / framework.

    Args:
        export: what `export_onnx` returned; its samples and its bound are used again.
        path: the .xml file to write; the .bin lies beside it.
        overwrite: whether existing files are replaced.
        verbose: 1 shows progress.

    Returns:
        Output name -> how far it is from Keras'.

    Raises:
        ConversionError: OpenVINO is missing, can't read the model, or answers otherwise than Keras.
        ValueError, OSError: the path is wrong.
    """
    target, weights = check_paths(path, overwrite)
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        (folder / "model.onnx").write_bytes(export.content)
        np.savez(folder / "samples.npz", *export.samples.values())
        job = {
            "task": "openvino_file",
            "inputs": [spec.name for spec in export.inputs],
            "outputs": [spec.name for spec in export.outputs],
            "batch": export.batch_size or _BATCH,
        }
        try:
            child.run_job(folder, job, progress)
        except ConversionError as error:
            raise ConversionError(f"Model {export.name!r} to OpenVINO: {error}") from error
        answers = fidelity.load_outputs(folder / "answers.npz")
        parts = {weights: (folder / "model.bin").read_bytes(), target: (folder / "model.xml").read_bytes()}
    reference = Answers(list(export.answers), [spec.name for spec in export.outputs])
    errors = comparison.compare(reference, [answers], export.max_error)
    comparison.check(errors, f"The OpenVINO file of model {export.name!r}")
    for file, content in parts.items():  # the weights first: whoever finds the .xml finds them too
        files.write_whole(file, content)
    return errors
