"""Writing a folder of generated files: what a user put there, or changed, stays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from keras_attention.tflite import files

LIST = ".keras_attention_files.json"
"""Lies in the folder: what it was written for -> path -> SHA-256 of what was written, to know it again."""
_Known = dict[str, dict[str, list[str]]]


def write(
    folder: Path,
    contents: Mapping[str, bytes],
    *,
    owner: str,
    last: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write files into a folder, which is made if need be.

    Files of an earlier run that are unchanged since are replaced, or removed where there are none of that
    name any more and no other owner has them.

    Args:
        folder: where to write.
        contents: path in the folder, with slashes -> content.
        owner: what they are written for, such as a class: a folder may hold files of several.
        last: paths to write when all else is there, since they name the other files.
        overwrite: replace files that this function did not write, or that were changed, too.

    Raises:
        FileExistsError: such a file is in the way, or a folder where a file belongs.
        NotADirectoryError: the folder, or one in it, is a file.
        OSError: the folder can't be written.
    """
    _check_folders(folder, contents)
    known = _read(folder)
    if not overwrite:
        _check_files(folder, contents, known)
    for path in contents:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        files.check_writable(target)
    earlier, new = known.get(owner, {}), {path: [_hash(content)] for path, content in contents.items()}
    # Old and new before the first file is written: a run that is interrupted must not lock the folder.
    both = {path: [*earlier.get(path, ()), *new.get(path, ())] for path in {**earlier, **new}}
    _write_list(folder, {**known, owner: both})
    for path in (*(path for path in contents if path not in last), *(p for p in last if p in contents)):
        files.write_whole(folder / path, contents[path])
    shared = {path for name, listed in known.items() if name != owner for path in listed}
    for path, hashes in earlier.items():
        target = folder / path
        if path not in {*new, *shared} and target.is_file() and _hash(target.read_bytes()) in hashes:
            target.unlink()
    _write_list(folder, {**known, owner: new})


def _check_folders(folder: Path, contents: Mapping[str, bytes]) -> None:
    wanted = {folder, *((folder / path).parent for path in contents)}
    for place in sorted({*wanted, *(parent for one in wanted for parent in one.parents)}):
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(
                f"A folder is to be written where a file lies: {str(place)!r}. Move it, or choose another "
                "folder."
            )
    for path in contents:
        if (folder / path).is_dir():
            raise FileExistsError(
                f"A file is to be written where a folder lies: {str(folder / path)!r}. Move it, or choose "
                "another folder."
            )


def _check_files(folder: Path, contents: Mapping[str, bytes], known: _Known) -> None:
    in_the_way = [
        path
        for path, content in contents.items()
        if (folder / path).exists()
        and _hash((folder / path).read_bytes())
        not in {_hash(content), *(found for listed in known.values() for found in listed.get(path, ()))}
    ]
    if in_the_way:
        listed = ", ".join(in_the_way[:5]) + (", ..." if len(in_the_way) > 5 else "")
        raise FileExistsError(
            f"{str(folder)!r} has files that were not generated, or were changed since: {listed}. Move them, "
            "choose another folder, or replace them with overwrite=True (--overwrite)."
        )


def _read(folder: Path) -> _Known:
    """Return what earlier runs put there, without what is no such list or leads out of the folder."""
    try:
        listed = json.loads((folder / LIST).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    root = folder.resolve()
    found: _Known = {}
    for owner, paths in listed.items() if isinstance(listed, dict) else ():
        for path, hashes in paths.items() if isinstance(paths, dict) else ():
            if isinstance(hashes, list) and root in (folder / path).resolve().parents:
                found.setdefault(owner, {})[path] = [text for text in hashes if isinstance(text, str)]
    return found


def _write_list(folder: Path, known: _Known) -> None:
    files.write_whole(folder / LIST, (json.dumps(known, indent=1) + "\n").encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
