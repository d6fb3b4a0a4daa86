"""What `benchmark` found: frozen numbers, with a table, JSON, and remarks in plain words."""

from __future__ import annotations

import collections
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_attention.tflite import files as writing
from keras_attention.tflite import formatting

_RESAMPLES = 1000
_SAME = 0.03
_NOISY = 2.0
_SHOWN_OPERATORS = 10
_NAME = 18


@dataclass(frozen=True)
class OperatorTime:
    """One operator as it runs.

    Attributes:
        name: as the engine calls it.
        engine: "XNNPACK" or "built-in".
        calls: how often one run of the file calls it.
        milliseconds: per run of the file.
        share: of the time of all operators.
    """

    name: str
    engine: str
    calls: float
    milliseconds: float
    share: float


@dataclass(frozen=True)
class FileTimes:
    """What was measured of one file. docs/benchmark.md defines each number.

    Attributes:
        path: the file.
        size_bytes: its size.
        runs: timed runs.
        min_ms, median_ms, mean_ms, p95_ms: latency of one run.
        ratio: median over the rounds of this file's time / the first file's.
        ratio_low, ratio_high: 95 % confidence range of `ratio`.
        verdict: the same in words.
        load_ms: first load in a new process.
        memory_bytes: peak growth of resident memory by loading and running; None where the operating system
            doesn't tell.
        accelerator: what runs it, "XNNPACK, 8 of 9 operators".
        partitions: pieces of the graph that XNNPACK runs.
        fully_delegated: whether no operator is left outside XNNPACK.
        operators: time of each operator, where a profile was asked for and made.
    """

    path: str
    size_bytes: int
    runs: int
    min_ms: float
    median_ms: float
    mean_ms: float
    p95_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    verdict: str
    load_ms: float
    memory_bytes: int | None
    accelerator: str
    partitions: int
    fully_delegated: bool
    operators: tuple[OperatorTime, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """The result of `benchmark`.

    Attributes:
        files: one per file that could be measured, in the order given.
        failures: path -> why it could not be measured.
        num_threads, seconds, warmup: as asked for.
        inputs: "random" or "given".
        machine: processor and versions.
        remarks: what to know when reading the numbers.
    """

    files: tuple[FileTimes, ...]
    failures: dict[str, str]
    num_threads: int
    seconds: float
    warmup: int
    inputs: str
    machine: dict[str, str]
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        return dataclasses.asdict(self)

    def write(self, path: str | Path) -> Path:
        """Write everything as JSON, whole or not at all, and return the path."""
        path = Path(path)
        writing.check_writable(path)
        writing.write_whole(path, (json.dumps(self.to_dict(), indent=2) + "\n").encode())
        return path

    def table(self) -> Table:
        """Return the times of one run, a row per file."""
        threads = "1 thread" if self.num_threads == 1 else f"{self.num_threads} threads"
        table = Table(title=f"Milliseconds per run, {threads}", title_justify="left")
        table.add_column("file", overflow="fold")
        for column in ("min", "median", "p95", "x first"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("95 % range", justify="right")
        names = labels([file.path for file in self.files])
        for number, file in enumerate(self.files):
            ratio = f"{file.ratio:.2f}" if number else ""
            bounds = f"{file.ratio_low:.2f} to {file.ratio_high:.2f}" if number else ""
            table.add_row(
                escape(formatting.folded(names[file.path], _NAME)),
                *(f"{file.min_ms:.3f}", f"{file.median_ms:.3f}", f"{file.p95_ms:.3f}", ratio, bounds),
            )
        return table

    def cost_table(self) -> Table:
        """Return what each file takes besides time, and who runs it."""
        table = Table(title="Size, load, memory and engine", title_justify="left")
        table.add_column("file", overflow="fold")
        for column in ("size", "load", "memory"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("engine")
        names = labels([file.path for file in self.files])
        for file in self.files:
            pieces = "" if file.partitions == 1 else f", {file.partitions} partitions"
            table.add_row(
                escape(formatting.folded(names[file.path], _NAME)),
                formatting.kilobytes(file.size_bytes),
                f"{file.load_ms:.1f} ms",
                _megabytes(file.memory_bytes),
                file.accelerator + pieces,
            )
        return table

    def operator_table(self, file: FileTimes) -> Table:
        """Return the slowest operators of a profiled file, those of one name together."""
        kinds: dict[tuple[str, str], list[OperatorTime]] = collections.defaultdict(list)
        for operator in file.operators:
            kinds[operator.name, operator.engine].append(operator)
        slowest = sorted(kinds.items(), key=lambda item: -sum(one.share for one in item[1]))
        name_of_file = labels([one.path for one in self.files])[file.path]
        table = Table(title=f"Operators of {name_of_file}", title_justify="left")
        table.add_column("operator")
        table.add_column("engine")
        for column in ("count", "ms", "share"):
            table.add_column(column, justify="right")
        for (name, engine), ones in slowest[:_SHOWN_OPERATORS]:
            milliseconds = sum(one.milliseconds for one in ones)
            share = sum(one.share for one in ones)
            table.add_row(name, engine, str(len(ones)), f"{milliseconds:.3f}", f"{share:.1%}")
        return table

    def print(self, console: Console | None = None) -> None:
        """Print the tables, the verdicts and the remarks."""
        console = console or Console()
        console.print(self.table())
        console.print(self.cost_table())
        for file in {file.path: file for file in self.files if file.operators}.values():
            console.print(self.operator_table(file))
        names = labels([file.path for file in self.files])
        for file in self.files[1:]:
            console.print(f"{names[file.path]} is {file.verdict}", markup=False)
        for remark in self.remarks:
            console.print(f"note: {remark}", style="yellow", markup=False)


def latency(times: np.ndarray) -> dict[str, Any]:
    """Return count, min, median, mean and 95th percentile of all runs, as fields of `FileTimes`."""
    return {
        "runs": int(times.size),
        "min_ms": float(times.min()),
        "median_ms": float(np.median(times)),
        "mean_ms": float(times.mean()),
        "p95_ms": float(np.percentile(times, 95)),
    }


def paired_ratio(times: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """Return the median over the rounds of times / reference, with its 95 % confidence range.

    Both are arrays (rounds, runs). A round counts by the median of its runs, and is compared with the same
    round of the other file, so that a slow second of the machine hits both sides. The range is the
    percentile bootstrap over the rounds.
    """
    ratios = np.median(times, axis=1) / np.median(reference, axis=1)
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(ratios), (_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[chosen], axis=1), (2.5, 97.5))
    return float(np.median(ratios)), float(low), float(high)


def verdict(ratio: float, low: float, high: float, first: str) -> str:
    """Return how a file compares with the one called `first`, in words."""
    if low <= 1.0 <= high or abs(ratio - 1.0) < _SAME:
        return f"as fast as {first}, as far as this run can tell ({ratio:.2f} x its time)"
    if ratio > 1.0:
        return f"SLOWER than {first}: it takes {ratio:.2f} x its time"
    return f"faster than {first}: it takes {ratio:.2f} x its time"


def noise_remarks(files: tuple[FileTimes, ...]) -> list[str]:
    """Return a remark on the files whose times scatter so much that the machine was busy."""
    names = labels([file.path for file in files])
    noisy = list(dict.fromkeys(names[file.path] for file in files if file.p95_ms > _NOISY * file.min_ms))
    if not noisy:
        return []
    return [
        f"the times scatter (95th percentile above {_NOISY:g} x the minimum: {', '.join(noisy)}). Something "
        "else used the machine; compare the minimum, or measure again when it is idle."
    ]


def labels(paths: list[str]) -> dict[str, str]:
    """Return path -> what to call it: its last part, or all of it where two files share that."""
    counts = collections.Counter(Path(path).name for path in set(paths))
    return {path: Path(path).name if counts[Path(path).name] == 1 else path for path in paths}


def _megabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e6:,.1f} MB"
