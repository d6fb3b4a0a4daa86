"""Recordings that a page brings along, as CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 50_000_000
"""More than a page should make a phone load."""


@dataclass(frozen=True)
class Recording:
    """A CSV file.

    Attributes:
        name: how the page calls it: the file's name without ending.
        columns: as in its first line.
        content: the file.
    """

    name: str
    columns: tuple[str, ...]
    content: bytes


def read(paths: Iterable[str | Path], features: Iterable[tuple[str, ...]]) -> list[Recording]:
    """Return the recordings, each of which must have all features of one of the models' windows.

    Args:
        paths: the CSV files.
        features: names of the features, once for each window that a model takes.

    Raises:
        ValueError: a file is no CSV, too large, or fits no model.
        OSError: a file can't be read.
    """
    wanted = [names for names in features if names]
    found = [_read(Path(path)) for path in paths]
    for recording in found:
        if not any(set(names) <= set(recording.columns) for names in wanted):
            raise ValueError(
                f"The recording {recording.name!r} fits no model: it has the columns "
                f"{list(recording.columns)}, and the models take {[list(names) for names in wanted]}."
            )
    return found


def _read(path: Path) -> Recording:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"The recording {str(path)!r} has more than {MOST_BYTES:,} bytes; cut it shorter.")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"The recording {str(path)!r} must be a CSV file in UTF-8.") from error
    heads = [_first_row(text, mark) for mark in ",;\t"]
    return Recording(path.stem, max(heads, key=len), content)


def _first_row(text: str, separator: str) -> tuple[str, ...]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    return next((tuple(name.strip() for name in row) for row in rows if any(row)), ())
