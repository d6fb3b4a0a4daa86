"""The page "Which attention for my CNN?": `python -m benchmarks.image_attention`.

Accuracy: `mobile_cnn` of examples/common/image_models.py on the digits of scikit-learn, 8 x 8, split 80 :
20 with every class in proportion (`train_test_split(test_size=0.2, stratify=..., random_state=0)`): 1,437
to train on, 360 to test on. Five seeds each. A gate adds parameters, so the plain network is also trained
with the smallest width that gives it as many, within 2 %.

How the hyper-parameters were chosen: on a quarter of the training part, split off anew for each of two or
three seeds. Depth, number of stages and augmentation with `SqueezeExcite`; 60 epochs, since 100 were no
better for it, CBAM and the plain network; 100 epochs of smaller batches for the Transformers. The width is
the least of 32, 48 and 64 at which the plain network is faster in int8 than in float32. All CNNs are
trained alike. A first round of this comparison, at width 32 for 30 epochs, had been tested before; nothing
was chosen by its results.

Files: the network of seed 0 of each row, without softmax, in each precision, compared with Keras on the
test digits. Times of an 8 x 8 image are tens of microseconds, so each network is also timed, untrained, on
photographs of 96 x 96.

Networks and numbers are kept in `--runs`; a run that was interrupted goes on there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import keras
import numpy as np
from rich.console import Console
from sklearn import datasets

from benchmarks import image_attention_page as page_form
from benchmarks import operation_count
from common import files
from common import image_data
from common import image_models
from common import image_training
from keras_attention import tflite

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "image_attention.md"
SEEDS = 5
ABOUT = 0.98
"""Share of the parameters that the plain network has at least."""
CALIBRATION = 512
PHOTO_CLASSES = 10


@click.command(context_settings={"show_default": True})
@click.option("--runs", type=click.Path(file_okay=False, path_type=Path), default="runs/image_attention")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE)
@click.option("--only", default="", help="Rows whose name holds this; the page is not written.")
@click.option("--train/--no-train", default=True, help="Whether to train what is not in RUNS.")
@click.option(
    "--files/--no-files", "with_files", default=True, help="Whether to convert and to write the page."
)
def main(runs: Path, page: Path, only: str, train: bool, with_files: bool) -> None:
    """Train, convert and time a CNN with each attention, and write the page."""
    console = Console()
    images = image_data.load("digits")
    rows = {name: recipe for name, recipe in make_rows().items() if only in name}
    for name, recipe in rows.items():
        if train:
            train_seeds(runs, name, recipe, images)
            console.print(name, accuracies(runs, name), sep="  ")
    if not with_files:
        return
    results = {}
    for name, recipe in rows.items():
        results[name] = measure(runs, name, recipe, images)
        console.print(name, results[name], sep="  ", highlight=False)
    if not only:
        page.write_text(page_form.render(results))
        console.print(f"written: {page}")


def make_rows() -> dict[str, image_training.Recipe]:
    """Return all networks to compare, the plain ones as wide as the others need it."""
    count = len(image_data.load("digits").train)
    make = image_training.make_recipe
    gated = {name: make("mobile_cnn", count, attention=name) for name in image_models.ATTENTIONS}
    widths = sorted({plain_width(recipe) for recipe in gated.values()})
    plain = {f"plain_{width}": make("mobile_cnn", count, width=width) for width in widths}
    return {**gated, **plain, **{name: make(name, count) for name in ("vit_tiny", "swin_tiny")}}


def plain_width(recipe: image_training.Recipe) -> int:
    """Return the smallest width of a plain network with about as many parameters, or more."""
    wanted, width = ABOUT * parameters(recipe), 64
    while parameters(image_training.Recipe(width=width)) < wanted:
        width += 1
    return width


def parameters(recipe: image_training.Recipe) -> int:
    """Return the number of parameters for digits."""
    return image_training.build(recipe, (8, 8, 1), 10).count_params()


def train_seeds(runs: Path, name: str, recipe: image_training.Recipe, images: image_data.Images) -> None:
    """Train with each seed unless the folder has the results, in one graph, which takes long to make."""
    path = runs / f"{name}.json"
    if path.exists():
        return
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    shape, classes = images.train.shape[1:], len(images.classes)
    model, trained = image_training.prepare(shape, classes, recipe, len(images.train))
    found = []
    for seed in range(SEEDS):
        keras.utils.set_random_seed(seed)
        model.set_weights(image_training.build(recipe, shape, classes, logits=True).get_weights())
        for variable in trained.optimizer.variables:
            variable.assign(keras.ops.zeros_like(variable))
        image_training.fit(trained, images.train, images.train_labels, recipe, [])
        accuracy = image_training.accuracy(model, images.test, images.test_labels, images.classes)
        found.append(accuracy.all)
        if seed == 0:
            files.write_atomically(path.with_suffix(".keras"), model.save)
    files.write_json(path, found)


def accuracies(runs: Path, name: str) -> list[float]:
    """Return the test accuracy of each seed."""
    return json.loads((runs / f"{name}.json").read_text())


def measure(
    runs: Path, name: str, recipe: image_training.Recipe, images: image_data.Images
) -> dict[str, Any]:
    """Return everything about one row, as plain values; conversions are kept in the folder too."""
    path = runs / f"{name}_files.json"
    if not path.exists():
        model = keras.saving.load_model(runs / f"{name}.keras")
        calibration, evaluation = images.train[:CALIBRATION], (images.test, images.test_labels)
        cells = {kind: convert(model, kind, calibration, evaluation) for kind in page_form.PRECISIONS}
        keras.utils.set_random_seed(0)
        photos = crop_photos()
        standard = dataclasses.replace(recipe, width=None)
        large = image_training.build(standard, photos.shape[1:], PHOTO_CLASSES, logits=True)
        files.write_json(
            path,
            {
                "parameters": model.count_params(),
                "operations": cells["float32"].pop("operations"),
                "digits": cells,
                "photos": {
                    "parameters": large.count_params(),
                    **{kind: convert(large, kind, photos, photos) for kind in ("float32", "int8")},
                },
            },
        )
    return {
        **json.loads(path.read_text()),
        "accuracies": accuracies(runs, name),
        "plain": plain_width(recipe),
    }


def crop_photos() -> np.ndarray:
    """Return squares of the two photographs of scikit-learn, uint8."""
    photos = datasets.load_sample_images().images
    starts = range(0, min(photos[0].shape[:2]) - page_form.PHOTO_SIZE, page_form.PHOTO_SIZE // 2)
    return np.stack(
        [
            photo[row : row + page_form.PHOTO_SIZE, column : column + page_form.PHOTO_SIZE]
            for photo in photos
            for row in starts
            for column in starts
        ]
    )


def convert(model: keras.Model, precision: str, calibration: np.ndarray, evaluation: Any) -> dict[str, Any]:
    """Convert a network and return what the page shows; a refusal is a result too."""
    options = {} if precision in ("float32", "float16", "dynamic") else {"calibration": calibration}
    try:
        result = tflite.convert(model, precision=precision, evaluation=evaluation, verbose=0, **options)
    except tflite.ConversionError as error:
        return {"refusal": str(error).splitlines()[0]}
    report = result.report
    cell = {
        "agreement": report.agreement,
        "accuracy": report.metric and report.metric["tflite"],
        "sqnr_db": report.sqnr_db,
        "milliseconds": report.latency_ms["min"],
        "float32_milliseconds": report.latency_ms["float32_min"],
        "kilobytes": report.size_bytes / 1000,
        "partitions": f"{report.delegate_partitions}{'' if report.fully_delegated else '+'}",
    }
    return {**cell, "operations": operation_count.count(result.content)} if precision == "float32" else cell


if __name__ == "__main__":
    main()
