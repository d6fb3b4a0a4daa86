"""How long a training step and a prediction of `MultiHeadAttention` take, beside the built-in layer.

    python -m benchmarks.training_speed
    KERAS_BACKEND=jax python -m benchmarks.training_speed

Each model is one layer of self-attention, compiled by the backend: the same weights, data and optimizer.
Both run in turns in one process, each first in every other round, so that a busy machine slows both alike.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import importlib.metadata
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import keras
import numpy as np
from rich.console import Console

from benchmarks import tables
from keras_attention import MultiHeadAttention

SIZES = ((32, 64, 64, 4), (8, 128, 256, 8), (2, 512, 256, 8))
"""Batch, length, channels and heads."""
WARM_UP = 5
HEADER = (
    "batch, length, channels, heads",
    "what",
    "built-in min",
    "built-in median",
    "ours min",
    "ours median",
    "ratio of minima",
    "ratio of medians",
)


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=100)
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/training_speed.md")
def main(rounds: int, out: Path) -> None:
    """Measure on the backend chosen by KERAS_BACKEND, and write its part of the page."""
    backend = keras.config.backend()
    rows = []
    for sizes in SIZES:
        rows += _measure(sizes, rounds)
        Console().print("\n".join(" | ".join(row) for row in rows[-2:]))
    version = importlib.metadata.version(backend)
    where = tables.provenance(f"{os.cpu_count()} cores, {rounds} rounds, backend {backend} {version}")
    tables.replace_between(out, backend, f"{where}\n\n{tables.markdown(HEADER, rows)}")


def _measure(sizes: tuple[int, int, int, int], rounds: int) -> list[list[str]]:
    batch, length, channels, heads = sizes
    samples = np.random.default_rng(0).normal(size=(batch, length, channels)).astype("float32")
    models = [
        _model(layer, samples, heads) for layer in (keras.layers.MultiHeadAttention, MultiHeadAttention)
    ]
    models[1].set_weights(models[0].get_weights())
    rows = []
    for what in ("training step", "prediction"):
        times: list[list[float]] = [[], []]
        for turn in range(WARM_UP + rounds):
            for index in (0, 1) if turn % 2 else (1, 0):
                times[index].append(_seconds(_work(models[index], what, samples)))
        built_in, ours = (sorted(values[WARM_UP:]) for values in times)
        rows.append(
            [
                ", ".join(map(str, sizes)),
                what,
                *(f"{1e3 * t:.2f} ms" for v in (built_in, ours) for t in (v[0], statistics.median(v))),
                f"{ours[0] / built_in[0]:.2f}",
                f"{statistics.median(ours) / statistics.median(built_in):.2f}",
            ]
        )
    return rows


def _model(layer: type[keras.Layer], samples: np.ndarray, heads: int) -> keras.Model:
    inputs = keras.Input(samples.shape[1:])
    model = keras.Model(inputs, layer(heads, samples.shape[-1] // heads)(inputs, inputs))
    model.compile("sgd", "mse")
    return model


def _work(model: keras.Model, what: str, samples: np.ndarray) -> Callable[[], object]:
    if what == "prediction":
        return lambda: model.predict_on_batch(samples)
    return lambda: model.train_on_batch(samples, samples)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
