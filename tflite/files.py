"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from keras_attention.tflite import leftovers

_LONGEST_NAME = 255
_PREFIX = ".keras_attention."
_SUFFIX = ".part"


def check_writable(path: Path) -> None:
    """Raise now if `path` could not be written later, by trying in its folder.

    Raises:
        FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError: with the path.
    """
    path = path.resolve()
    folder = path.parent
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be a file to write. Received the folder: {str(path)!r}")
    _refuse_devices(path)
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise OSError(f"The name of `path` has more than {_LONGEST_NAME} bytes. Received: {path.name!r}")
    if not folder.exists():
        raise FileNotFoundError(
            f"The folder of `path` doesn't exist; create it first. Received: {str(path)!r}"
        )
    if not folder.is_dir():
        raise NotADirectoryError(f"The folder of `path` is a file. Received: {str(path)!r}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(
            f"The folder of `path` can't be written ({error.strerror}). Received: {str(path)!r}"
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write the bytes to a file beside `path` and move it there, so that no half file is ever seen.

    A symbolic link is followed: the file that it leads to is replaced. What a process left there that was
    killed while it wrote is removed.

    Raises:
        FileExistsError: there is a device, a pipe or a folder of this name, which a file must not replace.
    """
    path = path.resolve()
    _refuse_devices(path)
    leftovers.remove_abandoned(path.parent, _PREFIX, _SUFFIX)
    handle, part = _new_part(path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            part.chmod(_mode(path))
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _refuse_devices(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise FileExistsError(f"`path` is a device, a pipe or a folder, not a file. Received: {str(path)!r}")


def _new_part(folder: Path) -> tuple[int, Path]:
    """Return an open file with a hidden name, held by this process, and its path."""
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=_PREFIX, suffix=_SUFFIX)
        if leftovers.hold(handle, Path(name)):
            return handle, Path(name)
        os.close(handle)


def _mode(path: Path) -> int:
    """Return the access rights that the file has, or that a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
