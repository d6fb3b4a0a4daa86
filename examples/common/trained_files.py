"""The options of programs that take the .tflite files which both examples wrote."""

import pathlib
from collections.abc import Callable

import click


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--activity` and `--images`, each the file of an example."""
    for name, example in (("images", "image_classification"), ("activity", "activity_recognition")):
        command = click.option(
            f"--{name}",
            type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
            default=f"runs/{example}/model_int8.tflite",
            show_default=True,
            help=f"What examples/{example}.py --attention-output wrote.",
        )(command)
    return command
