"""Child job "describe": signatures, tensors and manifest of a file, for programs written around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import file_structure
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import graph_facts
from keras_attention.tflite import manifest as manifests


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Read the file that the job names, without running it."""
    del folder
    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    sha256 = hashlib.sha256(content).hexdigest()
    document, _, remarks = manifests.read_nearest(graph, sha256, job)
    return {
        "size_bytes": len(content),
        "sha256": sha256,
        "signatures": graphs.signature_interfaces(graph),
        "token_limits": graph_facts.token_limits(graph),
        "sigmoids": graph_facts.sigmoids(graph),
        "manifest": document,
        "remarks": remarks,
    }
