"""The test bed: a folder with an arm64 Python, LiteRT and the instruction counter."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from keras_attention.tflite.errors import ConversionError

EMULATOR = "qemu-aarch64"
DESCRIPTION = "bed.json"
ROOT = "root"
SITE = "usr/lib/python3/dist-packages"
"""Where the arm64 wheels lie under the root."""
COUNTER = "counter.so"
RUNTIME = "ai-edge-litert"
FORMAT = 1
SETUP = "keras-attention arm64 --setup"
NO_EMULATOR = (
    f"{EMULATOR} is missing: `apt-get install qemu-user` (not qemu-user-static, which takes no plugins)."
)


@dataclass(frozen=True)
class Bed:
    """A test bed that was made.

    Attributes:
        folder: where it is.
        python: its interpreter, relative to the root.
        packages: package -> version of the wheels in it.
        counter: why instructions can't be counted, "" where they can.
    """

    folder: Path
    python: str
    packages: dict[str, str]
    counter: str

    @property
    def root(self) -> Path:
        """The arm64 file system."""
        return self.folder / ROOT

    def is_current(self) -> bool:
        """Whether it holds the runtime of this environment."""
        return self.packages[RUNTIME] == importlib.metadata.version(RUNTIME)


def default_folder() -> Path:
    """Return where the bed lies unless the user says otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "keras_attention" / "arm64"


def read(folder: Path) -> Bed | None:
    """Return the bed in a folder, None where there is none of this format."""
    try:
        described = json.loads((folder / DESCRIPTION).read_text())
        if described["format"] != FORMAT:
            return None
        return Bed(folder, described["python"], dict(described["packages"]), described["counter"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def require(folder: Path) -> Bed:
    """Return the bed in a folder, ready to be used.

    Raises:
        ConversionError: there is none, it holds another runtime, or QEMU is missing; with the cure.
    """
    made = read(folder)
    option = "" if folder == default_folder() else f" --bed {str(folder)!r}"
    if made is None:
        raise ConversionError(
            f"There is no arm64 test bed at {str(folder)!r}. Make it once: `{SETUP}{option}`."
        )
    if shutil.which(EMULATOR) is None:
        raise ConversionError(NO_EMULATOR)
    if not made.is_current():
        raise ConversionError(
            f"The arm64 test bed at {str(folder)!r} holds {RUNTIME} {made.packages[RUNTIME]}, and this "
            f"environment {importlib.metadata.version(RUNTIME)}. Make it anew: `{SETUP}{option}`."
        )
    return made
