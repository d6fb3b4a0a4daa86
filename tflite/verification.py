"""`verify`: does a .tflite file still answer its golden pairs as on the day it was converted?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_attention.tflite import foreign
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import metrics


@dataclass(frozen=True)
class Replayed:
    """One output over all golden pairs.

    Attributes:
        name: of the output.
        difference: largest difference from the answers that the manifest holds of the file, in steps
            where the output is quantized.
        allowed: how much of it the rounding of another machine explains.
        agreement: share of answers that are Keras', as `Report.agreement` counts them.
        sqnr_db: signal-to-quantization-noise ratio against Keras' answers, in dB.
    """

    name: str
    difference: float
    allowed: float
    agreement: float
    sqnr_db: float


@dataclass(frozen=True)
class Verification:
    """What replaying a file's golden pairs gave.

    Attributes:
        path: the .tflite file.
        origin: "the file", or the path of the manifest that the pairs were read from.
        source: "evaluation", "calibration" or "random": whose samples they are.
        pairs: how many were replayed.
        outputs: the comparison of each output.
        faults: what differs, one sentence each; empty where all is well.
        remarks: what else the user should know.
    """

    path: Path
    origin: str
    source: str
    pairs: int
    outputs: tuple[Replayed, ...]
    faults: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the file answers as it did when it was converted."""
        return not self.faults

    def print(self, console: Console | None = None) -> None:
        """Print the comparison as a table, and what was noticed."""
        console = console or Console()
        title = f"{escape(str(self.path))}: {self.pairs} golden pairs ({self.source} samples)"
        table = Table(title=title, title_justify="left")
        columns = ("output", "largest difference", "allowed", "agreement with Keras", "SQNR against Keras")
        for column in columns:
            table.add_column(column)
        for output in self.outputs:
            ratio = "equal" if output.sqnr_db >= metrics.EXACT_DB else f"{output.sqnr_db:.1f} dB"
            table.add_row(
                escape(manifests.printable(output.name)),
                f"{output.difference:.3g}",
                f"{output.allowed:.3g}",
                f"{output.agreement:.2%}",
                ratio,
            )
        console.print(table)
        console.print(f"pairs from {self.origin}", markup=False)
        for remark in self.remarks:
            console.print(f"note: {remark}", style="yellow", markup=False)
        for fault in self.faults:
            console.print(f"differs: {manifests.printable(fault)}", style="red", markup=False)
        if self.passed:
            console.print("passed: the file answers as when it was converted", style="green")


def verify(path: str | Path, *, manifest: str | Path | None = None, num_threads: int = 1) -> Verification:
    """Replay the golden pairs of a converted file on the runtime of this machine.

    The pairs come from `manifest`; else from model.manifest.json beside model.tflite if it was written
    for this very file; else from the file itself. Everything is read and run in a child process, so
    that a damaged file or manifest harms nothing.

    Args:
        path: the .tflite file.
        manifest: a .manifest.json file to take instead. If it was written for another file, that is a
            fault, and the pairs are replayed nevertheless.
        num_threads: threads of the interpreter.

    Returns:
        The `Verification`; `passed` says whether all answers are the stored ones, up to the rounding in
        which processors differ.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: file or manifest are damaged, or there are no golden pairs; the message says
            what to do.

    Example:
    ```python
    from keras_attention import tflite

    print(tflite.verify("model.tflite").passed)
    ```
    """
    path = Path(path)
    sought = manifests.look_for(path, manifest)
    if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1:
        raise ValueError(f"`num_threads` must be an integer above 0. Received: {num_threads!r}")
    job = {"task": "verify", **sought, "threads": num_threads}
    result = foreign.run_job(path, job, "can't be verified")
    return Verification(
        path=path,
        origin=result["origin"],
        source=result["source"],
        pairs=result["pairs"],
        outputs=tuple(Replayed(**output) for output in result["outputs"]),
        faults=tuple(result["faults"]),
        remarks=tuple(result["remarks"]),
    )
