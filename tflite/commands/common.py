"""What the commands share: reading samples, and turning errors into one clear line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from keras_attention.tflite.errors import ConversionError

TARGETS = "targets"
"""Name of the array in an .npz file that holds what the model should answer."""


def read_samples(option: str, path: Path | None) -> Any:
    """Return an .npz file's arrays in the form that `convert` takes."""
    if path is None:
        return None
    if not path.is_file():
        raise click.ClickException(f"{option} must be an .npz file. No such file: {str(path)!r}")
    try:
        with path.open("rb") as stream:
            data = np.load(stream, allow_pickle=False)
            if not hasattr(data, "files"):
                raise ValueError("it holds a single array, not named ones")
            arrays = {name: data[name] for name in data.files}
    except Exception as error:  # NumPy raises many kinds on damaged files
        reason = "it holds pickled objects" if "pickle" in str(error) else str(error)
        raise click.ClickException(
            f"{option} must be an .npz file as numpy.savez writes it. {str(path)!r} can't be read: {reason}"
        ) from error
    targets = arrays.pop(TARGETS, None)
    if not arrays:
        raise click.ClickException(f"{option}: {str(path)!r} holds no array of inputs.")
    inputs: Any = arrays if len(arrays) > 1 else next(iter(arrays.values()))
    return inputs if targets is None else (inputs, targets)


def with_clear_errors(work: Callable[[], None]) -> None:
    """Turn the errors that are the user's to solve into one line on standard error and exit code 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are removed
    try:
        work()
    except (ConversionError, ValueError, TypeError, OSError) as error:
        raise click.ClickException(str(error)) from error
