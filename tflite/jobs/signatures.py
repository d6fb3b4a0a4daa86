"""Child job "signatures": each signature of a merged file answers as the file that it was made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

RUNS = 4


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Run both on the same random inputs; the answers must be equal, bit for bit."""
    generator = np.random.default_rng(0)
    merged = Interpreter(model_path=str(folder / "merged.tflite"), num_threads=1)
    for number, name in enumerate(job["signatures"]):
        emit("verify", number, len(job["signatures"]))
        alone = Interpreter(model_path=str(folder / f"{number}.tflite"), num_threads=1)
        runners = alone.get_signature_runner(), merged.get_signature_runner(name)
        for _ in range(RUNS):
            inputs = {
                key: _values(detail, generator) for key, detail in runners[0].get_input_details().items()
            }
            wanted, got = (runner(**inputs) for runner in runners)
            if set(wanted) != set(got) or not all(
                np.array_equal(wanted[key], got[key], equal_nan=True) for key in wanted
            ):
                raise ValueError(f"signature {name!r} answers otherwise in the merged file than alone.")
    return {}


def _values(detail: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Return random values of an input; integers are 0 or 1, which every lookup knows."""
    kind = np.dtype(detail["dtype"])
    size = tuple(detail["shape"])
    values = generator.standard_normal(size) if kind.kind == "f" else generator.integers(0, 2, size)
    return np.asarray(values, kind)
