"""`inspect`: what a .tflite file holds, and how the runtime of this machine takes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_attention.tflite import foreign
from keras_attention.tflite import manifest as manifests


@dataclass(frozen=True)
class Inspection:
    """The contents of a .tflite file.

    Attributes:
        path: the file.
        size_bytes: its size.
        inputs: "name: type[shape]", with scale and zero point where quantized, in the file's order.
        outputs: the same for the outputs.
        signatures: names of the signatures.
        operators: operator name -> count.
        tensor_dtypes: type -> count of tensors.
        delegate_partitions: pieces of the graph that XNNPACK runs; 1 is best.
        fully_delegated: whether no operator is left outside XNNPACK.
        manifest: what the file says of itself, as docs/manifest.md describes it, or None.
        partition_map: {"index", "operator", "dtype", "partition"} per operator of the main graph, in order;
            the partition of an operator outside XNNPACK is None.
        minimum_runtime: the oldest TensorFlow Lite (LiteRT) runtime that knows all operators.
    """

    path: Path
    size_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signatures: tuple[str, ...]
    operators: dict[str, int]
    tensor_dtypes: dict[str, int]
    delegate_partitions: int
    fully_delegated: bool
    manifest: dict[str, Any] | None
    partition_map: tuple[dict[str, Any], ...]
    minimum_runtime: str

    def print(self, console: Console | None = None) -> None:
        """Print the inspection as tables."""
        console = console or Console()
        table = Table(title=escape(str(self.path)), title_justify="left", show_header=False)
        table.add_row("size", f"{self.size_bytes / 1000:,.1f} kB")
        table.add_row("signatures", escape(", ".join(self.signatures)) or "none")
        table.add_row("inputs", escape("\n".join(self.inputs)))
        table.add_row("outputs", escape("\n".join(self.outputs)))
        table.add_row("tensors", ", ".join(f"{count} {kind}" for kind, count in self.tensor_dtypes.items()))
        table.add_row(
            "operators", escape(", ".join(f"{count} {name}" for name, count in self.operators.items()))
        )
        whole = "the whole graph" if self.fully_delegated else f"left outside: {escape(self._outside())}"
        table.add_row("XNNPACK partitions", f"{self.delegate_partitions}, {whole}")
        table.add_row("oldest runtime", escape(self.minimum_runtime))
        if self.manifest is None:
            table.add_row("manifest", "none")
        else:
            for key, text in manifests.rows(self.manifest):
                table.add_row(f"manifest: {key}", escape(text))
        console.print(table)

    def _outside(self) -> str:
        """Name the operators that XNNPACK left to the interpreter."""
        names = {row["operator"]: None for row in self.partition_map if row["partition"] is None}
        return ", ".join(names) or "some operators"


def inspect(path: str | Path) -> Inspection:
    """Read a .tflite file and load it once, in a child process, so that a damaged file harms nothing.

    Args:
        path: the .tflite file, of any origin.

    Returns:
        The `Inspection`.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: it is no .tflite file, the runtime can't load it, or its manifest is damaged; the
            message says why.

    Example:
    ```python
    from keras_attention import tflite

    print(tflite.inspect("model.tflite").operators)
    ```
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a .tflite file. No such file: {str(path)!r}")
    result = foreign.run_job(path, {"task": "inspect"}, "can't be inspected")
    for field in ("inputs", "outputs", "signatures", "partition_map"):
        result[field] = tuple(result[field])
    return Inspection(path=path, size_bytes=path.stat().st_size, **result)
