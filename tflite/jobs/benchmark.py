"""Child job "benchmark", in three steps: "load" one file, "time" several in turns, "profile" one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from keras_attention.tflite import benchmark_inputs
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import profiling
from keras_attention.tflite import runtime

PROFILED_RUNS = 10


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Do the step that the job names."""
    step = job["step"]
    emit(step, 0, 0)
    if step == "load":
        return load(Path(job["file"]), job["num_threads"])
    inputs = [_read(folder / f"inputs_{number}.npz") for number in range(len(job["files"]))]
    if step == "profile":
        (path,), (values,) = job["files"], inputs
        return {
            "operators": profiling.profile(
                Path(path), values, num_threads=job["num_threads"], runs=PROFILED_RUNS
            )
        }
    interpreters = []
    for path, values in zip(job["files"], inputs, strict=True):
        interpreter = runtime.load_interpreter(Path(path).read_bytes(), num_threads=job["num_threads"])
        feed(interpreter, values)
        interpreters.append(interpreter)
    times = runtime.time_in_turns(
        interpreters,
        seconds=job["seconds"],
        warmup=job["warmup"],
        progress=lambda done, total: emit("time", done, total),
    )
    np.savez(folder / "times.npz", *times)
    return {}


def load(path: Path, num_threads: int) -> dict[str, Any]:
    """Load the file and run it three times; return what that took and how the runtime takes the file."""
    content = path.read_bytes()
    graph = graphs.read_graph(content)
    names = graphs.input_names(graph)
    before = reset_peak_memory()
    start = time.perf_counter()
    interpreter = runtime.load_interpreter(content, num_threads=num_threads)
    load_ms = (time.perf_counter() - start) * 1e3
    interface = describe_inputs(interpreter, names)
    feed(interpreter, list(benchmark_inputs.random_inputs(interface).values()))
    for _ in range(3):
        interpreter.invoke()
    peak = peak_memory()
    partitions, operators = runtime.partitions_and_operators(content)
    return {
        "inputs": interface,
        "load_ms": load_ms,
        "memory_bytes": None if before is None or peak is None else max(0, peak - before),
        "partitions": partitions,
        "operators": sum(operators.values()),
        "delegated": runtime.count_delegated(interpreter),
        "fully_delegated": runtime.is_fully_delegated(content),
    }


def describe_inputs(interpreter: Interpreter, names: list[str]) -> list[dict[str, Any]]:
    """Return name, dtype, shape, scale and zero point of each input, in the file's order."""
    described = []
    for name, detail in zip(names, interpreter.get_input_details(), strict=True):
        scale, zero_point = detail["quantization"]
        described.append(
            {
                "name": name,
                "dtype": np.dtype(detail["dtype"]).name,
                "shape": [int(size) for size in detail["shape"]],
                "scale": float(scale),
                "zero_point": int(zero_point),
                "open": bool((np.asarray(detail["shape_signature"]) < 0).any()),
            }
        )
    return described


def feed(interpreter: Interpreter, values: list[np.ndarray]) -> None:
    """Write one array per input, in the file's order."""
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)


def reset_peak_memory() -> int | None:
    """Forget the peak of resident memory so far and return what is resident now; None outside Linux."""
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        return None
    forget.write_text("5")
    return _status("VmRSS")


def peak_memory() -> int | None:
    """Return the peak of resident memory since it was reset, in bytes; None outside Linux."""
    return _status("VmHWM")


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    (line,) = (line for line in status.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def _read(path: Path) -> list[np.ndarray]:
    with np.load(path) as data:
        return [data[name] for name in data.files]
