"""`keras-attention convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_attention import tflite
from keras_attention.tflite import quiet
from keras_attention.tflite.commands import conversion_options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@conversion_options.shared_options
@click.option(
    "--max-unrolled-steps", type=int, default=512, show_default=True, help="Longest recurrence to unroll."
)
@click.option(
    "--batch-size", type=int, default=1, show_default=True, help="Samples that the file takes at a time."
)
def convert(model: Path, **options: Any) -> None:
    """Convert the .keras file MODEL to a .tflite file and compare both on real inputs."""
    with quiet.without_remarks_at_start():
        import keras  # noqa: F401  the first time, here
    conversion_options.run(tflite.convert, model, **options)
