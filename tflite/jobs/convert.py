"""Child job "convert": float file, quantized file, their outputs and latency."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import loading
from keras_attention.tflite import model_signature
from keras_attention.tflite import quantization
from keras_attention.tflite import rewriting
from keras_attention.tflite import runtime
from keras_attention.tflite import saved_model
from keras_attention.tflite.jobs import inspect as inspection
from keras_attention.tflite.lowering.patch import Lowering

LATENCY_SECONDS = 0.5


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Convert and measure the model of the folder."""
    result: dict[str, Any] = {}
    saved = folder / "saved_model"
    outputs = job["outputs"]
    if outputs is None:
        emit("export", 0, 0)
        outputs, lowering = _export(folder, job, saved)
        result |= {"changes": lowering.changes, "loops": lowering.loops, "sizes": lowering.sizes}
    result["outputs"] = outputs

    emit("convert", 0, 0)
    content = _prepared(saved_model.convert_saved_model(saved), job["inputs"], outputs)
    samples = _load(folder, "calibration", job["inputs"])
    chosen: dict[str, Any] = {}
    emit("quantize", 0, 0)
    if job["precision"] == "float32":
        final = content
    elif job["precision"] == "float16":
        final = _prepared(saved_model.convert_saved_model(saved, float16=True), job["inputs"], outputs)
    else:
        quantized = quantization.quantize(
            content, job["precision"], samples, lambda done, total: emit("calibrate", done, total)
        )
        final = quantized.content
        chosen = {name: value for name, value in vars(quantized).items() if name != "content"}
    result["quantization"] = chosen

    float_file, file = _stripped(content), _stripped(final)
    (folder / "float32.tflite").write_bytes(float_file)
    (folder / "model.tflite").write_bytes(file)
    evaluation = _load(folder, "evaluation", job["inputs"]) or {}
    for name, bytes_ in (("float32", float_file), ("model", file)):
        values = runtime.run_samples(bytes_, evaluation, lambda done, total: emit("verify", done, total))
        np.savez(folder / f"{name}_outputs.npz", *values)
        if job["states"]:
            stream = {key: values[: job["stream"]] for key, values in evaluation.items()}
            carried = runtime.run_samples(bytes_, stream, num_carried=job["states"])
            np.savez(folder / f"{name}_stream.npz", *carried)
    emit("measure", 0, 0)
    first = {name: values[0] for name, values in evaluation.items()}
    latency = runtime.measure_latency([float_file, file], first, seconds=LATENCY_SECONDS)
    return {**result, "latency": latency, "file": inspection.describe(file)}


def _export(folder: Path, job: dict[str, Any], saved: Path) -> tuple[list[str], Lowering]:
    """Load the model that another backend trained, and trace it here."""
    model = loading.load_model(folder / "model.keras")
    samples = _load(folder, "evaluation", job["inputs"])
    shapes = {name: values.shape[1:] for name, values in (samples or {}).items()}
    signature = model_signature.read_signature(model, None, shapes, job["batch_size"])
    return saved_model.export_saved_model(model, signature, saved, job["max_unrolled_steps"])


def _load(folder: Path, kind: str, names: list[str]) -> dict[str, np.ndarray] | None:
    path = folder / f"{kind}.npz"
    if not path.exists():
        return None
    with np.load(path) as data:
        return {name: data[f"arr_{index}"] for index, name in enumerate(names)}


def _prepared(content: bytes, inputs: list[str], outputs: list[str]) -> bytes:
    """Give the converter's graph Keras' interface, the form that XNNPACK takes, and a name per tensor."""
    graph = graphs.read_graph(content)
    graphs.set_interface(graph, inputs, outputs)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    graphs.name_tensors(graph)
    return graphs.write_graph(graph)


def _stripped(content: bytes) -> bytes:
    graph = graphs.read_graph(content)
    graphs.strip_names(graph)
    return graphs.write_graph(graph)
