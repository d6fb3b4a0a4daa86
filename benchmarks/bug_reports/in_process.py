"""`--in-process`: the child jobs of `convert` run in the converting process of the table.

Each call of `convert` starts two children, the first of which imports TensorFlow. Here none is started,
and the float file of a case is made once for all precisions: several times faster, and the same code. A
crash then ends the converting process, which the table reports as such.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attention.tflite import child
from keras_attention.tflite import worker
from keras_attention.tflite.errors import ConversionError

VARIABLE = "BUG_REPORTS_IN_PROCESS"
"""Set in the environment of the converting processes."""
_made: dict[str, tuple[bytes, dict[str, Any]]] = {}
_case = ""


def install(case: str) -> None:
    """Run the jobs of the calls that follow in this process, if that is asked for."""
    global _case
    if os.environ.get(VARIABLE) == "1":
        child.run_job = _run_job
        child.Ahead = _NoChild
        _case = case


class _NoChild(contextlib.nullcontext):  # type: ignore[type-arg]
    """Stands in for a child that waits."""

    is_given = True

    def __init__(self, folder: Path, task: str, *, needs_keras: bool = False) -> None:
        del folder, needs_keras
        self.task = task
        super().__init__(self)


def _run_job(folder: Path, job: Mapping[str, Any], progress: child.Progress, **_: Any) -> dict[str, Any]:
    del progress
    stage = "start"

    def emit(reached: str, *_: int) -> None:
        nonlocal stage
        stage = reached

    if job["task"] == "convert" and _case in _made:
        content, result = _made[_case]
        (folder / "float.tflite").write_bytes(content)
        return result
    task = importlib.import_module(f"keras_attention.tflite.jobs.{job['task']}")
    try:
        result = task.run(folder, dict(job), emit)
    except Exception as error:
        raise ConversionError(f"While {child.STAGES[stage]}: {worker._readable(error)}") from error
    if job["task"] == "convert":
        _made.clear()
        _made[_case] = (folder / "float.tflite").read_bytes(), result
    return dict(result)
