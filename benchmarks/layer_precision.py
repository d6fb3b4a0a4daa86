"""The table layer x precision of the README: `python -m benchmarks.layer_precision`.

One small model per layer, seeded and untrained, on real smartwatch windows, half of them for calibration
and half for the comparison. A cell says: SQNR against Keras, XNNPACK partitions ("1" alone means the whole
graph in one, "1+" that operators are left outside), and latency against the float32 file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from typing import get_args

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import keras
import numpy as np
from rich.console import Console

import keras_attention
from benchmarks import tables
from common import watch_data
from keras_attention import tflite
from keras_attention.tflite.arguments import CALIBRATED
from keras_attention.tflite.arguments import Precision

PRECISIONS = tuple(name for name in get_args(Precision) if name != "auto")
SAMPLES = 512
WIDTH = 48
README = Path(__file__).resolve().parent.parent / "README.md"


def _attend(make: Callable[[], Any], is_pooling: bool = False) -> Callable[[Any], Any]:
    """Attention over a projected sequence, with the residual sum and the norm that go with it."""

    def body(sequence: Any) -> Any:
        if is_pooling:
            return make()(sequence[:, -1], sequence)
        return keras.layers.LayerNormalization()(sequence + make()(sequence, sequence))

    return body


LAYERS: dict[str, Callable[[Any], Any]] = {
    "`BahdanauAttention`": _attend(lambda: keras_attention.BahdanauAttention(WIDTH), is_pooling=True),
    "`ScaledDotProductAttention`": _attend(lambda: keras_attention.ScaledDotProductAttention()),
    "`MultiHeadAttention`": _attend(lambda: keras_attention.MultiHeadAttention(4, WIDTH // 4)),
    "`keras.layers.MultiHeadAttention`": _attend(lambda: keras.layers.MultiHeadAttention(4, WIDTH // 4)),
    "`keras.layers.LSTM`": lambda x: keras.layers.LSTM(WIDTH, return_sequences=True)(x),
    "`keras.layers.GRU`": lambda x: keras.layers.GRU(WIDTH, return_sequences=True)(x),
    "`keras.layers.Bidirectional(LSTM)`": lambda x: keras.layers.Bidirectional(
        keras.layers.LSTM(WIDTH, return_sequences=True)
    )(x),
    "`Conv1D` + `BatchNormalization`": lambda x: keras.layers.ReLU()(
        keras.layers.BatchNormalization()(keras.layers.Conv1D(WIDTH, 5, padding="same")(x))
    ),
}


@click.command(context_settings={"show_default": True})
@click.option("--readme", type=click.Path(exists=True, path_type=Path), default=README)
def main(readme: Path) -> None:
    """Convert each layer in each precision and put the table into the README."""
    console = Console()
    windows = watch_data.cut(watch_data.load()).inputs
    chosen = np.random.default_rng(0).permutation(len(windows))[: 2 * SAMPLES]
    calibration, evaluation = windows[chosen[:SAMPLES]], windows[chosen[SAMPLES:]]
    rows = []
    for name, body in LAYERS.items():
        console.print(name)
        model = build(body, windows)
        rows.append([name, *(_cell(model, kind, calibration, evaluation) for kind in PRECISIONS)])
    table = tables.markdown(["layer", *PRECISIONS], rows)
    note = (
        "SQNR against Keras / XNNPACK partitions (`+`: operators left outside) / latency against float32. "
        f"{tables.provenance()}"
    )
    tables.replace_between(readme, "layer-precision", f"{table}\n\n{note}")
    console.print(f"written: {readme}")


def build(body: Callable[[Any], Any], windows: np.ndarray) -> keras.Model:
    """Return a classifier of smartwatch windows around one layer, seeded and untrained."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(windows.shape[1:], name="window")
    mean, variance = windows.mean((0, 1)), windows.var((0, 1))
    x = keras.layers.Normalization(mean=mean, variance=variance)(inputs)
    x = keras.layers.Conv1D(WIDTH, 5, strides=2, padding="same", activation="relu")(x)
    x = body(x)
    if len(x.shape) == 3:
        x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(7, activation="softmax")(x))


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
