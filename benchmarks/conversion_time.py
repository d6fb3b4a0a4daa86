"""How long `convert` takes, beside the stock converter.

    python examples/activity_recognition.py --out runs/transformer
    python -m benchmarks.conversion_time runs/transformer/model.keras

Both convert the same .keras file in one process that has TensorFlow loaded, in turns. That favours the
stock converter: `convert` starts a child process, which loads TensorFlow anew.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import numpy as np
from rich.console import Console

from benchmarks import stock
from benchmarks import tables
from common import watch_data
from keras_attention import tflite

COMPARED = 16
HEADER = ("precision", "stock min", "stock median", "convert min", "convert median", "ratio of minima")


@click.command(context_settings={"show_default": True})
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--calibration", type=click.IntRange(1), default=128, help="Samples that calibrate both.")
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/conversion_time.md")
def main(model: Path, rounds: int, calibration: int, out: Path) -> None:
    """Convert the activity MODEL with both, --rounds times in turns, and write the table to --out."""
    train, _ = list(watch_data.subject_folds(watch_data.load()))[-1]
    values = watch_data.cut(train).inputs
    values = values[np.linspace(0, len(values) - 1, calibration).astype(int)]
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.npy"
        np.save(samples, values)
        _measure(model, values, samples, rounds, out)


def _measure(model: Path, values: np.ndarray, samples: Path, rounds: int, out: Path) -> None:
    own = {"calibration": values, "evaluation": values[:COMPARED], "verbose": 0}
    rows = []
    for precision in ("float32", "dynamic", "int8", "int8_full", "int16x8"):
        kind = precision if precision in stock.KINDS else "int8"
        given = own if precision not in ("float32", "dynamic") else {**own, "calibration": None}

        def ours(precision: Any = precision, given: Any = given) -> object:
            return tflite.convert(model, precision=precision, **given)

        def theirs(kind: str = kind) -> object:
            return stock.convert(kind, model, samples)

        theirs()  # the first call in a process pays for what is loaded lazily
        times = [(_seconds(theirs), _seconds(ours)) for _ in range(rounds)]
        stocks, owns = zip(*times, strict=True)
        rows.append(
            [
                precision,
                *(f"{one:.1f} s" for one in (min(stocks), statistics.median(stocks))),
                *(f"{one:.1f} s" for one in (min(owns), statistics.median(owns))),
                f"{min(owns) / min(stocks):.2f}",
            ]
        )
        Console().print(" | ".join(rows[-1]))
        _write(out, rows, model, rounds, len(values))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _write(out: Path, rows: list[list[str]], model: Path, rounds: int, calibration: int) -> None:
    page = (
        "# How long a conversion takes\n\n"
        f"Made by `python -m benchmarks.conversion_time {model}`: {rounds} rounds in turns, "
        f"{calibration} samples calibrate, {COMPARED} are compared with Keras (part of `convert`'s time).\n"
        f"{tables.provenance()}\n\n"
        "The stock converter runs in a warm process; `convert` starts a child that loads TensorFlow anew. "
        "The stock converter has no `int8_full` or `int16x8` for these models; its `int8` stands beside "
        "them.\n\n"
        f"{tables.markdown(HEADER, rows)}\n"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page)


if __name__ == "__main__":
    main()
