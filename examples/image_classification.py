#!/usr/bin/env python3
"""Images: train a small network with attention, take it to .tflite, see where it looks.

    pip install -e ".[examples]"
    python examples/image_classification.py                        # digits, CBAM, int8; a few minutes
    python examples/image_classification.py --attention se         # another of seven kinds of attention
    python examples/image_classification.py --model swin_tiny      # or vit_tiny
    python examples/image_classification.py --data photos --image-size 64 --flip  # a subfolder per class
    python examples/image_classification.py --precision int8_full  # integers only, uint8 in and out
    python examples/image_classification.py --quick                # all of it within a minute, barely trained

Writes model.keras, model_<precision>.tflite, report.json, report.html, attention.png (not for a network
without attention) and metrics.json into --out, after training and conversion have gone well: a run that fails
leaves the files of an earlier one as they were.

Every file takes images as they come from a camera or a decoder, uint8 from 0 to 255, and scales them inside.
With --input-dtype float32 the file takes the same values as floats.

How the hyper-parameters were chosen: on a quarter of the training digits, put aside; the test digits took no
part. The number of epochs is fixed, the final weights are the moving average at the end, and no test image
takes part in training or calibration.
"""

import dataclasses
import os
import pathlib
import time
from typing import Any
from typing import get_args

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import click
import keras
from rich import box
from rich import console
from rich import table

from common import attention_outputs
from common import files
from common import image_data
from common import image_models
from common import image_pictures
from common import image_training
from common import progress_bar
from keras_attention import tflite
from keras_attention.tflite.arguments import Precision

QUICK = {"epochs": 10, "train": 1500, "test": 360}
BLACK_BORDER = ("digits", "mnist", "fashion_mnist")  # what lies beside the image is known


@click.command(context_settings={"show_default": True, "max_content_width": 110})
@click.option(
    "--data",
    "source",
    default="digits",
    help=f"{', '.join(image_data.NAMES)}, or a folder with one subfolder of images per class.",
)
@click.option(
    "--image-size",
    type=click.IntRange(8, 256),
    default=None,
    help="Height and width that the images of a folder are brought to.  [default: as they are]",
)
@click.option(
    "--model",
    "model_name",
    type=click.Choice(sorted(image_models.BUILDERS)),
    default="mobile_cnn",
    help="Model.",
)
@click.option(
    "--attention",
    type=click.Choice([*image_models.ATTENTIONS, "none"]),
    default=None,
    help="Attention in the blocks of mobile_cnn.  [default: cbam]",
)
@click.option("--flip", is_flag=True, help="Also train on mirrored images; not for digits or letters.")
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    default=None,
    help="Epochs of training.  [default: by model and number of images, "
    f"{image_training.EPOCHS[0]} to {image_training.EPOCHS[1]}]",
)
@click.option("--mixed-precision", is_flag=True, help="Train in 16 bits, which is faster on a GPU.")
@click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default="int8",
    help="Precision of the .tflite file; int8_full has uint8 inputs and outputs.",
)
@click.option(
    "--input-dtype",
    type=click.Choice(["uint8", "float32"]),
    default="uint8",
    help="Type of the images that the files take; 0 to 255 in both.",
)
@click.option(
    "--attention-output",
    is_flag=True,
    help="Give the .tflite file the attention as a second output, for apps that draw it.",
)
@click.option(
    "--quick", is_flag=True, help="Barely train: shows that everything works in less than a minute."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, writable=True, path_type=pathlib.Path),
    default="runs/image_classification",
    help="Folder for the results.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="Seed of weights, dropout and augmentation."
)
def main(
    source: str,
    image_size: int | None,
    model_name: str,
    attention: str | None,
    flip: bool,
    epochs: int | None,
    mixed_precision: bool,
    precision: Precision,
    input_dtype: str,
    attention_output: bool,
    quick: bool,
    out: pathlib.Path,
    seed: int,
) -> None:
    """Classify images with attention, in Keras and in .tflite."""
    if attention is not None and model_name != "mobile_cnn":
        raise click.UsageError(f"--attention is for mobile_cnn; {model_name} has its own.")
    if model_name == "mobile_cnn":
        attention = None if attention == "none" else attention or "cbam"
    if precision == "int8_full" and input_dtype == "float32":
        raise click.UsageError("--precision int8_full has no floats: leave --input-dtype at uint8.")
    if attention_output and attention not in ("cbam", "spatial"):
        raise click.UsageError("--attention-output needs --attention cbam or spatial: a map of places.")
    screen = console.Console()
    try:
        images = image_data.load(source, image_size)
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for note in images.notes:
        screen.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    if quick:
        images = shorten(images)
        epochs = epochs or QUICK["epochs"]
    recipe = image_training.make_recipe(
        model_name,
        len(images.train),
        epochs=epochs,
        attention=attention,
        augmentation=image_training.Augmentation(
            flip=flip, fill="constant" if source in BLACK_BORDER else "reflect"
        ),
        mixed_precision=mixed_precision,
        seed=seed,
    )
    train_and_convert(
        screen,
        images,
        recipe,
        precision,
        input_dtype,
        out,
        attention_output=attention_output,
        quick=quick,
    )


def shorten(images: image_data.Images) -> image_data.Images:
    """The first images of each part; both are in random order unless their makers ordered them."""
    train, test = QUICK["train"], QUICK["test"]
    return dataclasses.replace(
        images,
        train=images.train[:train],
        train_labels=images.train_labels[:train],
        test=images.test[:test],
        test_labels=images.test_labels[:test],
    )


def train_and_convert(
    screen: console.Console,
    images: image_data.Images,
    recipe: image_training.Recipe,
    precision: Precision,
    input_dtype: str,
    out: pathlib.Path,
    *,
    attention_output: bool,
    quick: bool,
) -> None:
    """Trains, converts, draws the attention, writes all files and a summary."""
    start = time.perf_counter()
    with progress_bar.display(screen) as show:
        model = image_training.train(
            images.train, images.train_labels, len(images.classes), recipe, show=show, input_dtype=input_dtype
        )
    seconds = time.perf_counter() - start
    accuracy = image_training.accuracy(model, images.test, images.test_labels, images.classes)
    shipped = attention_outputs.over_places(model) if attention_output else model
    result = convert(shipped, images, precision, out / f"model_{precision}.tflite", quick=quick)
    written = [out / f"model_{precision}.tflite", files.write_atomically(out / "model.keras", model.save)]
    written += [result.write_report(out / f"report.{ending}") for ending in ("json", "html")]
    picture = image_pictures.draw(
        model, images.test, images.test_labels, images.classes, out / "attention.png"
    )
    if picture is None:
        screen.print("A network without attention has nothing to draw.")
        if (out / "attention.png").exists():
            screen.print(f"note: {out / 'attention.png'} is of an earlier run.", style="yellow", markup=False)
    else:
        written.append(picture)
    metrics = {
        "data": images.name,
        "classes": images.classes,
        "split": images.split,
        "training_seconds": round(seconds, 1),
        "parameters": model.count_params(),
        "recipe": dataclasses.asdict(recipe),
        "test": dataclasses.asdict(accuracy),
    }
    written.append(files.write_json(out / "metrics.json", metrics))
    summarize(screen, model, images, seconds, result.report, written)


def convert(
    model: keras.Model,
    images: image_data.Images,
    precision: Precision,
    path: pathlib.Path,
    *,
    quick: bool,
) -> tflite.Conversion:
    """Converts for one image at a time; calibrates on training images, verifies on the test images.

    A barely trained model is unsure of most images, so `quick` accepts more disagreement.
    """
    try:
        return tflite.convert(
            model,
            path,
            precision=precision,
            calibration=images.train[:: max(1, len(images.train) // 512)],
            evaluation=(images.test, images.test_labels),
            min_agreement={model.output_names[0]: 0.9 if quick else 0.99},
            io_dtype="uint8" if precision == "int8_full" else None,
            manifest={
                "labels": {model.output_names[0]: list(images.classes)},
                **({"attention": model.output_names[1:]} if len(model.outputs) > 1 else {}),
                "pixel_range": [0, 255],
                "description": "Takes pixels from 0 to 255 and scales them itself.",
            },
        )
    except tflite.ConversionError as error:
        raise click.ClickException(f"{path.name} was not written. {error}") from error


def summarize(
    screen: console.Console,
    model: keras.Model,
    images: image_data.Images,
    seconds: float,
    report: Any,
    written: list[pathlib.Path],
) -> None:
    """Prints what came out."""
    shown = table.Table("accuracy", "Keras", f".tflite {report.precision}", title=model.name, box=box.SIMPLE)
    shown.add_row(
        f"{len(images.test)} test images", f"{report.metric['keras']:.3f}", f"{report.metric['tflite']:.3f}"
    )
    screen.print(shown)
    screen.print(f"{images.name}, {images.split}", highlight=False)
    if len(images.test) < 100:
        points = 100 / len(images.test)
        screen.print(
            f"note: one test image is {points:.1f} points of accuracy.", style="yellow", highlight=False
        )
    screen.print(f"trained in {seconds:.0f} s; written:")
    for path in written:
        screen.print(f"  {path}  {path.stat().st_size / 1000:.1f} kB", highlight=False)


if __name__ == "__main__":
    main()
