#!/usr/bin/env python3
"""The modules exercise/ and digit/ of the Android app, from the files that the examples wrote.

    python examples/activity_recognition.py --attention-output
    python examples/image_classification.py --attention-output
    python examples/android/generate.py

Run again after training: what was generated and not changed since is replaced.
"""

import pathlib
import sys

import click

from keras_attention import tflite

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from common import trained_files

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "io.github.kerasattention"


@click.command(help=__doc__.splitlines()[0])
@trained_files.options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    default=HERE,
    help="Folder of the Gradle project.  [default: beside this script]",
)
def main(activity: pathlib.Path, images: pathlib.Path, out: pathlib.Path) -> None:
    """Writes both modules."""
    for name, path in (("Exercise", activity), ("Digit", images)):
        module = out / name.lower()
        try:
            sources = tflite.android(path, module, class_name=name, package=f"{PACKAGE}.{name.lower()}")
        except (tflite.ConversionError, ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error
        print(f"{module}: {len(sources.files)} files, {sources.golden_pairs} golden pairs", *sources.remarks)


if __name__ == "__main__":
    main()
