"""What tflite-micro answers and needs for int8 files: `python -m benchmarks.microcontrollers`.

Small networks for the windows of a watch and for digits, each trained for a few epochs, converted with
`precision="int8_full"`, with and without `target="microcontroller"`, and run on all test samples beside
LiteRT's reference kernels.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from collections.abc import Iterator
from typing import Any
from typing import Literal

import click
import keras
import numpy as np
from keras import layers
from rich.console import Console

import keras_attention
from benchmarks import tables
from common import activity_models
from common import image_data
from common import image_models
from common import watch_data
from keras_attention import tflite

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "microcontrollers.md"
EPOCHS = 6
TEST_SUBJECTS = 8
"""Subjects above this number are tested on."""
WIDTH = 32
Target = Literal["cpu", "microcontroller"]
TARGETS: tuple[Target, ...] = ("cpu", "microcontroller")
HEADER = (
    "network",
    "accuracy",
    "values",
    "differing",
    "largest",
    "agreement",
    "differing with target",
    "arena",
    "arena with target",
    "activations",
    "flash",
    "Edge TPU",
)


@click.command(context_settings={"show_default": True})
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE)
def main(page: Path) -> None:
    """Train, convert and run each network, and write the table."""
    console = Console()
    rows = []
    with TemporaryDirectory() as folder:
        for model, train, labels, test, wanted in networks():
            rows.append(measure(Path(folder), model, train, labels, test, wanted))
            console.print(*rows[-1], sep="  ", highlight=False)
    text = f"{tables.provenance('64-bit')}\n\n{tables.markdown(HEADER, rows)}"
    tables.replace_between(page, "micro", text)
    console.print(f"written: {page}")


Data = tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""A network, training samples and labels, test samples and labels."""


def networks() -> Iterator[Data]:
    """Yield each network with its data."""
    recordings = watch_data.load()
    mean, variance = watch_data.statistics(tuple(r for r in recordings if r.subject <= TEST_SUBJECTS))
    windows = watch_data.cut(recordings)
    is_test = windows.subjects > TEST_SUBJECTS
    parts = tuple(v[where] for where in (~is_test, is_test) for v in (windows.inputs, windows.labels))
    for make in (
        lambda: activity_cnn(mean, variance, None),
        lambda: activity_cnn(mean, variance, keras_attention.CBAM(name="cbam")),
        lambda: activity_models.transformer(mean, variance),
    ):
        yield (make(), *parts)
    digits = image_data.load("digits")
    images = [part.astype("float32") for part in (digits.train, digits.test)]
    for kind in (None, "se", "cbam"):
        network = image_models.mobile_cnn(images[0].shape[1:], len(digits.classes), kind, width=WIDTH)
        yield network, images[0], digits.train_labels, images[1], digits.test_labels


def activity_cnn(mean: np.ndarray, variance: np.ndarray, gate: keras.Layer | None) -> keras.Model:
    """Return three convolutions over time, a gate or none, and the mean."""
    window = keras.Input((watch_data.WINDOW, len(watch_data.AXES)), name="window")
    x = layers.Normalization(mean=mean, variance=variance)(window)
    for filters, size in ((16, 7), (32, 5), (32, 5)):
        x = layers.Conv1D(filters, size, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    if gate is not None:  # CBAM takes images: time by one
        x = layers.Reshape((x.shape[1], 1, x.shape[2]))(x)
        x = layers.Reshape((x.shape[1], x.shape[3]))(gate(x))
    x = layers.GlobalAveragePooling1D()(x)
    outputs = layers.Dense(len(watch_data.EXERCISES), activation="softmax", name="exercise")(x)
    return keras.Model(window, outputs, name="activity_cnn" if gate is None else "activity_cbam")


def measure(
    folder: Path, model: Any, train: np.ndarray, labels: np.ndarray, test: np.ndarray, wanted: np.ndarray
) -> list[str]:
    """Train and convert a network, run it on tflite-micro, and return its row."""
    keras.utils.set_random_seed(0)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, labels, epochs=EPOCHS, batch_size=64, verbose=0)
    found: dict[Target, tflite.MicroCheck] = {}
    for target in TARGETS:
        path = folder / f"{model.name}_{target}.tflite"
        tflite.convert(
            model,
            path,
            precision="int8_full",
            target=target,
            calibration=train[:: max(1, len(train) // 256)],
            evaluation=(test, wanted),
            verbose=0,
        )
        found[target] = tflite.check_micro(path, inputs=test)
        if not found[target].passed:
            raise RuntimeError(f"{path.name}: {found[target].faults}")
    plain, aimed = (found[target] for target in TARGETS)
    (output,) = plain.outputs
    (mapped,) = tflite.check(plain.path, target="edgetpu", select=["KA305"])
    accuracy = model.evaluate(test, wanted, verbose=0, return_dict=True)["accuracy"]
    return [
        f"`{model.name}`",
        f"{accuracy:.1%}",
        f"{output.values:,}",
        f"{output.differing:,}",
        f"{output.largest:g} steps",
        f"{output.agreement:.1%}",
        f"{aimed.outputs[0].differing:,}",
        f"{plain.arena_bytes:,} B",
        f"{aimed.arena_bytes:,} B",
        f"{plain.activation_bytes:,} B",
        f"{plain.flash_bytes:,} B",
        f"{mapped.message.partition(' operators')[0].rpartition(': ')[2]}",
    ]


if __name__ == "__main__":
    main()
