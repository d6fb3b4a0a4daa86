"""Files of unknown origin: read in a child process without Keras, with bounds on time and memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attention.tflite import child
from keras_attention.tflite import leftovers
from keras_attention.tflite.errors import ConversionError

MOST_SECONDS = 300.0
"""Far more than reading any sound file and replaying its pairs takes."""


def run_job(path: Path, job: Mapping[str, Any], failed: str) -> dict[str, Any]:
    """Run a job that needs no Keras on a file, and return its result.

    Args:
        path: the file; the job finds it under "file".
        job: its task and other values.
        failed: what to say behind the file's name where it fails, such as "can't be inspected".

    Raises:
        ConversionError: naming the file and the reason; also where the job took too long or too much.
    """
    with leftovers.work_folder() as folder:
        try:
            return child.run_job(
                folder,
                {**job, "file": str(path.resolve())},
                lambda *_: None,
                limits=limits(),
            )
        except ConversionError as error:
            raise ConversionError(f"{str(path)!r} {failed}. {error}") from error


def limits() -> child.Limits:
    """Return the bounds: half of this machine's memory, beyond which no file asks in earnest."""
    if sys.platform == "win32":
        return child.Limits(MOST_SECONDS, None)
    return child.Limits(MOST_SECONDS, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
