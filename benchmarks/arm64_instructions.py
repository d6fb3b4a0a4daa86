"""Executed instructions per inference on emulated phones' processors, of our files and the stock int8 file.

    keras-attention arm64 --setup
    python examples/activity_recognition.py --out runs/transformer
    python -m benchmarks.arm64_instructions runs/transformer/model.keras

Beside the trained model two untrained ones with attention over all 128 steps: the weights don't change
which instructions run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import keras
import numpy as np
from rich.console import Console

import keras_attention
from benchmarks import stock
from benchmarks import tables
from common import watch_data
from keras_attention import tflite
from keras_attention.tflite.arm64 import result as results

CALIBRATION_SAMPLES = 128
WIDTHS = (64, 256)
PRECISIONS = ("float32", "int8", "dynamic")
STOCK = "stock int8"
HEADER = (
    "processor",
    "file",
    "millions",
    "x float32",
    "x stock int8",
    "dot product, i8mm",
    "multiply-add",
    "other vector",
    "loads, stores",
)
CLASSES = (
    ("dot_product", "matrix_product"),
    ("float_multiply_add", "half_multiply_add", "integer_multiply_add"),
    ("other_simd",),
    ("load_store",),
)


@click.command(context_settings={"show_default": True})
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--bed", type=click.Path(path_type=Path), help="Folder of the arm64 test bed.")
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/arm64_instructions.md")
def main(model: Path, bed: Path | None, out: Path) -> None:
    """Count for the trained activity MODEL and two untrained Transformers, and write tables to --out."""
    console = Console()
    train, _ = list(watch_data.subject_folds(watch_data.load()))[-1]
    samples = watch_data.cut(train).inputs
    samples = samples[np.linspace(0, len(samples) - 1, CALIBRATION_SAMPLES).astype(int)]
    sections = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        models = {f"The trained activity model ({_describe(model)})": model}
        for width in WIDTHS:
            path = Path(folder) / f"width_{width}.keras"
            _transformer(width, samples).save(path)
            models[f"Two Transformer blocks, {width} channels, attention over 128 steps (untrained)"] = path
        for title, path in models.items():
            console.print(f"[bold]{title}[/bold]")
            files = _convert(console, path, samples, Path(folder))
            checks = {}
            for name, file in files.items():
                console.print(f"  counting {name} ...")
                checks[name] = tflite.check_arm64(file, data=samples, samples=1, bed=bed, verbose=0)
                versions = checks[name].versions
            sections.append(f"## {title}\n\n{tables.markdown(HEADER, _rows(checks))}")
    emulator = ", ".join(f"{name} {number}" for name, number in versions.items())
    intro = (
        "# Executed instructions on phones' processors\n\n"
        "Made by `python -m benchmarks.arm64_instructions MODEL.keras`.\n"
        f"{tables.provenance('one thread, one sample')}\n"
        f"Emulated: {emulator}.\n\n"
        f"{results.NOT_TIME} Shares are of all executed instructions; the rest is integer arithmetic and "
        "branches. *stock int8* is the stock converter's file with every operator in int8, from the same "
        "samples."
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join([intro, *sections]) + "\n")
    console.print(f"written: {out}")


def _describe(path: Path) -> str:
    """Say the channels and the positions of a model's attention."""
    model = tflite.load_model(path)
    shape = next(layer for layer in model.layers if layer.name.startswith("attention")).output.shape
    return f"{shape[2]} channels, attention over {shape[1]} positions"


def _transformer(width: int, samples: np.ndarray) -> keras.Model:
    keras.utils.set_random_seed(width)
    inputs = keras.Input(samples.shape[1:], name="window")
    x = keras.layers.Dense(width)(inputs)
    for _ in range(2):
        x = keras_attention.TransformerEncoderBlock(2 * width, 4, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization(epsilon=1e-5)(x))
    return keras.Model(inputs, keras.layers.Dense(len(watch_data.EXERCISES), activation="softmax")(x))


def _convert(console: Console, path: Path, samples: np.ndarray, folder: Path) -> dict[str, Path]:
    """Write our files and the stock int8 file of a model; return what each is called."""
    model = tflite.load_model(path)
    files = {}
    for precision in PRECISIONS:
        console.print(f"  ours {precision} ...")
        files[precision] = folder / f"{path.stem}_{precision}.tflite"
        calibration = samples if precision == "int8" else None
        tflite.convert(
            model,
            files[precision],
            precision=precision,
            calibration=calibration,
            evaluation=samples,
            min_agreement=0.0,
            verbose=0,
        )
    console.print(f"  {STOCK} ...")
    content = stock.convert_in_child("int8", path, samples)
    if isinstance(content, str):
        raise click.ClickException(f"The stock converter failed on {path}: {content}")
    files[STOCK] = folder / f"{path.stem}_stock.tflite"
    files[STOCK].write_bytes(content)
    return files


def _rows(checks: dict[str, tflite.Arm64Check]) -> list[list[str]]:
    counts = {
        (processor.name, name): processor.instructions or {}
        for name, check in checks.items()
        for processor in check.processors
    }
    totals = {key: sum(classes.values()) for key, classes in counts.items()}
    rows = []
    for processor in dict.fromkeys(processor for processor, _ in counts):
        for name in checks:
            total = totals[processor, name]
            shares = [sum(counts[processor, name].get(key, 0) for key in keys) / total for keys in CLASSES]
            rows.append(
                [
                    processor,
                    name,
                    f"{total / 1e6:.2f}",
                    f"{total / totals[processor, 'float32']:.2f}",
                    f"{total / totals[processor, STOCK]:.2f}",
                    *(f"{share:.0%}" for share in shares),
                ]
            )
    return rows


if __name__ == "__main__":
    main()
