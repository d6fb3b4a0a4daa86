"""The table of which layers export to ONNX: `python -m benchmarks.onnx_export`.

One small model per layer (benchmarks/layer_models.py) and each example's models, seeded and untrained, on
real smartwatch windows and random images. Each is exported, run in onnxruntime and compared with Keras.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import click
import keras
import numpy as np
from rich.console import Console

from benchmarks import layer_models
from benchmarks import tables
from common import activity_models
from common import image_models
from common import watch_data
from keras_attention import serving
from keras_attention.tflite import ConversionError

SAMPLES = 64
IMAGE = (32, 32, 3)
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "onnx_export.md"
HEADER = ["model", "max error", "SQNR", "size", "operators", "which"]


@click.command(context_settings={"show_default": True})
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE)
@click.option("--only", default="", help="Models whose title holds this, printed instead of written.")
def main(page: Path, only: str) -> None:
    """Export each model, and write the page."""
    console = Console()
    windows = watch_data.cut(watch_data.load()).inputs
    chosen = windows[np.random.default_rng(0).permutation(len(windows))[:SAMPLES]]
    parts = {}
    for title, models in (("Models of the examples", examples(windows)), ("Layers", layers(windows))):
        rows = []
        for name, model in models:
            if only in name:
                samples = chosen if model.input_shape[1:] == chosen.shape[1:] else None
                rows.append(row(name, model, samples))
                console.print(*rows[-1][:5], sep="  ")
        parts[title] = rows
    if not only:
        page.write_text(render(parts))
        console.print(f"written: {page}")


def examples(windows: np.ndarray) -> Iterator[tuple[str, keras.Model]]:
    """Yield the examples' models at their usual sizes."""
    mean, variance = windows.mean((0, 1)), windows.var((0, 1))
    for name, build in activity_models.BUILDERS.items():
        keras.utils.set_random_seed(0)
        yield f"`{name}`", build(mean, variance)
    for attention in (None, *image_models.ATTENTIONS):
        keras.utils.set_random_seed(0)
        yield f"`mobile_cnn`, {attention or 'no attention'}", image_models.mobile_cnn(IMAGE, 10, attention)
    for name in ("vit_tiny", "swin_tiny"):
        keras.utils.set_random_seed(0)
        yield f"`{name}`", image_models.BUILDERS[name](IMAGE, 10)


def layers(windows: np.ndarray) -> Iterator[tuple[str, keras.Model]]:
    """Yield one small model per layer."""
    for name, body in layer_models.LAYERS.items():
        yield name, layer_models.build(body, windows)


def row(name: str, model: keras.Model, samples: Any) -> list[str]:
    """Export a model and return its line of the table; a refusal is a result too."""
    try:
        export = serving.export_onnx(model, samples=samples, verbose=0)
    except ConversionError as error:
        return [name, "refused", "", "", "", str(error).splitlines()[0]]
    (error,) = export.errors.values()
    which = ", ".join(f"{count} {operator}" for operator, count in export.operators.items())
    count = f"{sum(export.operators.values())}"
    size = f"{len(export.content) / 1e3:,.0f} kB"
    return [name, f"{error.max_error:.1e}", f"{error.sqnr_db:.0f} dB", size, count, which]


def render(parts: dict[str, list[list[str]]]) -> str:
    """Return the whole page."""
    lines = [
        "# What each layer becomes in ONNX",
        "Made by `python -m benchmarks.onnx_export`: each model exported by `serving.export_onnx`, run in "
        "onnxruntime one sample and three samples at a time, and compared with Keras. Layers stand in one "
        "small model each (benchmarks/layer_models.py), seeded and untrained, on real smartwatch windows; "
        f"the images are random. All outputs are probabilities. {tables.provenance()}",
    ]
    for title, rows in parts.items():
        lines += [f"## {title}", tables.markdown(HEADER, rows)]
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
