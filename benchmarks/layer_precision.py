"""The tables layer x precision of the docs: `python -m benchmarks.layer_precision`.

One small model per layer, seeded and untrained, on real smartwatch windows, half of them for calibration
and half for the comparison. A cell says: SQNR against Keras, XNNPACK partitions ("1" alone means the whole
graph in one, "1+" that operators are left outside), and latency against the float32 file; "refused" means
that the converter wrote no file, and the page says why. The README shows a few rows of the same run.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import get_args

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import keras
import numpy as np
from rich.console import Console

from benchmarks import layer_models
from benchmarks import tables
from common import watch_data
from keras_attention import tflite
from keras_attention.tflite.arguments import CALIBRATED
from keras_attention.tflite.arguments import Precision

PRECISIONS = tuple(name for name in get_args(Precision) if name != "auto")
SAMPLES = 512
ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks" / "layer_precision.md"
IN_README = ("BahdanauAttention", "MultiHeadAttention", "AttentionPooling", "TransformerEncoderBlock", "LSTM")
LEGEND = "SQNR against Keras / XNNPACK partitions (`+`: operators left outside) / latency against float32."


@dataclasses.dataclass(frozen=True)
class Cell:
    """One layer in one precision; `refusal` says why there is no file."""

    report: tflite.Report | None
    refusal: str = ""

    def __str__(self) -> str:
        if self.report is None:
            return "refused"
        ratio = self.report.latency_ms["min"] / self.report.latency_ms["float32_min"]
        return f"{self.report.sqnr_db:.0f} dB / {_partitions(self.report)} / {ratio:.2f} x"


@click.command(context_settings={"show_default": True})
@click.option("--readme", type=click.Path(exists=True, path_type=Path), default=README)
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE)
@click.option("--only", default="", help="Layers whose title holds this, printed instead of written.")
def main(readme: Path, page: Path, only: str) -> None:
    """Convert each layer in each precision, write the page, and put some rows into the README."""
    console = Console()
    windows = watch_data.cut(watch_data.load()).inputs
    chosen = np.random.default_rng(0).permutation(len(windows))[: 2 * SAMPLES]
    calibration, evaluation = windows[chosen[:SAMPLES]], windows[chosen[SAMPLES:]]
    results: dict[str, dict[str, Cell]] = {}
    for name, body in layer_models.LAYERS.items():
        if only in name:
            model = layer_models.build(body, windows)
            results[name] = {kind: convert(model, kind, calibration, evaluation) for kind in PRECISIONS}
            console.print(name, *map(str, results[name].values()), sep="  ")
    if only:
        return
    few = {name: cells for name, cells in results.items() if name.strip("`").split(".")[-1] in IN_README}
    note = f"{LEGEND} {tables.provenance()}"
    tables.replace_between(readme, "layer-precision", f"{precision_table(few)}\n\n{note}")
    page.write_text(render(results))
    console.print(f"written: {readme}, {page}")


def convert(
    model: keras.Model, precision: Precision, calibration: np.ndarray, evaluation: np.ndarray
) -> Cell:
    """Convert a model; a file that the converter refuses to write is a result too."""
    try:
        result = tflite.convert(
            model,
            precision=precision,
            calibration=calibration if precision in CALIBRATED else None,
            evaluation=evaluation,
            verbose=0,
        )
    except (tflite.ConversionError, tflite.FidelityError) as error:
        return Cell(None, str(error).splitlines()[0])
    return Cell(result.report)


def precision_table(results: dict[str, dict[str, Cell]]) -> str:
    """Return the table of SQNR, partitions and latency."""
    return tables.markdown(
        ["layer", *PRECISIONS], [[name, *map(str, cells.values())] for name, cells in results.items()]
    )


def render(results: dict[str, dict[str, Cell]]) -> str:
    """Return the whole page."""
    operators = [
        [name, kind, f"{sum(cell.report.operators.values())}", _counts(cell.report), _partitions(cell.report)]
        for name, cells in results.items()
        for kind, cell in cells.items()
        if cell.report is not None and kind in ("float32", "int8")
    ]
    refusals = [
        f"- {name}, {kind}: {cell.refusal}"
        for name, cells in results.items()
        for kind, cell in cells.items()
        if cell.report is None
    ]
    parts = [
        "# What each layer becomes",
        "Made by `python -m benchmarks.layer_precision`: one small model per layer "
        "(benchmarks/layer_models.py), seeded and untrained, on real smartwatch windows.",
        precision_table(results),
        f"{LEGEND} {tables.provenance()}",
        *(["Refused:", "\n".join(refusals)] if refusals else []),
        "## Operators",
        "All operators of the file and how often each occurs, from the model's input to its classes.",
        tables.markdown(["layer", "precision", "operators", "which", "partitions"], operators),
    ]
    return "\n\n".join(parts) + "\n"


def _partitions(report: tflite.Report) -> str:
    return f"{report.delegate_partitions}{'' if report.fully_delegated else '+'}"


def _counts(report: tflite.Report) -> str:
    counts = sorted(report.operators.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in counts)


if __name__ == "__main__":
    main()
