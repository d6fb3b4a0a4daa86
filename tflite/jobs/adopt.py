"""Child job "adopt": a float .tflite file of any origin becomes the one that all others are made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import byte_inputs
from keras_attention.tflite import file_structure
from keras_attention.tflite import float_files
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write float.tflite from given.tflite, and return its interface and what the file says of itself."""
    del job
    emit("adopt", 0, 0)
    content = (folder / "given.tflite").read_bytes()
    graph = file_structure.read(content)
    byte_inputs.cast(graph)
    reason = float_files.refusal(graph)
    manifest = manifests.read_embedded(graph)
    if reason:
        raise ValueError(reason)
    changes = float_files.prepare(graph)
    (folder / "float.tflite").write_bytes(graphs.write_graph(graph))
    return {
        **graphs.interface(graph),
        "changes": changes,
        "entries": {} if manifest is None else manifest["app"],
    }
