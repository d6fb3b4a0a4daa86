"""Child job "check": what the rules for files find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attention.tflite.linting import file_rules


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Check the file that the job names."""
    del folder

    emit("inspect", 0, 0)
    findings = file_rules.check_content(Path(job["file"]).read_bytes(), job["target"])
    return {"findings": [vars(finding) for finding in findings]}
