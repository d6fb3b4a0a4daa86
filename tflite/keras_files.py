"""Looking through a .keras or .h5 file before Keras reads it, in a child process: see `loading.load_model`.

HDF5's native code can end its process on damaged files, also where the zip's checksums are right.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from pathlib import PurePosixPath
from typing import Any

import h5py

CONFIG = "config.json"
WEIGHTS = ("model.weights.h5", "model.weights.npz")
_SIZES = ("units", "filters", "input_dim", "output_dim", "key_dim", "value_dim", "num_heads", "head_dim")
"""Arguments that each give their layer at least so many weights."""
_SMALL = 100_000
"""A layer of your own may have such an argument and no weights."""
_BOMB_BYTES = 64_000_000
_BOMB_RATIO = 200
"""A part that is both larger and packed tighter than so is no weights of a trained model."""
_CHUNK = 1 << 20


def check(path: Path) -> None:
    """Read everything in the file once.

    Raises:
        ValueError: a part is missing, damaged, or claims what can't be; the message says which.
    """
    try:
        _check(path)
    except ValueError as error:
        raise ValueError(f"{error}. Save the model again with model.save(...).") from error


def _check(path: Path) -> None:
    if path.suffix != ".keras":
        _check_hdf5(path, path.stat().st_size, "the file")
        return
    try:
        with zipfile.ZipFile(path) as archive:
            _check_parts(archive)
            config = archive.read(CONFIG)
            weights = next(name for name in WEIGHTS if name in archive.namelist())
            content = archive.read(weights)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"its zip archive is damaged ({error})") from error
    stored = _check_hdf5(io.BytesIO(content), len(content), repr(weights)) if weights == WEIGHTS[0] else None
    _check_config(config, stored)


def _check_parts(archive: zipfile.ZipFile) -> None:
    names = archive.namelist()
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ValueError(f"the part {double!r} is in it twice")
    for missing in (CONFIG, "metadata.json"):
        if missing not in names:
            raise ValueError(f"the part {missing!r} is missing")
    if not any(name in names for name in WEIGHTS):
        raise ValueError(f"the weights are missing ({WEIGHTS[0]!r})")
    for part in archive.infolist():
        where = PurePosixPath(part.filename)
        if where.is_absolute() or ".." in where.parts or "\\" in part.filename:
            raise ValueError(f"the part {part.filename!r} would be unpacked outside its folder")
        if part.file_size > max(_BOMB_BYTES, _BOMB_RATIO * part.compress_size):
            raise ValueError(f"the part {part.filename!r} unpacks to {part.file_size:,} bytes, a zip bomb")
        with archive.open(part) as stream:
            try:
                while stream.read(_CHUNK):
                    pass
            except zipfile.BadZipFile as error:
                raise ValueError(f"the checksum of {part.filename!r} inside doesn't fit") from error


def _check_hdf5(source: Any, size: int, where: str) -> int:
    """Read all arrays and return how many values they hold."""
    try:
        with h5py.File(source, "r") as file:
            return _read_all(file, size, where)
    except (OSError, RuntimeError, KeyError) as error:  # as HDF5 words it
        raise ValueError(f"{where}, its weights in HDF5, is damaged ({error})") from error
    except (UnicodeDecodeError, TypeError, AttributeError) as error:  # h5py's own, on what HDF5 let through
        raise ValueError(f"{where}, its weights in HDF5, is damaged in its names or types") from error


def _read_all(file: h5py.File, size: int, where: str) -> int:
    values = claimed = 0
    for name, dataset in _datasets(file, where):
        if dataset.external or dataset.is_virtual:
            raise ValueError(f"{where}: the array {name!r} lies in another file")
        claimed += dataset.size * dataset.dtype.itemsize
        if claimed > max(_BOMB_BYTES, _BOMB_RATIO * size):
            raise ValueError(f"{where}: its arrays claim {claimed:,} bytes, far more than the file has")
        values += dataset.size
        dataset[()]
        dict(dataset.attrs)
    return values


def _datasets(group: h5py.Group, where: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield the arrays below a group, each once; refuse links that lead out of the file."""
    waiting = [group]
    seen = set()
    while waiting:
        parent = waiting.pop()
        dict(parent.attrs)
        for name in parent:
            if not isinstance(parent.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{where}: {name!r} is a link, which may lead to another file")
            item = parent[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.Group):
                waiting.append(item)
            elif isinstance(item, h5py.Dataset):
                yield item.name, item


def _check_config(content: bytes, stored: int | None) -> None:
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the part {CONFIG!r} is no JSON") from error
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
        raise ValueError(f"the part {CONFIG!r} describes no model")
    if stored is None:
        return
    for layer in _layers(config):
        arguments = layer["config"]
        for key in _SIZES:
            size = arguments.get(key, 0)
            if isinstance(size, int | float) and not size <= max(stored, _SMALL):  # NaN neither
                raise ValueError(
                    f"layer {arguments.get('name')!r} is to have the size {key}={size:,}, with {stored:,} "
                    "numbers stored in the whole file"
                )


def _layers(config: Any) -> Iterator[dict[str, Any]]:
    """Yield each {"class_name", "config"} in a configuration, however deep."""
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("config"), dict):
                yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
