"""`keras-attention web`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors

_FREE_PORT = 8000


@click.command()
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option("--title", help="Heading of the page.")
@click.option(
    "--recording",
    "recordings",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A CSV file to scrub through, its columns named as the features; may be given several times.",
)
@click.option(
    "--runtime",
    type=click.Path(path_type=Path),
    help="The archive of LiteRT.js that `npm pack` wrote, where there is no npm.",
)
@click.option("--single-file", is_flag=True, help="Write one index.html, which opens from disk too.")
@click.option("--overwrite", is_flag=True, help="Replace other files in the folder.")
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=_FREE_PORT,
    metavar="[PORT]",
    help=f"Then serve the folder on this machine, at port {_FREE_PORT} or another.",
)
def web(
    models: tuple[Path, ...],
    output: Path,
    title: str | None,
    recordings: tuple[Path, ...],
    runtime: Path | None,
    single_file: bool,
    overwrite: bool,
    serve: int | None,
) -> None:
    """Write a page that runs .tflite MODELS in the browser and checks that they answer as in Python."""

    def work() -> None:
        page = tflite.web(
            models,
            output,
            title=title,
            recordings=recordings,
            runtime=runtime,
            single_file=single_file,
            overwrite=overwrite,
        )
        for remark in page.remarks:
            click.echo(f"Remark: {remark}")
        click.echo(f"Wrote {page.index} ({page.size_bytes / 1e6:.1f} MB).")
        if serve is not None:
            from keras_attention.tflite.apps.web import serving

            serving.serve(output, serve, click.echo)

    with_clear_errors(work)
