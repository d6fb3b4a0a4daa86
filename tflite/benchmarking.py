"""`benchmark`: how fast .tflite files run on this machine, and what they cost otherwise."""

from __future__ import annotations

import importlib.metadata
import math
import numbers
import os
import platform
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import benchmark_inputs
from keras_attention.tflite import benchmark_results
from keras_attention.tflite import child
from keras_attention.tflite import leftovers
from keras_attention.tflite.benchmark_results import Benchmark
from keras_attention.tflite.benchmark_results import FileTimes
from keras_attention.tflite.benchmark_results import OperatorTime
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.progress import StageProgress

_Found = dict[str, Any]
_Progress = Callable[[str, int, int], None]


def benchmark(
    paths: str | Path | Sequence[str | Path],
    *,
    num_threads: int = 1,
    seconds: float = 1.0,
    warmup: int = 5,
    profile: bool = False,
    inputs: np.ndarray | Mapping[str, np.ndarray] | None = None,
    verbose: int = 1,
) -> Benchmark:
    """Time .tflite files in turns on this machine, and compare each with the first.

    Each file is loaded once in a process of its own, so that one that ends the process costs only itself;
    the others are then timed together in one process.

    Args:
        paths: one .tflite file or several, of any origin. Naming one twice shows the noise.
        num_threads: threads of the runtime. Defaults to 1.
        seconds: time to measure, per file. Defaults to 1.
        warmup: runs of each file before the clock starts. Defaults to 5.
        profile: whether to time each operator too. Defaults to False.
        inputs: arrays by input name whose first axis counts samples; the first sample is used. Defaults to
            random values.
        verbose: 0 hides the progress bar. Defaults to 1.

    Returns:
        The `Benchmark`; files that failed are in its `failures`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError, TypeError: an argument is wrong; the message says what is allowed.
        ConversionError: no file could be measured.

    Example:
    ```python
    from keras_attention import tflite

    result = tflite.benchmark(["float32.tflite", "int8.tflite"], seconds=0.5)
    print(result.files[1].ratio, result.files[1].verdict)
    ```
    """
    files = _check_paths([paths] if isinstance(paths, str | os.PathLike) else paths)
    _check_numbers(num_threads, seconds, warmup)
    load = _load_average()
    with StageProgress(verbose) as progress:
        found, failures = _load_all(files, num_threads, progress)
        measured = [path for path in files if path in found]
        if not measured:
            raise ConversionError("No file could be measured. " + "\n".join(failures.values()))
        fed = {path: _inputs(found[path]["inputs"], inputs, path) for path in found}
        times = _time(measured, fed, num_threads, seconds, warmup, progress)
        operators, remarks = _profile(list(found), fed, num_threads, progress) if profile else ({}, [])
    results = []
    for path, taken in zip(measured, times, strict=True):
        first = benchmark_results.labels([*map(str, measured)])[str(measured[0])]
        results.append(_result(path, found[path], taken, times[0], first, operators.get(path, ())))
    remarks = [*remarks, *benchmark_results.noise_remarks(tuple(results))]
    return Benchmark(
        files=tuple(results),
        failures={str(path): text for path, text in failures.items()},
        num_threads=num_threads,
        seconds=float(seconds),
        warmup=warmup,
        inputs="random" if inputs is None else "given",
        machine=_machine(),
        remarks=(*remarks, *_remarks(measured[0], failures, found, num_threads, load)),
    )


def _check_paths(paths: Any) -> list[Path]:
    if not isinstance(paths, Sequence) or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise TypeError(f"`paths` must be the path of a .tflite file or a list of them. Received: {paths!r}")
    if not paths:
        raise ValueError("`paths` must name at least one .tflite file. Received: []")
    files = [Path(path) for path in paths]
    for path in files:
        if not path.is_file():
            raise FileNotFoundError(f"`paths` must be .tflite files. No such file: {str(path)!r}")
        with path.open("rb") as stream:
            if stream.read(8)[4:] != b"TFL3":
                raise ValueError(
                    f"`paths` must be .tflite files. {str(path)!r} is not one: its mark 'TFL3' is missing at "
                    "position 4. A .keras file becomes one by `keras-attention convert`."
                )
    return files


def _check_numbers(num_threads: Any, seconds: Any, warmup: Any) -> None:
    for name, value, least in (("num_threads", num_threads, 1), ("warmup", warmup, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"`{name}` must be an integer >= {least}. Received: {value!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"`seconds` must be a number > 0. Received: {seconds!r}")
    if not 0 < float(seconds) < math.inf:
        raise ValueError(
            f"`seconds` must be a number > 0, the time to measure per file. Received: {seconds!r}"
        )


def _load_all(
    files: list[Path], num_threads: int, progress: _Progress
) -> tuple[dict[Path, _Found], dict[Path, str]]:
    """Load each file in a process of its own; return what was found, and why others failed."""
    found: dict[Path, _Found] = {}
    failures: dict[Path, str] = {}
    for path in dict.fromkeys(files):
        job = {"step": "load", "file": str(path.resolve()), "num_threads": num_threads}
        try:
            found[path] = _run(job, {}, progress)[0]
        except ConversionError as error:
            failures[path] = f"{str(path)!r} can't be measured. {error}"
    return found, failures


def _time(
    files: list[Path],
    fed: dict[Path, list[np.ndarray]],
    num_threads: int,
    seconds: float,
    warmup: int,
    progress: _Progress,
) -> list[np.ndarray]:
    job = {
        "step": "time",
        "files": [str(path.resolve()) for path in files],
        "num_threads": num_threads,
        "seconds": float(seconds),
        "warmup": warmup,
    }
    try:
        return _run(job, dict(enumerate(fed[path] for path in files)), progress)[1]
    except ConversionError as error:
        names = ", ".join(repr(str(path)) for path in files)
        raise ConversionError(f"Each of {names} ran alone, but not one after the other. {error}") from error


def _profile(
    files: list[Path], fed: dict[Path, list[np.ndarray]], num_threads: int, progress: _Progress
) -> tuple[dict[Path, tuple[OperatorTime, ...]], list[str]]:
    profiles, remarks = {}, []
    for path in files:
        job = {"step": "profile", "files": [str(path.resolve())], "num_threads": num_threads}
        try:
            rows = _run(job, {0: fed[path]}, progress)[0]["operators"]
        except ConversionError as error:
            remarks.append(f"no profile of {path.name}: {error}")
            continue
        profiles[path] = tuple(OperatorTime(**row) for row in rows)
    return profiles, remarks


def _run(
    job: dict[str, Any], inputs: Mapping[int, list[np.ndarray]], progress: _Progress
) -> tuple[_Found, list[np.ndarray]]:
    """Run a step in a child process; return its result, and the times where it left some."""
    with leftovers.work_folder() as folder:
        for number, values in inputs.items():
            np.savez(folder / f"inputs_{number}.npz", *values)
        result = child.run_job(folder, {"task": "benchmark", **job}, progress)
        if job["step"] != "time":
            return result, []
        with np.load(folder / "times.npz") as data:
            return result, [data[key] for key in data.files]


def _inputs(interface: list[dict[str, Any]], given: Any, path: Path) -> list[np.ndarray]:
    if given is None:
        return list(benchmark_inputs.random_inputs(interface).values())
    return list(benchmark_inputs.given_inputs(interface, given, path.name).values())


def _result(
    path: Path,
    found: _Found,
    times: np.ndarray,
    reference: np.ndarray,
    first: str,
    operators: tuple[OperatorTime, ...],
) -> FileTimes:
    ratio, low, high = benchmark_results.paired_ratio(times, reference)
    taken = f"XNNPACK, {found['delegated']} of {found['operators']} operators"
    return FileTimes(
        path=str(path),
        size_bytes=path.stat().st_size,
        **benchmark_results.latency(times),
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        verdict=benchmark_results.verdict(ratio, low, high, first),
        load_ms=found["load_ms"],
        memory_bytes=found["memory_bytes"],
        accelerator=taken if found["delegated"] else "none (built-in kernels)",
        partitions=found["partitions"],
        fully_delegated=found["fully_delegated"],
        operators=operators,
    )


def _remarks(
    first: Path, failures: dict[Path, str], found: dict[Path, _Found], num_threads: int, load: float
) -> list[str]:
    remarks = []
    cores = os.cpu_count() or 1
    if load > cores:
        remarks.append(
            f"the machine was busy before the start (load average {load:.1f} on {cores} cores); times are "
            "too long. Measure again when it is idle."
        )
    if num_threads > cores:
        remarks.append(f"num_threads={num_threads} on {cores} cores: the threads wait for each other.")
    if failures:
        remarks.append(f"{len(failures)} file(s) could not be measured; ratios are against {first.name}.")
    for path, one in found.items():
        if any(spec["open"] for spec in one["inputs"]):
            remarks.append(f"{path.name} has inputs of open size; 1 was taken for each open axis.")
    remarks.append(
        f"measured on {platform.machine()}; times on this machine do not predict those of a phone, and "
        "ratios differ there too."
    )
    return remarks


def _load_average() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _machine() -> dict[str, str]:
    return {
        "processor": platform.processor() or platform.machine(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": str(os.cpu_count() or 1),
        "python": platform.python_version(),
        "ai-edge-litert": importlib.metadata.version("ai-edge-litert"),
    }
