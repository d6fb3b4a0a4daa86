"""Files and folders of a process that may be killed: held while it lives, removed by the next one after it.

A killed process can't tidy up. So what it works on is locked, the system lets go of the lock however the
process ends, and whoever works in the same place later removes what nobody holds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "keras_attention."
_NOTHING = 2**20
"""Free bytes of a disk that is as good as full: less than any file that a conversion writes."""


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Give an empty temporary folder, removed at the end; first remove those of killed processes."""
    remove_abandoned(Path(tempfile.gettempdir()), _PREFIX)
    folder, descriptor = _new_folder()
    try:
        yield folder
    except OSError as error:
        if error.errno == errno.ENOSPC and is_full(folder):
            raise OSError(error.errno, full(folder)) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def is_full(folder: Path) -> bool:
    """Tell whether next to nothing can be written to a folder's disk any more."""
    return shutil.disk_usage(folder).free < _NOTHING


def full(folder: Path) -> str:
    """Say that the disk of a work folder is full, and the cure."""
    return (
        f"the folder for temporary files, {str(folder.parent)!r}, is full: free space there, or set TMPDIR "
        "to another one"
    )


def _new_folder() -> tuple[Path, int]:
    """Return a temporary folder held by this process, and the descriptor that holds it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process took it for abandoned
            continue
        if hold(descriptor, folder):
            return folder, descriptor
        os.close(descriptor)


def hold(descriptor: int, path: Path) -> bool:
    """Lock an open file or folder until its descriptor is closed, and tell whether it is still at `path`.

    Between its making and this call another process may have taken it for abandoned.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except (BlockingIOError, FileNotFoundError):  # being removed, or removed
        return False


def remove_abandoned(folder: Path, prefix: str, suffix: str = "") -> None:
    """Remove what has such a name in the folder, belongs to this user, and isn't held by a living process."""
    if sys.platform == "win32":  # no locks that end with the process: better a leftover than a loss
        return
    import fcntl

    for path in folder.glob(f"{prefix}*{suffix}"):
        with contextlib.suppress(OSError):  # in use, of another user, or removed by another process just now
            if path.lstat().st_uid != os.getuid() or path.is_symlink():
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
            finally:
                os.close(descriptor)
