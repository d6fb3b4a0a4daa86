"""Windows from .csv files: rows are time steps (samples, where an input is a vector), columns features."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite.model_signature import TensorSpec

_ROWS_AT_A_TIME = 4096


def read_files(
    argument: str, files: Sequence[tuple[Path, int]], spec: TensorSpec, unfinished: list[Path]
) -> Iterator[Any]:
    """Yield the windows of each file as a list, or a tuple with their targets where labels are >= 0."""
    header: list[str] | None = None
    for index, (file, label) in enumerate(files):
        found = _header(argument, file)
        if index and found != header:
            raise ValueError(
                f"`{argument}`: the columns of {str(file)!r} are not those of {files[0][0].name!r}. "
                f"Received: {found} and {header}"
            )
        header = found
        for windows in read_windows(argument, file, spec, unfinished):
            yield [windows] if label < 0 else (windows, np.full(len(windows), label))


def read_windows(argument: str, file: Path, spec: TensorSpec, unfinished: list[Path]) -> Iterator[np.ndarray]:
    """Yield batches of consecutive windows that don't overlap.

    A window is as long as the input. Where the model leaves the length open, a file is one window.
    `unfinished` gets the file if rows are left at its end.
    """
    if len(spec.shape) not in (1, 2):
        raise ValueError(
            f"`{argument}`: {str(file)!r} holds rows and columns, but input {spec.name!r} has the shape "
            f"{spec.shape}. Pass arrays, or an .npz file."
        )
    columns = spec.shape[-1]
    length = spec.shape[0] if len(spec.shape) == 2 else 1
    at_once = None if length is None else length * max(1, _ROWS_AT_A_TIME // length)
    has_header = _header(argument, file) is not None
    done = yielded = 0
    with file.open(encoding="utf-8-sig") as stream:
        lines = (line for line in itertools.islice(stream, int(has_header), None) if line.strip())
        while chunk := list(itertools.islice(lines, at_once)):
            rows = _parse(argument, file, chunk, done)
            if columns is not None and rows.shape[1] != columns:
                raise ValueError(
                    f"`{argument}`: {str(file)!r} must have one column for each of the {columns} features of "
                    f"input {spec.name!r}. Received: {rows.shape[1]} columns. Leave out times and labels."
                )
            done += len(rows)
            size = length or len(rows)
            count = len(rows) // size
            yielded += count
            if count:
                windows = rows[: count * size].reshape(count, size, rows.shape[1])
                yield windows if len(spec.shape) == 2 else windows[:, 0]
    if not yielded:
        raise ValueError(
            f"`{argument}`: {str(file)!r} has {done} rows, fewer than one window of input {spec.name!r} "
            f"{spec.shape}. Record longer, or leave the file out."
        )
    if length is not None and done % length:
        unfinished.append(file)


def _header(argument: str, file: Path) -> list[str] | None:
    """Return the names of the columns, or None where the first line holds numbers."""
    try:
        with file.open(encoding="utf-8-sig") as stream:
            cells = [cell.strip().strip('"') for cell in stream.readline().split(",")]
    except UnicodeDecodeError as error:
        raise ValueError(f"`{argument}`: {str(file)!r} is no text: {error}") from error
    try:
        [float(cell) for cell in cells]
    except ValueError:
        # A line in which some cell is a number is one of data, in which another is broken.
        return None if any(_is_number(cell) for cell in cells) else cells
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse(argument: str, file: Path, lines: list[str], done: int) -> np.ndarray:
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64, quotechar='"', comments=None)
    except ValueError as error:
        raise ValueError(
            f"`{argument}`: {str(file)!r} must hold numbers, separated by commas, with a point for decimals. "
            f"After {done:,} rows of data: {error}"
        ) from error
