"""Child job "inspect": what a file holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import file_structure
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import partitions
from keras_attention.tflite import runtime
from keras_attention.tflite import runtime_versions


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Read the file that the job names and load it once."""
    del folder

    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    try:
        found = {**describe(content), "signatures": graphs.signature_names(graph)}
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"The file is damaged, or needs another runtime: {error}") from error
    return {**found, "manifest": manifests.read_embedded(graph)}


def describe(content: bytes) -> dict[str, Any]:
    """Return what `Inspection` and `Report` say of a file."""
    graph = graphs.read_graph(content)
    details = runtime.operator_details(content)
    pieces, operators = runtime.count_operators(details)
    types = [graphs.tensor_type(tensor) for tensor in graph.subgraphs[0].tensors]
    return {
        **graphs.describe_interface(graph),
        "operators": operators,
        "tensor_dtypes": graphs.count_tensor_types(graph),
        "delegate_partitions": pieces,
        "fully_delegated": runtime.is_fully_delegated(content),
        "partition_map": partitions.partition_map(details, types),
        "minimum_runtime": runtime_versions.minimum_runtime(graph),
    }
