"""The trained activity models through the stock converter and through ours.

    python examples/activity_recognition.py --out runs/transformer
    python examples/activity_recognition.py --model bahdanau --out runs/bahdanau
    python -m benchmarks.stock_comparison runs/transformer/model.keras runs/bahdanau/model.keras

Calibration samples come from the training subjects, the comparison from the unseen ones. All files of a
model take turns in one process while they are timed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import numpy as np
from rich.console import Console

from benchmarks import stock
from benchmarks import tables
from common import watch_data
from keras_attention import tflite
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime

CALIBRATION_SAMPLES = 512
HEADER = (
    "file",
    "size",
    "partitions",
    "whole graph",
    "agreement",
    "SQNR",
    "accuracy",
    "latency min (median)",
    "against stock float32",
)


@click.command(context_settings={"show_default": True})
@click.argument(
    "models", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/stock_comparison.md")
@click.option("--seconds", type=float, default=3.0, help="How long each file is timed.")
def main(models: tuple[Path, ...], out: Path, seconds: float) -> None:
    """Compare stock and own files of the given .keras MODELS and write the table to --out."""
    console = Console()
    train, test = list(watch_data.subject_folds(watch_data.load()))[-1]
    calibration = watch_data.cut(train).inputs
    calibration = calibration[np.linspace(0, len(calibration) - 1, CALIBRATION_SAMPLES).astype(int)]
    windows = watch_data.cut(test)
    sections = []
    for path in models:
        console.print(f"[bold]{path}[/bold]")
        rows = compare(console, path, calibration, windows, seconds)
        sections.append(f"## {path.parent.name}\n\n{tables.markdown(HEADER, rows)}")
    intro = (
        "# The stock converter and ours, on the same trained models\n\n"
        f"Made by `python -m benchmarks.stock_comparison {' '.join(map(str, models))}`.\n"
        f"{tables.provenance()}\n"
        f"Smartwatch exercises, {len(windows)} windows of subjects never seen in training or calibration."
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join([intro, *sections]) + "\n")
    console.print(f"written: {out}")


def compare(
    console: Console, path: Path, calibration: np.ndarray, windows: watch_data.Windows, seconds: float
) -> list[list[str]]:
    """Return one row per file of one model."""
    model = tflite.load_model(path)
    reference = model.predict(windows.inputs, verbose=0)
    files: dict[str, bytes | str] = {}
    for kind in stock.KINDS:
        console.print(f"  stock {kind} ...")
        files[f"stock {kind}"] = stock.convert_in_child(kind, path, calibration)
    for precision in ("float32", "float16", "dynamic", "int8"):
        console.print(f"  ours {precision} ...")
        samples = calibration if precision == "int8" else None
        result = tflite.convert(
            model, precision=precision, calibration=samples, evaluation=windows.inputs, verbose=0
        )
        files[f"ours {precision}"] = result.content
    console.print("  timing, turn by turn ...")
    return _rows(files, reference, windows, model.inputs[0].name, seconds)


def _rows(
    files: dict[str, bytes | str],
    reference: np.ndarray,
    windows: watch_data.Windows,
    input_name: str,
    seconds: float,
) -> list[list[str]]:
    made = {name: content for name, content in files.items() if isinstance(content, bytes)}
    timed = runtime.measure_latency(list(made.values()), {input_name: windows.inputs[0]}, seconds=seconds)
    latency = dict(zip(made, timed, strict=True))
    base = latency["stock float32"]["min"]
    rows = []
    for name, content in files.items():
        if isinstance(content, str):
            rows.append([name, content, *[""] * (len(HEADER) - 2)])
            continue
        (result,) = runtime.run_samples(content, {input_name: windows.inputs})
        partitions, _ = runtime.partitions_and_operators(content)
        times = latency[name]
        rows.append(
            [
                name,
                f"{len(content) / 1000:.0f} kB",
                str(partitions),
                "yes" if runtime.is_fully_delegated(content) else "no",
                f"{metrics.agreement(reference, result, 'classification'):.2%}",
                f"{metrics.sqnr_db(reference, result):.1f} dB",
                f"{metrics.accuracy(windows.labels, result):.4f}",
                f"{times['min']:.3f} ({times['median']:.3f}) ms",
                f"{times['min'] / base:.2f} x",
            ]
        )
    return rows


if __name__ == "__main__":
    main()
