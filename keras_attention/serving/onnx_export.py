"""The result of `export_onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.serving.comparison import OutputError
from keras_attention.tflite.manifest import printable
from keras_attention.tflite.model_signature import TensorSpec


@dataclass(frozen=True)
class OnnxExport:
    """An ONNX file that was compared with Keras.

    Attributes:
        content: bytes of the file.
        path: where it was written, or None.
        name: of the model.
        opset: version of ONNX' operator set.
        batch_size: samples that the file takes at a time; None for any number.
        inputs: names, shapes without the batch axis and types, in Keras' order.
        outputs: the same.
        errors: output name -> how far it is from Keras'.
        operators: how often each operator occurs.
        latency_ms: shortest time of one sample (or one batch of `batch_size`) in onnxruntime on this CPU.
        source: "samples" or "random": what both were compared on.
        entries: what the manifest says, "labels" and "features" by tensor name.
        remarks: what the user should know.
        samples: input name -> the samples of the comparison.
        answers: Keras' answers to them, one array per output.
        max_error: the bound of the comparison.
    """

    content: bytes
    path: Path | None
    name: str
    opset: int
    batch_size: int | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    errors: Mapping[str, OutputError]
    operators: Mapping[str, int]
    latency_ms: float
    source: str
    entries: Mapping[str, Any]
    remarks: tuple[str, ...]
    samples: Mapping[str, np.ndarray]
    answers: tuple[np.ndarray, ...]
    max_error: float

    def print(self) -> None:
        """Show the result as a table."""
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=f"ONNX: {escape(printable(self.name))}", title_justify="left", show_header=False)
        batch = "any number" if self.batch_size is None else str(self.batch_size)
        rows = [
            ("file", "not written" if self.path is None else str(self.path)),
            ("size", f"{len(self.content):,} bytes"),
            ("opset", str(self.opset)),
            ("samples at a time", batch),
            *(("input", str(spec)) for spec in self.inputs),
            *(("output", str(spec)) for spec in self.outputs),
            ("operators", ", ".join(f"{count} {name}" for name, count in self.operators.items())),
            ("compared on", f"{len(next(iter(self.samples.values())))} {self.source_words()}"),
        ]
        for name, error in self.errors.items():
            numbers = f"max error {error.max_error:.2g} (allowed {error.allowed:.2g})"
            rows.append((f"{name} against Keras", f"{numbers}, SQNR {error.sqnr_db:.0f} dB"))
        rows.append(("latency", f"{self.latency_ms:.3f} ms in onnxruntime on this CPU"))
        for key, value in rows:
            table.add_row(escape(printable(key)), escape(printable(value)))
        console = Console()
        console.print(table)
        for remark in self.remarks:
            console.print(escape(printable(f"- {remark}")))

    def source_words(self) -> str:
        """Return what the samples were, in words."""
        return "samples of yours" if self.source == "samples" else "random samples"
