"""Recurrent layers over length and precision: `python -m benchmarks.recurrent`.

One model per layer and length, trained briefly on smartwatch windows, converted in every precision and
compared with Keras on windows of unseen subjects. The latency ratio is against the stock float32 file, which
keeps the loop, the two taking turns in one process. All lengths and precisions take an hour or more.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import tempfile
import time
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
from keras import layers
from rich.console import Console

from benchmarks import stock
from benchmarks import tables
from benchmarks.bug_reports import in_process as jobs_here
from common import watch_data
from keras_attention import tflite
from keras_attention.tflite import runtime
from keras_attention.tflite.arguments import Precision

UNITS = 48
TRAINING, CALIBRATION, EVALUATION = 2048, 128, 200
PRECISIONS = tuple(name for name in get_args(Precision) if name != "auto")
LENGTHS = ("8", "64", "200", "512")
LAYERS: dict[str, Callable[..., Any]] = {
    "LSTM": lambda **options: layers.LSTM(UNITS, **options),
    "GRU": lambda **options: layers.GRU(UNITS, **options),
    "SimpleRNN": lambda **options: layers.SimpleRNN(UNITS, **options),
    "Bidirectional(LSTM)": lambda **options: layers.Bidirectional(layers.LSTM(UNITS, **options)),
    "masked LSTM": lambda **options: layers.LSTM(UNITS, **options),
    "masked GRU": lambda **options: layers.GRU(UNITS, **options),
    "stateful LSTM": lambda **options: layers.LSTM(UNITS, **options),
}
HEADER = (
    "layer",
    "steps",
    "precision",
    "agreement",
    "SQNR",
    "size",
    "predicted",
    "partitions",
    "against stock float32 loop",
    "conversion",
)


@dataclasses.dataclass(frozen=True)
class Data:
    """Windows of one length; those of training and calibration are from other subjects than evaluation."""

    training: np.ndarray
    labels: np.ndarray
    evaluation: np.ndarray
    targets: np.ndarray


@click.command(context_settings={"show_default": True})
@click.option("--layer", "names", multiple=True, type=click.Choice(list(LAYERS)), default=list(LAYERS))
@click.option("--length", "lengths", multiple=True, type=click.Choice(LENGTHS), default=LENGTHS)
@click.option("--precision", "precisions", multiple=True, type=click.Choice(PRECISIONS), default=PRECISIONS)
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/recurrent.md")
@click.option(
    "--in-process", is_flag=True, help="Do the children's jobs here, and convert to float once per model."
)
def main(
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    precisions: tuple[str, ...],
    out: Path,
    in_process: bool,
) -> None:
    """Convert every layer, length and precision, and write the table to --out after each model."""
    console = Console()
    if in_process:
        os.environ[jobs_here.VARIABLE] = "1"
    rows: list[list[str]] = []
    for length in map(int, lengths):
        for name in names:
            console.print(f"{name}, {length} steps")
            jobs_here.install(f"{name} {length}")
            data = windows(length, is_padded=name.startswith("masked"))
            model = train(name, data)
            rows += measure(console, name, model, data, precisions)
            write(out, rows)
    console.print(f"written: {out}")


def windows(length: int, *, is_padded: bool) -> Data:
    """Return normalized windows, where asked for with zeros behind a random part of each."""
    train_part, test_part = next(iter(watch_data.subject_folds(watch_data.load())))
    generator = np.random.default_rng(length)
    parts = []
    for recordings, count in ((train_part, TRAINING), (test_part, EVALUATION)):
        cut = watch_data.cut(recordings, window=length, step=64)
        chosen = generator.permutation(len(cut))[:count]
        parts.append((cut.inputs[chosen], cut.labels[chosen]))
    (training, labels), (evaluation, targets) = parts
    mean, deviation = training.mean((0, 1)), training.std((0, 1))
    training, evaluation = (training - mean) / deviation, (evaluation - mean) / deviation
    if is_padded:
        for samples in (training, evaluation):
            lasts = generator.integers(length // 2, length + 1, (len(samples), 1))
            samples[np.arange(length) >= lasts] = 0.0
    return Data(training, labels, evaluation, targets)


def train(name: str, data: Data) -> Any:
    """Return the layer with a classifier behind it, after a short training."""
    keras.utils.set_random_seed(0)
    model = build(name, data.training.shape[1:])
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    model.fit(data.training, data.labels, batch_size=64, epochs=12, verbose=0)
    if not name.startswith("stateful"):
        return model
    streaming = build(name, data.training.shape[1:], batch_size=1, stateful=True)
    for own, trained in zip(streaming.trainable_variables, model.trainable_variables, strict=True):
        own.assign(trained)
    return streaming


def build(name: str, shape: tuple[int, ...], *, batch_size: int | None = None, **options: Any) -> Any:
    """Return the untrained model."""
    inputs = keras.Input(shape, batch_size=batch_size, name="window")
    x = layers.Masking()(inputs) if name.startswith("masked") else inputs
    outputs = layers.Dense(len(watch_data.EXERCISES), activation="softmax")(LAYERS[name](**options)(x))
    return keras.Model(inputs, outputs)


def measure(
    console: Console, name: str, model: Any, data: Data, precisions: tuple[str, ...]
) -> list[list[str]]:
    """Return one row per precision."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loop = (
            "none" if name.startswith("stateful") else stock.convert_in_child("float32", path, data.training)
        )
    rows = []
    for precision in precisions:
        start = time.perf_counter()
        try:
            result = tflite.convert(
                model,
                precision=precision,
                calibration=data.training[:CALIBRATION],
                evaluation=(data.evaluation, data.targets),
                verbose=0,
            )
        except tflite.ConversionError as error:
            rows.append([name, str(data.training.shape[1]), precision, str(error), *[""] * 6])
            console.print(f"  {precision} | refused: {error}")
            continue
        seconds = time.perf_counter() - start
        report = result.report
        error_share = report.predicted_size_bytes / report.size_bytes - 1.0
        rows.append(
            [
                name,
                str(data.training.shape[1]),
                precision,
                f"{report.agreement:.1%}",
                f"{report.sqnr_db:.1f} dB",
                f"{report.size_bytes / 1000:.0f} kB",
                f"{error_share:+.1%}",
                f"{report.delegate_partitions}{'' if report.fully_delegated else '+'}",
                _ratio(result.content, loop, data.evaluation[0]),
                f"{seconds:.0f} s",
            ]
        )
        console.print("  " + " | ".join(rows[-1][2:]))
    return rows


def _ratio(content: bytes, loop: bytes | str, sample: np.ndarray) -> str:
    """Return the latency against the stock file, or in words why there is none."""
    if isinstance(loop, str):
        return loop
    own, other = runtime.measure_latency([content, loop], {"window": sample})
    return f"{own['min'] / other['min']:.2f}"


def write(out: Path, rows: list[list[str]]) -> None:
    """Write the page."""
    command = " ".join(["python -m benchmarks.recurrent", *(shlex.quote(part) for part in sys.argv[1:])])
    page = (
        f"# Recurrent layers\n\nMade by `{command}`.\n{tables.provenance()}\n\n"
        f"{UNITS} units, trained briefly on smartwatch windows; {EVALUATION} windows of unseen subjects are "
        f"compared with Keras, {CALIBRATION} calibrate. `predicted` is the error of "
        "`Report.predicted_size_bytes`; the stock float32 file keeps the loop. A stateful layer has a state "
        "as input and output, for which the stock converter has no form. With `--in-process` the conversion "
        "to float32 counts for the first precision only, and no child is started.\n\n"
        f"{tables.markdown(HEADER, rows)}\n"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page)


if __name__ == "__main__":
    main()
