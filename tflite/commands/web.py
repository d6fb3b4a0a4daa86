"""`keras-attention web`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors

_USUAL_PORT = 8000


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
@click.option("--serve", is_flag=True, help="Then serve the folder on this machine.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_USUAL_PORT,
    show_default=True,
    help="Where --serve serves; 0 for any that is free.",
)
def web(
    models: tuple[Path, ...],
    output: Path,
    title: str | None,
    recordings: tuple[Path, ...],
    runtime: Path | None,
    single_file: bool,
    overwrite: bool,
    serve: bool,
    port: int,
) -> None:
    """Write a page that runs .tflite MODELS in the browser and checks that they answer as in Python."""

    def build() -> None:
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

    def build_and_serve() -> None:
        from keras_attention.tflite.apps.web import serving

        with serving.server(output, port) as server:  # first, so that a port in use costs no build
            build()
            serving.run(server, click.echo)

    with_clear_errors(build_and_serve if serve else build)
