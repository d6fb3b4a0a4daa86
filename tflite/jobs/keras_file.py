"""Child job "keras_file": whether the parts of a .keras or .h5 file can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite import keras_files


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Look through the file that the job names."""
    del folder
    emit("inspect", 0, 0)
    keras_files.check(Path(job["file"]))
    return {}
