"""Child job "describe": signatures, tensors and manifest of a file, for programs written around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import file_structure
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Read the file that the job names, without running it."""
    del folder
    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    sha256 = hashlib.sha256(content).hexdigest()
    document, remarks = _manifest(graph, sha256, job)
    return {
        "size_bytes": len(content),
        "sha256": sha256,
        "signatures": graphs.signature_interfaces(graph),
        "manifest": document,
        "remarks": remarks,
    }


def _manifest(graph: Any, sha256: str, job: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the manifest beside the file, which has all golden pairs, else the one in it."""
    if job["manifest"] is not None:
        path = Path(job["manifest"])
        document = manifests.read_sidecar(path)
        if document.get("file", {}).get("sha256") == sha256:
            return document, []
        if job["asked_for"]:
            raise ValueError(
                f"The manifest {path.name!r} was written for another file than this one (sha256 differs). "
                "Name the one that was written with it, or leave it out."
            )
        return manifests.read_embedded(graph), [
            f"{path.name!r} belongs to another file (sha256 differs) and was ignored."
        ]
    return manifests.read_embedded(graph), []
