"""`keras-attention quantize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_attention import tflite
from keras_attention.tflite.commands import conversion_options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@conversion_options.shared_options
def quantize(model: Path, **options: Any) -> None:
    """Quantize the float .tflite file MODEL, whatever made it, and compare both on real inputs."""
    conversion_options.run(tflite.quantize, model, **options)
