"""Writing a folder of files: what a user put there stays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from keras_attention.tflite import files

LIST = ".keras_attention_page.json"
"""Lies in the folder: path -> SHA-256 of what was written, to know it again."""
_LAST = ("index.html", "sw.js")
"""Written when all else is there: they name the other files."""


def write(folder: Path, contents: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Write files into a folder, which is made if need be; files of an earlier page are replaced or removed.

    Args:
        folder: where to write.
        contents: path in the folder, with slashes -> content.
        overwrite: replace files that this function did not write, too.

    Raises:
        FileExistsError: such a file is in the way.
        NotADirectoryError: the folder is a file.
        OSError: the folder can't be written.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"The folder of the page is a file. Received: {str(folder)!r}")
    earlier = _earlier(folder)
    if not overwrite:
        in_the_way = [
            path
            for path in contents
            if (folder / path).exists() and _hash((folder / path).read_bytes()) != earlier.get(path)
        ]
        if in_the_way:
            raise FileExistsError(
                f"{str(folder)!r} holds files that are not of an earlier page, or were changed since: "
                f"{', '.join(in_the_way[:5])}. Choose an empty folder, or overwrite them (--overwrite)."
            )
    folder.mkdir(parents=True, exist_ok=True)
    first = [path for path in contents if path not in _LAST]
    for path in (*first, *(path for path in _LAST if path in contents)):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(target, contents[path])
    for path, known in earlier.items():
        target = folder / path
        if path not in contents and target.is_file() and _hash(target.read_bytes()) == known:
            target.unlink()
    listed = {path: _hash(content) for path, content in contents.items()}
    files.write_whole(folder / LIST, (json.dumps(listed, indent=1) + "\n").encode())


def _earlier(folder: Path) -> dict[str, str]:
    """Return what an earlier page put there, without paths that lead out of the folder."""
    try:
        listed = json.loads((folder / LIST).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(listed, dict):
        return {}
    root = folder.resolve()
    return {
        path: known
        for path, known in listed.items()
        if isinstance(known, str) and root in (folder / path).resolve().parents
    }


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
