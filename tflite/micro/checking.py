"""`check_micro`: does tflite-micro answer as LiteRT's reference kernels do, and what does it need?"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_attention.tflite import child
from keras_attention.tflite import files
from keras_attention.tflite import foreign
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.micro import header


@dataclass(frozen=True)
class MicroOutput:
    """One output of tflite-micro beside LiteRT's, over all samples.

    Attributes:
        name: of the output.
        values: how many were compared.
        differing: how many are not the same bits.
        largest: largest difference, in steps where the output is quantized.
        real: the same in the output's unit.
        agreement: share of samples with the same answer, as `Report.agreement` counts them.
        differing_rounded_alike: how many differ from LiteRT where FULLY_CONNECTED is written as a
            convolution, so that both runtimes round alike.
    """

    name: str
    values: int
    differing: int
    largest: float
    real: float
    agreement: float
    differing_rounded_alike: int


@dataclass(frozen=True)
class MicroCheck:
    """What running a file on tflite-micro gave.

    Attributes:
        path: the .tflite file.
        runtime: version of tflite-micro.
        source: "golden pairs", "inputs" or "random": where the samples come from.
        samples: how many were run.
        outputs: the comparison of each output.
        kernels: what was compared with, LiteRT's reference kernels if they have all operators.
        arena_bytes: smallest arena in which the file runs, on this 64-bit machine; 32-bit ones need less.
        activation_bytes: of it, what holds inputs, activations and outputs in turns.
        persistent_bytes: of it, what describes tensors and operators, with half-sized pointers on 32 bits.
        flash_bytes: size of the file.
        manifest_bytes: of it, the manifest, which a microcontroller never reads.
        operators: operator name -> count.
        methods: what registers them in a `MicroMutableOpResolver`, such as "AddConv2D".
        faults: what is wrong, one sentence each; empty where all is well.
        remarks: what else the user should know.
        header: C++ source with the resolver, the arena's size, scales and labels.
    """

    path: Path
    runtime: str
    source: str
    samples: int
    outputs: tuple[MicroOutput, ...]
    kernels: str
    arena_bytes: int
    activation_bytes: int
    persistent_bytes: int
    flash_bytes: int
    manifest_bytes: int
    operators: dict[str, int]
    methods: tuple[str, ...]
    faults: tuple[str, ...]
    remarks: tuple[str, ...]
    header: str

    @property
    def passed(self) -> bool:
        """Whether the file answers as LiteRT does, and as when it was converted."""
        return not self.faults

    @property
    def basis(self) -> str:
        """What the answer rests on, such as "8 golden pairs alone; ..." or "360 samples of yours"."""
        if self.source == "inputs":
            return f"{self.samples} sample{'' if self.samples == 1 else 's'} of yours"
        what = "golden pairs" if self.source == "golden pairs" else "random samples"
        return f"{self.samples} {what} alone; differences in a few of a thousand values need more: `inputs`"

    def write_header(self, path: str | Path) -> Path:
        """Write the C++ header, whole or not at all, and return its path."""
        path = Path(path)
        files.check_writable(path)
        files.write_whole(path, self.header.encode())
        return path

    def rows(self) -> dict[str, str | int | float | bool | None]:
        """Return what was found, what -> value, as `Report.with_device` takes it."""
        differing = sum(output.differing for output in self.outputs)
        alike = sum(output.differing_rounded_alike for output in self.outputs)
        rounded = {"differing where FULLY_CONNECTED rounds alike": alike} if differing else {}
        return {
            "passed": self.passed,
            "compared with": self.kernels,
            "samples": f"{self.samples} ({self.source})",
            "values": sum(output.values for output in self.outputs),
            "differing": differing,
            **rounded,
            "largest difference": max(output.largest for output in self.outputs),
            "agreement": min(output.agreement for output in self.outputs),
            "arena, bytes": self.arena_bytes,
            "activations, bytes": self.activation_bytes,
            "flash, bytes": self.flash_bytes,
            "manifest in it, bytes": self.manifest_bytes,
            "operators": sum(self.operators.values()),
        }

    def print(self, console: Console | None = None) -> None:
        """Print the comparison, what the file needs, and the calls that register its operators."""
        console = console or Console()
        title = f"{escape(str(self.path))} on tflite-micro {escape(self.runtime)}"
        table = Table(title=title, title_justify="left", show_header=False)
        for what, value in self.rows().items():
            table.add_row(what, escape(str(value) if isinstance(value, bool | str) else f"{value:,}"))
        table.add_row("register", ", ".join(f"{method}()" for method in self.methods))
        console.print(table)
        for remark in self.remarks:
            console.print(f"note: {manifests.printable(remark)}", style="yellow", markup=False)
        for fault in self.faults:
            console.print(f"differs: {manifests.printable(fault)}", style="red", markup=False)
        if self.passed:
            console.print(f"passed: tflite-micro answers as LiteRT does, on {self.basis}", style="green")


def check_micro(
    path: str | Path,
    *,
    inputs: np.ndarray | Mapping[str, np.ndarray] | None = None,
    manifest: str | Path | None = None,
    arena_bytes: int | None = None,
) -> MicroCheck:
    """Run a .tflite file on tflite-micro, the runtime of microcontrollers, and beside it on LiteRT.

    Everything is read and run in a child process, so that a file that ends the runtime harms nothing.

    Args:
        path: the .tflite file.
        inputs: arrays by input name whose first axis counts samples. Defaults to the file's golden pairs, as
            `verify` finds them, and where it has none to seeded random values. Eight golden pairs say little
            of differences in a few of a thousand values; give hundreds of real samples for that.
        manifest: a .manifest.json file to take the golden pairs from instead.
        arena_bytes: memory that the microcontroller has for the arena; that it is too small is a fault.

    Returns:
        The `MicroCheck`; `passed` says whether the runtimes agree bit by bit, the rounding of FULLY_CONNECTED
        aside, and with the golden answers as `verify` does.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: tflite-micro is not installed, lacks an operator or refuses the file; the message
            says what to do.
        ValueError, TypeError: an argument is wrong.

    Example:
    ```python
    from keras_attention import tflite

    found = tflite.check_micro("model.tflite", arena_bytes=64_000)
    print(found.passed, found.arena_bytes, found.methods)
    ```
    """
    path = Path(path)
    sought = manifests.look_for(path, manifest)
    if manifest is not None and inputs is not None:
        raise ValueError("`inputs` and `manifest` both say what to run the file on. Pass one of them.")
    if arena_bytes is not None and (
        isinstance(arena_bytes, bool) or not isinstance(arena_bytes, int) or arena_bytes < 1
    ):
        raise ValueError(f"`arena_bytes` must be an integer above 0. Received: {arena_bytes!r}")
    _require_runtime()
    job = {"task": "micro", **sought}
    return _check(path, _run(path, job, inputs), arena_bytes)


def _require_runtime() -> None:
    if importlib.util.find_spec("tflite_micro") is None:
        raise ConversionError(
            "The runtime tflite-micro is not installed: pip install "
            '"keras-attention-tflite[micro]". Its wheels are for Linux on x86-64 and Python 3.10 to 3.13; '
            "elsewhere run this in a container of that kind."
        )


def _run(path: Path, job: dict[str, Any], inputs: Any) -> dict[str, Any]:
    """Do the job in a child process, with the user's arrays beside it."""
    given = inputs if inputs is None or isinstance(inputs, Mapping) else {None: inputs}
    with leftovers.work_folder() as folder:
        if given is not None:
            np.savez(folder / "inputs.npz", *(np.asarray(values) for values in given.values()))
        job = {**job, "file": str(path.resolve()), "names": None if given is None else list(given)}
        try:
            return child.run_job(folder, job, lambda *_: None, limits=foreign.limits())
        except ConversionError as error:
            raise ConversionError(f"{str(path)!r} can't be run on tflite-micro. {error}") from error


def _check(path: Path, found: dict[str, Any], arena_bytes: int | None) -> MicroCheck:
    faults = found["faults"]
    if arena_bytes is not None and found["arena_bytes"] > arena_bytes:
        faults.append(
            f"the arena of {arena_bytes:,} bytes is too small, the file needs {found['arena_bytes']:,}"
        )
    numbers = ("arena_bytes", "activation_bytes", "persistent_bytes", "manifest_bytes")
    return MicroCheck(
        path=path,
        runtime=found["runtime"],
        source=found["source"],
        samples=found["samples"],
        outputs=tuple(MicroOutput(**output) for output in found["outputs"]),
        kernels=found["kernels"],
        flash_bytes=path.stat().st_size,
        operators=found["operators"],
        methods=tuple(found["methods"]),
        faults=tuple(faults),
        remarks=tuple(found["remarks"]),
        header=header.render(path, found),
        **{name: found[name] for name in numbers},
    )
