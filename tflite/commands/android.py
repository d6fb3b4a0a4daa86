"""`keras-attention android`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the module."
)
@click.option("--package", default="com.example.app", show_default=True, help="Package of the classes.")
@click.option("--language", type=click.Choice(["kotlin", "java"]), default="kotlin", show_default=True)
@click.option("--class-name", help="Class of the model. Defaults to the file's name.")
@click.option(
    "--manifest", type=click.Path(path_type=Path), help="Defaults to the .manifest.json beside the file."
)
@click.option("--overwrite", is_flag=True, help="Also replace files that were changed, or written by others.")
def android(
    file: Path,
    folder: Path,
    package: str,
    language: str,
    class_name: str | None,
    manifest: Path | None,
    overwrite: bool,
) -> None:
    """Write an Android module whose code matches this .tflite FILE, and checks at its start that it does."""

    def work() -> None:
        sources = tflite.android(
            file,
            folder,
            package=package,
            language="java" if language == "java" else "kotlin",
            class_name=class_name,
            manifest=manifest,
            overwrite=overwrite,
        )
        click.echo(f"{len(sources.files)} files in {sources.folder}, class {package}.{sources.class_name}")
        click.echo(f"{sources.golden_pairs} golden pairs are replayed at the app's start")
        for remark in sources.remarks:
            click.echo(f"Note: {remark}")
        click.echo(f"Next: {sources.folder / sources.class_name}.md")

    with_clear_errors(work)
