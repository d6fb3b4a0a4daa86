"""The report of a conversion: plain numbers, as JSON, as a page and as a table."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_attention.tflite import files
from keras_attention.tflite import html_report
from keras_attention.tflite import report_reading
from keras_attention.tflite import report_tables
from keras_attention.tflite.formatting import decibels
from keras_attention.tflite.formatting import kilobytes

Value = str | int | float | bool | None
"""What a device's row holds."""


@dataclass(frozen=True)
class Report:
    """What a conversion measured. docs/conversion.md defines each number.

    Attributes:
        precision: as asked for.
        size_bytes: size of the file.
        float32_size_bytes: size of the float32 file of the same model, with a manifest of the same size.
        predicted_size_bytes: size that was predicted from the recurrent layers, with a manifest of the same
            size; 0 where none was unrolled.
        operators: operator name -> count.
        delegate_partitions: pieces of the graph that XNNPACK runs; 1 is best.
        fully_delegated: whether no operator is left outside XNNPACK.
        tensor_dtypes: type -> count of tensors, read from the file.
        inputs: "name: type[shape]" per input, in order.
        outputs: the same per output.
        samples: evaluation samples compared.
        evaluation_source: "evaluation", "calibration" or "random": whose samples they were.
        task: "classification" or "regression", per output.
        agreement: share of samples that are answered as by the reference; the worst output counts.
        sqnr_db: signal-to-quantization-noise ratio in dB; the worst output counts.
        max_abs_error: largest absolute difference from the reference over all outputs.
        float32_sqnr_db: sqnr_db of the float32 file, which shows what lowering alone changed.
        metric: {"name", "keras", "tflite"} where the evaluation has targets, else None.
        latency_ms: {"min", "median", "float32_min", "float32_median"}, one sample, one thread.
        calibration: {"samples", "inputs", "ranges", "trials", "static", "dynamic"}: see
            `docs/conversion.md`; empty where none was needed.
        changes: layer path -> what lowering changed.
        remarks: what the user should know.
        versions: package -> version.
        model_name: name of the Keras model.
        refusal: why a floor refused the file; "" where the file was accepted.
        reason: why this file was chosen among the candidates; "" where there was no choice.
        candidates: per file that was tried {"precision", "size_bytes", "latency_ms": {"min", "median"},
            "agreement", "sqnr_db", "metric", "delegate_partitions", "fully_delegated", "passes", "chosen",
            "remark"}; the numbers are None where the file could not be made.
        sensitivity: per layer, worst first: {"layer", "operators", "sqnr_db", "treatment", "advice"}.
        by_output: per output, where there are several: {"output", "agreement", "sqnr_db"}; the last is None
            for integers.
        worst_samples: up to eight evaluation samples with the largest error: {"index", "output", "keras",
            "tflite", "first", "max_abs_error", "agrees"}; at most 32 values, from place `first` on.
        partition_map: per operator of the main graph, in order: {"index", "operator", "dtype",
            "partition"}; the partition is None outside XNNPACK.
        manifest: what the app has to know, as stored in the file.
        minimum_runtime: the oldest runtime that knows all operators of the file; "" where not known.
        reference: who gave the answers that all numbers compare with: "Keras", or "the float file" where a
            file was quantized; wherever a field says Keras, it is meant.
        sha256: of the file, in hexadecimal; "" in a report that was written before there was this field.
        devices: what was found later on other devices, by `with_device`: device -> what -> value. A value
            under "passed" says whether the device answered as it must.
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
    model_name: str = ""
    refusal: str = ""
    reason: str = ""
    candidates: tuple[dict[str, Any], ...] = ()
    sensitivity: tuple[dict[str, Any], ...] = ()
    by_output: tuple[dict[str, Any], ...] = ()
    worst_samples: tuple[dict[str, Any], ...] = ()
    partition_map: tuple[dict[str, Any], ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)
    minimum_runtime: str = ""
    reference: str = "Keras"
    sha256: str = ""
    devices: dict[str, dict[str, Value]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, ready for JSON."""
        return dataclasses.asdict(self)

    def write(self, path: str | Path) -> Path:
        """Write the report, whole or not at all, and return the path.

        Args:
            path: a .json file for programs, or an .html file for people: one page without anything to load.
        """
        path = Path(path)
        check_ending(path)
        files.check_writable(path)
        if path.suffix.lower() == ".json":
            text = json.dumps(self.to_dict(), indent=2) + "\n"
        else:
            text = html_report.render(self.to_dict())
        files.write_whole(path, text.encode())
        return path

    @classmethod
    def read(cls, path: str | Path) -> Report:
        """Read a report that `write` wrote as JSON.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no report; the message names the field.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"`path` must be a report in JSON. No such file: {str(path)!r}")
        try:
            return cls(**report_reading.check_values(json.loads(path.read_bytes()), cls))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{str(path)!r} is no report of a conversion: {error}") from error

    def with_device(self, device: str, rows: Mapping[str, Value], content: bytes) -> Report:
        """Return this report with what was found on a device, in place of what was found there before.

        Args:
            device: what it is called, such as "cortex-a76 (emulated)".
            rows: what -> value.
            content: the .tflite file that ran there.

        Raises:
            ValueError: the report is of another file.
        """
        found = hashlib.sha256(content).hexdigest()
        if self.size_bytes != len(content) or self.sha256 not in ("", found):
            raise ValueError(
                f"The report is of another file: it tells of {self.size_bytes:,} bytes, sha256 "
                f"{self.sha256 or 'unknown'}, and the file has {len(content):,} bytes, sha256 {found}."
            )
        return dataclasses.replace(self, devices={**self.devices, device: dict(rows)})

    def table(self) -> Table:
        """Return the report as a table for the terminal."""
        table = Table(title=f"Conversion to {self.precision}", title_justify="left")
        table.add_column("measure")
        table.add_column("float32 reference", justify="right")
        table.add_column(f"{self.precision} file", justify="right")
        latency = self.latency_ms
        table.add_row("size", kilobytes(self.float32_size_bytes), kilobytes(self.size_bytes))
        table.add_row(
            "latency, min (median)",
            f"{latency['float32_min']:.3f} ({latency['float32_median']:.3f}) ms",
            f"{latency['min']:.3f} ({latency['median']:.3f}) ms",
        )
        table.add_row(
            f"SQNR against {self.reference}", decibels(self.float32_sqnr_db), decibels(self.sqnr_db)
        )
        table.add_row(f"agreement with {self.reference}", "", f"{self.agreement:.2%} of {self.samples}")
        table.add_row("largest error", "", f"{self.max_abs_error:.3g}")
        if self.metric is not None:
            table.add_row(
                f"{self.metric['name']} ({self.reference} {self.metric['keras']:.4f})",
                "",
                f"{self.metric['tflite']:.4f}",
            )
        whole = "whole graph" if self.fully_delegated else "operators left outside"
        table.add_row("XNNPACK partitions", "", f"{self.delegate_partitions}, {whole}")
        if self.minimum_runtime:
            table.add_row("oldest runtime", "", self.minimum_runtime)
        return table

    def print(self, console: Console | None = None) -> None:
        """Print the table, the candidates and layers where there are any, and the remarks."""
        console = console or Console()
        if self.candidates:
            console.print(report_tables.candidates(self.candidates))
            for line in report_tables.remarks(self.candidates):
                console.print(line, markup=False, highlight=False)
            console.print(self.reason, markup=False)
        console.print(self.table())
        if self.sensitivity:
            console.print(report_tables.sensitivity(self.sensitivity))
            for line in report_tables.advice(self.sensitivity):
                console.print(line, markup=False, highlight=False)
        for device, rows in self.devices.items():
            console.print(report_tables.device(device, rows))
        for remark in self.remarks:
            console.print(f"note: {remark}", style="yellow", markup=False)


def check_ending(path: Path) -> None:
    """Raise `ValueError` unless the name tells a form in which a report can be written."""
    if path.suffix.lower() not in (".json", ".html"):
        raise ValueError(f"A report must be a .json or .html file. Received: {str(path)!r}")
