"""`keras-attention report`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .html file to write."
)
def report(file: Path, output: Path) -> None:
    """Turn the report FILE, in JSON as `convert` writes it, into an HTML page."""

    def work() -> None:
        if file.resolve() == output.resolve():
            raise ValueError(f"FILE and --output are the same file: {str(output)!r}")
        tflite.Report.read(file).write(output)

    with_clear_errors(work)
