"""`keras-attention inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def inspect(file: Path) -> None:
    """Show inputs, outputs, quantization, operators, delegate partitions and size of a .tflite FILE."""
    with_clear_errors(lambda: tflite.inspect(file).print())
