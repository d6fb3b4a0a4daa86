"""`keras-attention verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="Take the golden pairs from this .manifest.json instead.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of the interpreter."
)
def verify(file: Path, manifest: Path | None, threads: int) -> None:
    """Replay the golden pairs of a .tflite FILE; exit code 1 where an answer differs."""

    def work() -> None:
        result = tflite.verify(file, manifest=manifest, num_threads=threads)
        result.print()
        if not result.passed:
            sys.exit(1)

    with_clear_errors(work)
