"""Files that are either complete or not there: written beside their place under another name, then moved."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any


def write_atomically(path: pathlib.Path, write: Callable[[pathlib.Path], Any]) -> pathlib.Path:
    """Calls `write` with a temporary path in the same folder and moves the result to `path`.

    The temporary name keeps the ending of the file, as writers of models and pictures choose their format
    by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_json(path: pathlib.Path, content: Any) -> pathlib.Path:
    """Writes plain values as indented JSON."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
