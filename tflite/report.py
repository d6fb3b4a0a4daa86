"""The report of a conversion: plain numbers, as JSON and as a table."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_attention.tflite import files
from keras_attention.tflite import metrics


@dataclass(frozen=True)
class Report:
    """What a conversion measured. docs/conversion.md defines each number.

    Attributes:
        precision: as asked for.
        size_bytes: size of the file.
        float32_size_bytes: size of the float32 file of the same model.
        predicted_size_bytes: size that was predicted from the recurrent layers; 0 where none was unrolled.
        operators: operator name -> count.
        delegate_partitions: pieces of the graph that XNNPACK runs; 1 is best.
        fully_delegated: whether no operator is left outside XNNPACK.
        tensor_dtypes: type -> count of tensors, read from the file.
        inputs: "name: type[shape]" per input, in order.
        outputs: the same per output.
        samples: evaluation samples compared.
        evaluation_source: "evaluation", "calibration" or "random": whose samples they were.
        task: "classification" or "regression", per output.
        agreement: share of samples that are answered as by Keras; the worst output counts.
        sqnr_db: signal-to-quantization-noise ratio in dB; the worst output counts.
        max_abs_error: largest absolute difference from Keras over all outputs.
        float32_sqnr_db: sqnr_db of the float32 file, which shows what lowering alone changed.
        metric: {"name", "keras", "tflite"} where the evaluation has targets, else None.
        latency_ms: {"min", "median", "float32_min", "float32_median"}, one sample, one thread.
        calibration: {"samples", "ranges", "trials", "static", "dynamic"}: see `docs/conversion.md`; empty
            where none was needed.
        changes: layer path -> what lowering changed.
        remarks: what the user should know.
        versions: package -> version.
    """

    precision: str
    size_bytes: int
    float32_size_bytes: int
    predicted_size_bytes: int
    operators: dict[str, int]
    delegate_partitions: int
    fully_delegated: bool
    tensor_dtypes: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    samples: int
    evaluation_source: str
    task: tuple[str, ...]
    agreement: float
    sqnr_db: float
    max_abs_error: float
    float32_sqnr_db: float
    metric: dict[str, Any] | None
    latency_ms: dict[str, float]
    calibration: dict[str, Any]
    changes: dict[str, str]
    remarks: tuple[str, ...]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, ready for JSON."""
        return dataclasses.asdict(self)

    def write(self, path: str | Path) -> Path:
        """Write the report as JSON, whole or not at all, and return the path."""
        path = Path(path)
        files.check_writable(path)
        files.write_whole(path, (json.dumps(self.to_dict(), indent=2) + "\n").encode())
        return path

    def table(self) -> Table:
        """Return the report as a table for the terminal."""
        table = Table(title=f"Conversion to {self.precision}", title_justify="left")
        table.add_column("measure")
        table.add_column("float32 reference", justify="right")
        table.add_column(f"{self.precision} file", justify="right")
        latency = self.latency_ms
        table.add_row("size", _kilobytes(self.float32_size_bytes), _kilobytes(self.size_bytes))
        table.add_row(
            "latency, min (median)",
            f"{latency['float32_min']:.3f} ({latency['float32_median']:.3f}) ms",
            f"{latency['min']:.3f} ({latency['median']:.3f}) ms",
        )
        table.add_row("SQNR against Keras", _decibels(self.float32_sqnr_db), _decibels(self.sqnr_db))
        table.add_row("agreement with Keras", "", f"{self.agreement:.2%} of {self.samples}")
        table.add_row("largest error", "", f"{self.max_abs_error:.3g}")
        if self.metric is not None:
            table.add_row(
                f"{self.metric['name']} (Keras {self.metric['keras']:.4f})",
                "",
                f"{self.metric['tflite']:.4f}",
            )
        whole = "whole graph" if self.fully_delegated else "operators left outside"
        table.add_row("XNNPACK partitions", "", f"{self.delegate_partitions}, {whole}")
        return table

    def print(self, console: Console | None = None) -> None:
        """Print the table and the remarks."""
        console = console or Console()
        console.print(self.table())
        for remark in self.remarks:
            console.print(f"note: {remark}", style="yellow", markup=False)


def _decibels(ratio: float) -> str:
    return "equal" if ratio >= metrics.EXACT_DB else f"{ratio:.1f} dB"


def _kilobytes(size: int) -> str:
    return f"{size / 1000:,.1f} kB"
