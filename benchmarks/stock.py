"""What the stock converter makes of a Keras model: `python -m benchmarks.stock KIND MODEL DATA OUT`.

Run as a program of its own, since the stock converter can end its process. It gets the best path that
its documentation describes: a SavedModel with a fixed batch of one, builtin operators, and for int8 the
calibration samples one by one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("float32", "dynamic", "int8")


def convert_in_child(kind: str, model: Path, samples: np.ndarray) -> bytes | str:
    """Return the stock file's bytes, or in words how the converter's process ended."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "samples.npy", samples)
        command = [sys.executable, "-m", "benchmarks.stock", kind, str(model), str(folder / "samples.npy")]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(
            [*command, str(folder / "out.tflite")], env=environment, capture_output=True, text=True
        )
        if done.returncode == 0:
            return (folder / "out.tflite").read_bytes()
        if done.returncode < 0:
            return f"process ended by {signal.Signals(-done.returncode).name}"
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"refused: {last[:120]}"


def convert(kind: str, model_path: Path, samples_path: Path) -> bytes:
    """Convert in this process."""
    import keras
    import tensorflow as tf

    import keras_attention  # noqa: F401  registers the layers

    model = keras.saving.load_model(model_path, compile=False)
    samples = np.load(samples_path)
    (tensor,) = model.inputs
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        "serve",
        lambda inputs: model(inputs, training=False),
        input_signature=[tf.TensorSpec((1, *tensor.shape[1:]), tensor.dtype, name=tensor.name)],
    )
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["serve"])
        if kind != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == "int8":

            def representative() -> Iterator[dict[str, Any]]:
                for sample in samples:
                    yield {tensor.name: sample[np.newaxis]}

            converter.representative_dataset = representative
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return bytes(converter.convert())


if __name__ == "__main__":
    kind, model_path, samples_path, out = sys.argv[1:]
    Path(out).write_bytes(convert(kind, Path(model_path), Path(samples_path)))
