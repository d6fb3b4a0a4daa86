"""One measurement of `long_sequences` in a process of its own.

python -m benchmarks.long_sequences_child KIND LAYER LENGTH OUT
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite.jobs import benchmark as memory

STEPS = 5


def measure(kind: str, name: str, length: int) -> dict[str, Any]:
    """Return what a child finds: `bytes` above what it held before, its `peak`, and more in training."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.npz"
        command = [sys.executable, "-m", "benchmarks.long_sequences_child", kind, name, str(length), str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(
                f"{kind} of {name} at {length} failed, {done.returncode}: {done.stderr[-2000:]}"
            )
        with np.load(out) as data:
            return {key: data[key] if data[key].ndim else data[key].item() for key in data.files}


def sequence(length: int, channels: int) -> np.ndarray:
    """Return one sample."""
    return np.random.default_rng(length).normal(size=(1, length, channels)).astype("float32")


def compiled(model: Any) -> Callable[[Any], Any]:
    """Return the model as a graph of static shape."""
    import tensorflow as tf

    signature = [tf.TensorSpec((1, *model.inputs[0].shape[1:]), "float32")]
    return tf.function(lambda x: model(x, training=False), input_signature=signature)


def _inference(model: Any, x: np.ndarray) -> dict[str, Any]:
    run = compiled(model)
    run.get_concrete_function()
    tensor = _tensor(x)
    before = memory.reset_peak_memory()
    run(tensor)
    return _memory(before)


def _training(model: Any, x: np.ndarray) -> dict[str, Any]:
    import keras

    model.compile(keras.optimizers.SGD(1.0), "mse")
    weights = model.get_weights()
    before = memory.reset_peak_memory()
    found: dict[str, Any] = {"loss": float(model.train_on_batch(x, x))}
    found |= _memory(before)
    # with a rate of 1, a step of SGD subtracts the gradient
    steps = [(a - b).ravel() for a, b in zip(weights, model.get_weights(), strict=True)]
    found["gradients"] = np.concatenate(steps)
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        model.train_on_batch(x, x)
        seconds.append(time.perf_counter() - start)
    return {**found, "seconds": min(seconds)}


def _tensor(x: np.ndarray) -> Any:
    """Return a tensor; what TensorFlow loads for its first operators is in memory then."""
    import tensorflow as tf

    tensor = tf.constant(x)
    tf.function(lambda y: tf.nn.softmax(tf.matmul(y, y, transpose_b=True)))(tensor[:, :16])
    return tensor


def _memory(before: int | None) -> dict[str, int]:
    peak = memory.peak_memory()
    if before is None or peak is None:
        raise RuntimeError("The peak of memory is read from /proc, which this system does not have.")
    return {"bytes": max(0, peak - before), "peak": peak}


def main() -> None:
    """Measure and write what was found."""
    from benchmarks import long_sequences

    kind, name, length, out = sys.argv[1:]
    model = long_sequences.make_model(name, int(length))
    x = sequence(int(length), long_sequences.CHANNELS)
    _tensor(x)
    found = {"inference": _inference, "training": _training}[kind](model, x)
    np.savez(out, **found)


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    main()
