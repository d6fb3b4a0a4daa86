"""LiteRT.js, the runtime of the page: one version, fetched once by npm and kept in the user's cache."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from keras_attention.tflite import files

NAME = "@litertjs/core"
VERSION = "2.5.3"
ARCHIVE = f"litertjs-core-{VERSION}.tgz"
INTEGRITY = "PlGmbMOq9WitX7FO0jhbdJw9GthatsyuCQXjTt/wJZo0FLaw48q4tz8IwqgqCIkviYGr9OFDL1kCnN4nzWoyJQ=="
"""SHA-512 of the archive, as the registry states it."""
MOST_SECONDS = 180
_SCRIPT = "package/wasm/litert_wasm_compat_internal.js"
_MODULE = "package/wasm/litert_wasm_compat_internal.wasm"


@dataclass(frozen=True)
class Runtime:
    """What the page needs of the runtime.

    Attributes:
        script: JavaScript that defines `ModuleFactory`.
        module: WebAssembly, the build without threads and without relaxed SIMD, whose arithmetic is the same
            on every processor.
    """

    script: bytes
    module: bytes


def read(archive: str | Path | None = None) -> Runtime:
    """Return the runtime from an archive, or from the cache, where npm puts it first.

    Args:
        archive: what `npm pack` wrote on another machine. Defaults to the one in the cache.

    Raises:
        FileNotFoundError: there is no such archive, or no npm.
        ValueError: the archive is not the pinned one.
        OSError: npm can't fetch it.
    """
    if archive is not None:
        path = Path(archive)
        if not path.is_file():
            raise FileNotFoundError(
                f"`runtime` must be the file that `npm pack {NAME}@{VERSION}` writes. "
                f"No such file: {str(path)!r}"
            )
        return _unpack(_checked(path))
    cached = cache_folder() / ARCHIVE
    if not cached.is_file():
        _fetch(cached)
    return _unpack(_checked(cached))


def cache_folder() -> Path:
    """Return the user's folder for what can be fetched again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "keras_attention"


def _fetch(cached: Path) -> None:
    npm = shutil.which("npm")
    by_hand = (
        f"or run `npm pack {NAME}@{VERSION}` on another machine and give the file that it writes as "
        "`runtime` (--runtime)"
    )
    if npm is None:
        raise FileNotFoundError(
            f"The page runs on LiteRT.js, which npm fetches, and there is no npm. Install Node.js, {by_hand}."
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", f"{NAME}@{VERSION}"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(
                f"npm did not fetch {NAME}@{VERSION} within {MOST_SECONDS} s. Try again, {by_hand}."
            ) from error
        packed = Path(folder) / ARCHIVE
        if done.returncode != 0 or not packed.is_file():
            lines = done.stderr.strip().splitlines() or ["it says nothing"]
            raise OSError(
                f"npm can't fetch {NAME}@{VERSION}: {lines[0]}. Check the network and npm's registry, "
                f"{by_hand}."
            )
        content = _checked(packed)
    cached.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(cached, content)


def _checked(path: Path) -> bytes:
    content = path.read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != INTEGRITY:
        raise ValueError(
            f"{str(path)!r} is not {NAME} {VERSION} as published: its SHA-512 differs. Remove it, and "
            f"fetch it again by `npm pack {NAME}@{VERSION}`."
        )
    return content


def _unpack(content: bytes) -> Runtime:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = []
        for name in (_SCRIPT, _MODULE):
            stream = archive.extractfile(name)
            if stream is None:
                raise ValueError(f"{name} in the archive of {NAME} {VERSION} is no file.")
            members.append(stream.read())
    return Runtime(*members)
