"""Child job "onnx": from a frozen graph, or the .keras file of another backend's model, to an ONNX file.

It is run as well; the caller compares its answers with Keras'.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.serving import onnx_conversion
from keras_attention.serving import onnx_runtime
from keras_attention.serving import tracing
from keras_attention.tflite import loading
from keras_attention.tflite import model_signature

SINGLE = 8
"""Samples that are also answered one at a time."""
BATCH = 3
"""Samples at a time otherwise, where the file takes any number."""


def import_packages() -> None:
    """Import what takes long, for a child that waits for its job."""
    for name in ("tensorflow", "tf2onnx.convert", "onnxruntime"):
        importlib.import_module(name)


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write model.onnx, and its answers to samples.npz as answers_single.npz and answers_batch.npz."""
    emit("onnx", 0, 0)
    frozen = _frozen(folder, job)
    content = onnx_conversion.convert(
        frozen.content,
        dict(zip(frozen.inputs, job["inputs"], strict=True)),
        dict(zip(frozen.outputs, job["outputs"], strict=True)),
        opset=job["opset"],
        output_shapes=job["output_shapes"],
        batch_size=job["batch_size"],
        metadata=job["metadata"],
    )
    (folder / "model.onnx").write_bytes(content)
    emit("verify", 0, 0)
    with np.load(folder / "samples.npz") as data:
        inputs = dict(zip(job["inputs"], (data[name] for name in data.files), strict=True))
    session = onnx_runtime.open_session(content)
    size = job["batch_size"] or BATCH
    np.savez(folder / "answers_batch.npz", *onnx_runtime.answer(session, inputs, size))
    if job["batch_size"] is None:
        few = {name: values[:SINGLE] for name, values in inputs.items()}
        np.savez(folder / "answers_single.npz", *onnx_runtime.answer(session, few, 1))
    emit("measure", 0, 0)
    return {
        "interface": onnx_runtime.interface(session),
        "operators": onnx_conversion.operators(content),
        "latency_ms": onnx_runtime.latency_ms(session, inputs, job["batch_size"] or 1),
    }


def _frozen(folder: Path, job: dict[str, Any]) -> tracing.FrozenGraph:
    """Return the graph that the caller traced, or trace the model here."""
    if job["frozen"] is not None:
        return tracing.FrozenGraph((folder / "frozen.pb").read_bytes(), **job["frozen"])
    model = loading.load_model(folder / "model.keras")
    signature = model_signature.read_signature(model, None, job["input_shapes"], job["batch_size"] or 1)
    return tracing.freeze(model, signature, job["batch_size"])
