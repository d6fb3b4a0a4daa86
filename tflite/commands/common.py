"""What the commands share: turning errors into one clear line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click

from keras_attention.tflite.errors import ConversionError


def with_clear_errors(work: Callable[[], None]) -> None:
    """Turn the errors that are the user's to solve into one line on standard error and exit code 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are removed
    try:
        work()
    except (ConversionError, ValueError, TypeError, OSError) as error:
        raise click.ClickException(str(error)) from error


device_report = click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Add what is found to this report, a .json file that convert wrote for FILE.",
)
"""The option of commands that run a file elsewhere."""
