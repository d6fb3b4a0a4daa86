"""Child job "answer": what a file answers to the evaluation samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import runtime
from keras_attention.tflite.jobs.quantize import load_samples


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Run evaluation.npz through given.tflite and write its answers to given_outputs.npz."""
    content = (folder / "given.tflite").read_bytes()
    samples = load_samples(folder, "evaluation", job["inputs"]) or {}
    emit("answer", 0, 0)
    answers = runtime.run_samples(content, samples, lambda done, total: emit("answer", done, total))
    np.savez(folder / "given_outputs.npz", *answers)
    return {}
