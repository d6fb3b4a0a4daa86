"""The table layer x precision of the README: `python -m benchmarks.layer_precision`.

One small model per layer, seeded and untrained, on real smartwatch windows, half of them for calibration
and half for the comparison. A cell says: SQNR against Keras, XNNPACK partitions ("1" alone means the whole
graph in one, "1+" that operators are left outside), and latency against the float32 file.
"""

from __future__ import annotations

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
README = Path(__file__).resolve().parent.parent / "README.md"


@click.command(context_settings={"show_default": True})
@click.option("--readme", type=click.Path(exists=True, path_type=Path), default=README)
def main(readme: Path) -> None:
    """Convert each layer in each precision and put the table into the README."""
    console = Console()
    windows = watch_data.cut(watch_data.load()).inputs
    chosen = np.random.default_rng(0).permutation(len(windows))[: 2 * SAMPLES]
    calibration, evaluation = windows[chosen[:SAMPLES]], windows[chosen[SAMPLES:]]
    rows = []
    for name, body in layer_models.LAYERS.items():
        console.print(name)
        model = layer_models.build(body, windows)
        rows.append([name, *(_cell(model, kind, calibration, evaluation) for kind in PRECISIONS)])
    table = tables.markdown(["layer", *PRECISIONS], rows)
    note = (
        "SQNR against Keras / XNNPACK partitions (`+`: operators left outside) / latency against float32. "
        f"{tables.provenance()}"
    )
    tables.replace_between(readme, "layer-precision", f"{table}\n\n{note}")
    console.print(f"written: {readme}")


def _cell(model: keras.Model, precision: Precision, calibration: np.ndarray, evaluation: np.ndarray) -> str:
    report = tflite.convert(
        model,
        precision=precision,
        calibration=calibration if precision in CALIBRATED else None,
        evaluation=evaluation,
        verbose=0,
    ).report
    ratio = report.latency_ms["min"] / report.latency_ms["float32_min"]
    partitions = f"{report.delegate_partitions}{'' if report.fully_delegated else '+'}"
    return f"{report.sqnr_db:.0f} dB / {partitions} / {ratio:.2f} x"


if __name__ == "__main__":
    main()
