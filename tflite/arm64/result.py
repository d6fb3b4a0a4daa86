"""What `check_arm64` found: frozen numbers, as tables and as rows for the conversion's report."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_attention.tflite import files
from keras_attention.tflite import formatting
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.arm64.comparison import Arm64Output
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.report import Report
from keras_attention.tflite.report import Value

NOT_TIME = (
    "Instructions are not time: how many a processor does at once, and how long it waits for memory, is not "
    "emulated. Measure on a phone before you promise milliseconds."
)
CLASSES = {
    "dot_product": "dot products",
    "matrix_product": "int8 matrix products (i8mm)",
    "float_multiply_add": "float32 multiply-add",
    "half_multiply_add": "float16 multiply-add",
    "integer_multiply_add": "integer multiply-add",
    "other_simd": "other vector and float",
    "sve_sme": "SVE and SME",
    "load_store": "loads and stores",
    "branch": "branches",
    "other": "other",
}
"""Class of the counter -> what it is called."""
_SOURCES = {"data": "the samples given", "random": "random values"}


@dataclass(frozen=True)
class Arm64Processor:
    """What one emulated processor answered.

    Attributes:
        name: "cortex-a53", "cortex-a76" or "armv8.6".
        outputs: each against this machine.
        instructions: class -> executed instructions of one run with XNNPACK; None where not counted.
    """

    name: str
    outputs: tuple[Arm64Output, ...]
    instructions: dict[str, int] | None

    @property
    def total(self) -> int | None:
        """Executed instructions of one run."""
        return None if self.instructions is None else sum(self.instructions.values())

    @property
    def passed(self) -> bool:
        """Whether it answers as it must."""
        return all(output.passed for output in self.outputs)


@dataclass(frozen=True)
class Arm64Check:
    """What running a file on emulated phones' processors gave. docs/arm64.md defines each number.

    Attributes:
        path: the .tflite file.
        source: "evaluation", "calibration" or "random", whose samples the golden pairs are; "data" for
            samples that were given; "random values" for a file without either.
        samples: how many were answered.
        machine: the architecture of this machine, such as "x86_64".
        processors: what was found, one entry each.
        versions: of the emulator, and of the packages in the emulation.
        remarks: what else the user should know.
    """

    path: Path
    source: str
    samples: int
    machine: str
    processors: tuple[Arm64Processor, ...]
    versions: dict[str, str]
    remarks: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is not as it must be, a sentence each."""
        return tuple(
            fault
            for processor in self.processors
            for output in processor.outputs
            for fault in _faults(processor.name, output, self.machine)
        )

    @property
    def passed(self) -> bool:
        """Whether every processor answers as it must."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        return {**dataclasses.asdict(self), "path": str(self.path)}

    def add_to_report(self, path: str | Path) -> Path:
        """Add an entry per processor to the report that `convert` wrote, whole or not at all.

        Args:
            path: the report, a .json file; an older entry of the same processor is replaced.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no report, or one of another file.
        """
        path = Path(path)
        report = Report.read(path)
        content = self.path.read_bytes()
        for processor in self.processors:
            report = report.with_device(f"{processor.name} (emulated)", self.rows(processor), content)
        files.check_writable(path)
        files.write_whole(path, (json.dumps(report.to_dict(), indent=2) + "\n").encode())
        return path

    def rows(self, processor: Arm64Processor) -> dict[str, Value]:
        """Return what a report says of a processor, what -> value."""
        found: dict[str, Value] = {"passed": processor.passed, "stands for": PROCESSORS[processor.name].title}
        for output in processor.outputs:
            start = f"{output.name}: " if len(processor.outputs) > 1 else ""
            unit = " (steps)" if output.in_steps else ""
            for kernels, difference in output.kernels().items():
                found[f"{start}{kernels} kernels equal to the bit"] = difference.equal
                found[f"{start}{kernels} kernels differ by{unit}"] = difference.largest
                found[f"{start}{kernels} kernels may differ by{unit}"] = difference.allowed
            if output.agreement is not None:
                found[f"{start}same largest entry"] = formatting.percent(output.agreement)
        found["compared with"] = self.machine
        found["samples"] = f"{self.samples}, {_said(self.source)}"
        if processor.instructions is not None:
            found["executed instructions per run"] = processor.total
            for name, count in processor.instructions.items():
                if count:
                    found[f"of these {CLASSES[name]}"] = count
            found["about the instructions"] = NOT_TIME
        return {**found, **self.versions}

    def print(self, console: Console | None = None) -> None:
        """Print the comparison, the counts, and what was noticed."""
        console = console or Console()
        console.print(self.table())
        if any(processor.instructions is not None for processor in self.processors):
            console.print(self.instruction_table())
            console.print(NOT_TIME, style="dim", markup=False, highlight=False)
        for remark in self.remarks:
            console.print(f"note: {remark}", style="yellow", markup=False)
        for fault in self.faults:
            console.print(f"differs: {fault}", style="red", markup=False)
        if self.passed:
            console.print(f"passed: each processor answers as {self.machine}", style="green")

    def table(self) -> Table:
        """Return a row per processor and output, against this machine."""
        title = (
            f"{escape(self.path.name)}: {self.samples} samples ({_said(self.source)}), against {self.machine}"
        )
        table = Table(title=title, title_justify="left")
        table.add_column("processor")
        table.add_column("output", overflow="fold")
        table.add_column("kernels")
        for column in ("differ by", "allowed", "same class"):
            table.add_column(column, justify="right", no_wrap=True)
        for processor in self.processors:
            for output in processor.outputs:
                unit = " steps" if output.in_steps else ""
                for kernels, difference in output.kernels().items():
                    is_first = kernels == "reference"
                    table.add_row(
                        processor.name if is_first else "",
                        escape(manifests.printable(output.name)) if is_first else "",
                        kernels,
                        "bits equal" if difference.equal else f"{difference.largest:.3g}{unit}",
                        f"{difference.allowed:.3g}{unit}" if difference.allowed else "nothing",
                        "" if is_first else formatting.percent(output.agreement),
                        style=None if difference.passed else "red",
                    )
        return table

    def instruction_table(self) -> Table:
        """Return the executed instructions of one run, and the share of each class on each processor."""
        table = Table(title="Executed instructions per run, with XNNPACK", title_justify="left")
        table.add_column("")
        counted = [processor for processor in self.processors if processor.instructions is not None]
        for processor in counted:
            table.add_column(processor.name, justify="right", no_wrap=True)
        table.add_row("millions", *(f"{(processor.total or 0) / 1e6:,.2f}" for processor in counted))
        for name, title in CLASSES.items():
            counts = [(processor.instructions or {}).get(name, 0) for processor in counted]
            if any(counts):
                shares = (
                    count / (processor.total or 1) for count, processor in zip(counts, counted, strict=True)
                )
                table.add_row(title, *(f"{share:.1%}" for share in shares))
        return table


def _said(source: str) -> str:
    return _SOURCES.get(source, source)


def _faults(processor: str, output: Arm64Output, machine: str) -> list[str]:
    """Return what is wrong with an output, a sentence each."""
    unit = " steps" if output.in_steps else ""
    return [
        f"{processor}, output {manifests.printable(output.name)!r}: the {kernels} kernels answer "
        f"{difference.largest:.3g}{unit} away from those on {machine}, where "
        f"{difference.allowed:.3g} is allowed"
        for kernels, difference in output.kernels().items()
        if not difference.passed
    ]
