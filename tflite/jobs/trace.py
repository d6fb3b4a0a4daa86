"""Child job "trace": a model that another backend trained is traced on TensorFlow, and converted."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import layer_names
from keras_attention.tflite import loading
from keras_attention.tflite import model_signature
from keras_attention.tflite import saved_model
from keras_attention.tflite.jobs import convert
from keras_attention.tflite.lowering import all_layers


def import_packages() -> None:
    """Import what takes long, for a child that waits for its job."""
    importlib.import_module("tensorflow")


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write float.tflite from model.keras, and return what lowering changed."""
    emit("export", 0, 0)
    model = loading.load_model(folder / "model.keras")
    signature = model_signature.read_signature(model, None, job["input_shapes"], job["batch_size"])
    outputs, lowering = saved_model.export_saved_model(
        model, signature, folder / "saved_model", job["max_unrolled_steps"]
    )
    traced = {"outputs": outputs, "layers": layer_names.of_model(all_layers(model)[1:])}
    result = convert.run(folder, {**job, **traced}, emit)
    return {**result, "changes": lowering.changes, "loops": lowering.loops, "sizes": lowering.sizes}
