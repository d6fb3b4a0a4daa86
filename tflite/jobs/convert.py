"""Child job "convert": from the traced model to the float file from which all others are made."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import loading
from keras_attention.tflite import model_signature
from keras_attention.tflite import ordering
from keras_attention.tflite import rewriting
from keras_attention.tflite import saved_model
from keras_attention.tflite.jobs.quantize import load_samples
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.lowering.patch import Lowering

NEEDED = ("keras", "tensorflow")
"""Packages that take long to import, for a child that waits for its job."""


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write float.tflite, whose tensors are named by position and layer."""
    result: dict[str, Any] = {}
    saved = folder / "saved_model"
    outputs, layers = job["outputs"], job["layers"]
    if outputs is None:
        emit("export", 0, 0)
        outputs, layers, lowering = _export(folder, job, saved)
        result |= {"changes": lowering.changes, "loops": lowering.loops, "sizes": lowering.sizes}
    emit("convert", 0, 0)
    content = prepare(saved_model.convert_saved_model(saved), job["inputs"], outputs, layers)
    (folder / "float.tflite").write_bytes(content)
    return {**result, "outputs": outputs}


def prepare(
    content: bytes, inputs: Sequence[str], outputs: Sequence[str], layers: Mapping[str, bool]
) -> bytes:
    """Return what the converter wrote in the form that every precision starts from.

    Args:
        content: bytes of the converter's file.
        inputs: Keras' names in order.
        outputs: the same of the outputs.
        layers: as `layer_names.of_model` returns them.
    """
    graph = graphs.read_graph(content)
    graphs.set_interface(graph, inputs, outputs)
    rewriting.drop_round_trips(graph)
    rewriting.bound_roots(graph)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    ordering.save_memory(graph)
    layer_names.name_tensors(graph, layers)
    return graphs.write_graph(graph)


def _export(folder: Path, job: dict[str, Any], saved: Path) -> tuple[list[str], dict[str, bool], Lowering]:
    """Load the model that another backend trained, and trace it here."""
    model = loading.load_model(folder / "model.keras")
    samples = load_samples(folder, "evaluation", job["inputs"])
    shapes = {name: values.shape[1:] for name, values in (samples or {}).items()}
    signature = model_signature.read_signature(model, None, shapes, job["batch_size"])
    names, lowering = saved_model.export_saved_model(model, signature, saved, job["max_unrolled_steps"])
    return names, layer_names.of_model(all_layers(model)[1:]), lowering
