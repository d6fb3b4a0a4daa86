"""Running an ONNX file in onnxruntime, in the child process: its kernels are native code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.serving import packages

_RUNS = 20
_WARM_UP = 3


def open_session(content: bytes) -> Any:
    """Load the file for the CPU."""
    runtime = packages.load("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def answer(session: Any, inputs: Mapping[str, np.ndarray], batch_size: int) -> list[np.ndarray]:
    """Return the answers to all samples, so many at a time, one array per output."""
    count = len(next(iter(inputs.values())))
    batches = [
        session.run(None, {name: values[start : start + batch_size] for name, values in inputs.items()})
        for start in range(0, count, batch_size)
    ]
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


def latency_ms(session: Any, inputs: Mapping[str, np.ndarray], batch_size: int) -> float:
    """Return the shortest time that one batch takes."""
    batch = {name: values[:batch_size] for name, values in inputs.items()}
    times = []
    for _ in range(_WARM_UP + _RUNS):
        start = time.perf_counter()
        session.run(None, batch)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times[_WARM_UP:])


def interface(session: Any) -> dict[str, list[dict[str, Any]]]:
    """Return names, shapes and types as the runtime reads them from the file."""
    sides = {"inputs": session.get_inputs(), "outputs": session.get_outputs()}
    return {
        side: [{"name": value.name, "shape": list(value.shape), "type": value.type} for value in values]
        for side, values in sides.items()
    }
