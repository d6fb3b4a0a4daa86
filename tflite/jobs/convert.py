"""Child job "convert": from the traced model to the float file from which all others are made."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import ordering
from keras_attention.tflite import rewriting
from keras_attention.tflite import tensorflow_converter


def import_packages() -> None:
    """Import what takes long, for a child that waits for its job."""
    tensorflow_converter.import_tensorflow()


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write float.tflite, whose tensors are named by position and layer."""
    emit("convert", 0, 0)
    content = tensorflow_converter.convert_saved_model(folder / "saved_model")
    content = prepare(content, job["inputs"], job["outputs"], job["layers"])
    (folder / "float.tflite").write_bytes(content)
    return {"outputs": job["outputs"]}


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
    _refuse_variables(graph)
    graphs.set_interface(graph, inputs, outputs)
    rewriting.drop_round_trips(graph)
    rewriting.bound_roots(graph)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    ordering.save_memory(graph)
    layer_names.name_tensors(graph, layers)
    return graphs.write_graph(graph)


def _refuse_variables(graph: Any) -> None:
    """Raise if the model writes a variable while it answers."""
    names = {graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators}
    if "ASSIGN_VARIABLE" in names:
        raise ValueError(
            "a layer of the model writes a variable while it answers, for instance the state of a "
            "SeedGenerator, and a file keeps nothing between two calls. Let the layer do so with "
            "training=True only, or hand the value in as an input and out as an output."
        )
