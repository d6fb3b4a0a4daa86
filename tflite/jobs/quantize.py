"""Child job "quantize": a file of one precision from the float file, its answers and its latency."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import byte_inputs
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import norm_folding
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import convolutions
from keras_attention.tflite.jobs import inspect as inspection
from keras_attention.tflite.regional import Quantized

FLOATS = ("float32", "float16")
INTEGERS = ("int8_full", "int16x8")
"""Precisions that have forms of their own for normalizations."""


def import_packages() -> None:
    """Import what takes long, for a child that waits for its job."""
    importlib.import_module("litert_quantizer.quantizer")


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Make the file, run the evaluation through it, and measure it beside the float file."""
    source = Path(job["source"])
    content = (source / "float.tflite").read_bytes()
    emit("quantize", 0, 0)
    folded = norm_folding.fold(content)
    start = (
        folded if job["precision"] in FLOATS else norm_folding.fold(content, norm_folding.QUANTIZED_SPREAD)
    )
    quantized = quantization.quantize(
        content if job["precision"] in INTEGERS else start,
        job["precision"],
        load_samples(source, "calibration", job["inputs"]),
        io_dtype=job["io_dtype"],
        float_layers=job["float_layers"],
        with_sensitivity=job["sensitivity"],
        progress=lambda done, total: emit("calibrate", done, total),
    )
    if job["convolutions"]:
        quantized = _with_convolutions(quantized)
    chosen = {name: value for name, value in vars(quantized).items() if name != "content"}
    float_file = _finished(folded, keeps_layers=True)
    file = _finished(quantized.content, keeps_layers=job["precision"] in ("float32", "float16"))
    described = inspection.describe(file)
    chosen["left"] = [name for name in quantized.left if name in described["operators"]]
    (folder / "model.tflite").write_bytes(file)
    evaluation = load_samples(source, "evaluation", job["inputs"]) or {}
    measured = {"model": file}
    if not (source / "float32_outputs.npz").exists():
        (source / "float32.tflite").write_bytes(float_file)
        measured["float32"] = float_file
    for name, bytes_ in measured.items():
        where = source if name == "float32" else folder
        values = runtime.run_samples(bytes_, evaluation, lambda done, total: emit("verify", done, total))
        np.savez(where / f"{name}_outputs.npz", *values)
        if job["states"]:
            stream = {key: values[: job["stream"]] for key, values in evaluation.items()}
            carried = runtime.run_samples(bytes_, stream, num_carried=job["states"])
            np.savez(where / f"{name}_stream.npz", *carried)
    emit("measure", 0, 0)
    first = {name: values[0] for name, values in evaluation.items()}
    latency = runtime.measure_latency([float_file, file], first, seconds=job["latency_seconds"])
    return {"quantization": chosen, "latency": latency, "file": described}


def _with_convolutions(quantized: Quantized) -> Quantized:
    """Return the file with its integer products as convolutions, and say so."""
    graph = graphs.read_graph(quantized.content)
    count = convolutions.replace_products(graph)
    if not count:
        return quantized
    change = f"{count} products written as convolutions, which tflite-micro rounds as LiteRT does"
    changes = (*quantized.changes, change)
    return dataclasses.replace(quantized, content=graphs.write_graph(graph), changes=changes)


def load_samples(folder: Path, kind: str, names: list[str]) -> dict[str, np.ndarray] | None:
    """Return the samples that were stored in the inputs' order, or None where there are none."""
    path = folder / f"{kind}.npz"
    if not path.exists():
        return None
    with np.load(path) as data:
        return {name: data[f"arr_{index}"] for index, name in enumerate(names)}


def _finished(content: bytes, *, keeps_layers: bool) -> bytes:
    """Return the file as it is shipped: bytes as inputs for the delegate, names dropped."""
    graph = graphs.read_graph(content)
    byte_inputs.dequantize(graph)
    if keeps_layers:
        layer_names.store(graph)
    graphs.strip_names(graph)
    return graphs.write_graph(graph)
