"""What the app must know of a model, as `convert(manifest=...)` takes it: checked, and made plain JSON."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.tflite import normalizations

NAMES = ("labels", "features", "units")
MAPS = "attention"
PIXELS = "pixel_range"
SCALING = "preprocessing"
SIDES = {
    "features": "inputs",
    "units": "inputs",
    "labels": "outputs",
    MAPS: "outputs",
    PIXELS: "inputs",
    SCALING: "inputs",
}
"""Of which tensors an entry speaks."""
IMAGE_CHANNELS = (1, 3, 4)
TEXTS = ("description", "author", "license", "version")
ALLOWED = (*NAMES, MAPS, "sampling_rate_hz", "window_length", PIXELS, SCALING, *TEXTS)
_DEEPEST = 32
"""Nesting of free JSON beyond which it is taken for a loop; readers give up not far behind."""
_LARGEST = 2**63


def check_entries(manifest: Any) -> dict[str, Any]:
    """Return the user's entries as plain JSON values, in the order of `ALLOWED`.

    Raises:
        TypeError, ValueError: naming the key, what is allowed, what was received, and the cure.
    """
    if manifest is None:
        return {}
    if not isinstance(manifest, Mapping):
        raise TypeError(
            "`manifest` must map keys to what the app must know, as in {'labels': ['walk', 'run']}. "
            f"Received: {manifest!r}"
        )
    for key in manifest:
        if key not in ALLOWED:
            near = difflib.get_close_matches(str(key), ALLOWED, 1)
            hint = f"Rename it to {near[0]!r}" if near else "Put values of your own into 'preprocessing'"
            raise ValueError(
                f"`manifest` has a key that is none of {ALLOWED}. Received: {key!r}. {hint}, or leave it out."
            )
    return {key: _check(key, manifest[key]) for key in ALLOWED if key in manifest}


def name_axes(
    entries: Mapping[str, Any], key: str, tensors: Mapping[str, Sequence[int | None]], kinds: Sequence[str]
) -> dict[str, Any]:
    """Return the entries with the lists of `key` by tensor name, after comparing them with the tensors.

    "attention" stays a list of names, and "preprocessing" as it is.

    Args:
        entries: as `check_entries` returns them.
        key: one of `SIDES`, which says whether the tensors are inputs or outputs.
        tensors: name -> shape with the batch axis, in order; None where a size is still open.
        kinds: the types of the tensors, such as "float32".

    Raises:
        ValueError: a name, a number of names or a normalization doesn't fit the model.
    """
    if key not in entries:
        return dict(entries)
    if key == MAPS:
        return _check_maps(entries, list(tensors))
    if key == PIXELS:
        return {**entries, PIXELS: _name_pixels(entries[PIXELS], tensors)}
    if key == SCALING:
        normalizations.read(entries[SCALING], tensors)
        return dict(entries)
    what = "output" if key == "labels" else "input"
    value = entries[key]
    if not isinstance(value, Mapping):
        if len(tensors) != 1:
            raise ValueError(
                f"`manifest`[{key!r}] must map names to lists, since the model has the {what}s "
                f"{list(tensors)}. Received: a list. Pass {{{next(iter(tensors))!r}: [...]}}."
            )
        value = {next(iter(tensors)): value}
    dtypes = dict(zip(tensors, kinds, strict=True))
    for name, names in value.items():
        if name not in tensors:
            raise ValueError(
                f"`manifest`[{key!r}] names no {what} of the model. Allowed: {list(tensors)}. "
                f"Received: {name!r}"
            )
        allowed = _allowed_counts(key, tensors[name], dtypes[name])
        if allowed and len(names) not in allowed:
            raise ValueError(
                f"`manifest`[{key!r}] must hold {' or '.join(map(str, allowed))} names for {what} {name!r} "
                f"of shape {tuple(tensors[name])}, one per entry of the last axis. "
                f"Received: {len(names)} names. Give them in the order of training."
            )
    return {**entries, key: value}


def _check_maps(entries: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    unknown = [name for name in entries[MAPS] if name not in outputs]
    if unknown:
        raise ValueError(
            f"`manifest`[{MAPS!r}] must list outputs of the model that are attention. Allowed: {outputs}. "
            f"Received: {unknown[0]!r}"
        )
    return dict(entries)


def _name_pixels(value: Any, tensors: Mapping[str, Sequence[int | None]]) -> dict[str, Any]:
    images = [name for name, shape in tensors.items() if is_image(shape)]
    if not isinstance(value, Mapping):
        if len(images) != 1:
            raise ValueError(
                f"`manifest`[{PIXELS!r}] must map names to ranges, as in {{'NAME': [0, 255]}}, unless "
                "there is one image among the inputs, of shape (batch, height, width, channels). "
                f"Images: {images}. Received: {value!r}"
            )
        return {images[0]: value}
    for name in value:
        if name not in images:
            raise ValueError(
                f"`manifest`[{PIXELS!r}] must name inputs that are images, of shape (batch, height, width, "
                f"channels) with {', '.join(map(str, IMAGE_CHANNELS))} channels. Allowed: {images}. "
                f"Received: {name!r}"
            )
    return dict(value)


def is_image(shape: Sequence[int | None]) -> bool:
    """Tell whether a shape, with the batch axis, is that of images."""
    return len(shape) == 4 and shape[-1] in (None, *IMAGE_CHANNELS)


def _allowed_counts(key: str, shape: Sequence[int | None], dtype: str) -> tuple[int, ...]:
    """Return how many names may go with a tensor; none where anything may."""
    size = shape[-1] if len(shape) >= 2 else 1
    if key != "labels":
        return () if size is None else (size,)
    if size is None or dtype.startswith(("int32", "int64", "uint32", "bool")):
        return ()  # the output is the class number itself
    return (1, 2) if size == 1 else (size,)  # one unit decides between two classes


def _check(key: str, value: Any) -> Any:
    plain = to_json(value, f"`manifest`[{key!r}]")
    if key in NAMES:
        return _check_names(key, plain)
    if key == MAPS and not (
        isinstance(plain, list) and plain and all(isinstance(name, str) and name for name in plain)
    ):
        raise TypeError(
            f"`manifest`[{key!r}] must be a list of output names, as in ['scores']. Received: {value!r}"
        )
    if key == PIXELS:
        return _check_pixels(plain)
    if key in TEXTS and not (isinstance(plain, str) and plain.strip()):
        raise TypeError(f"`manifest`[{key!r}] must be a text that is not empty. Received: {value!r}")
    if key == "sampling_rate_hz" and not (_is_number(plain) and plain > 0):
        raise TypeError(
            f"`manifest`[{key!r}] must be a number above 0, samples per second. Received: {value!r}"
        )
    if key == "window_length" and not (_is_number(plain) and isinstance(plain, int) and plain > 0):
        raise TypeError(
            f"`manifest`[{key!r}] must be an integer above 0, samples per window. Received: {value!r}"
        )
    return plain


def _check_names(key: str, value: Any) -> Any:
    what = "an output" if key == "labels" else "an input"
    lists = list(value.values()) if isinstance(value, dict) else [value]
    fits = bool(lists) and all(
        isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
        for names in lists
    )
    if not fits:
        raise TypeError(
            f"`manifest`[{key!r}] must be a list of texts, or map the name of {what} to such a list. "
            f"Received: {value!r}. Numbers become texts by [str(n) for n in ...]."
        )
    return value


def _check_pixels(value: Any) -> Any:
    ranges = list(value.values()) if isinstance(value, dict) else [value]
    fits = bool(ranges) and all(
        isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)) and ends[0] != ends[1]
        for ends in ranges
    )
    if not fits:
        raise TypeError(
            f"`manifest`[{PIXELS!r}] must be what an 8-bit picture's 0 and 255 become, two numbers that "
            f"differ, as in [0, 1], or map the name of an input to them. Received: {value!r}"
        )
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_json(value: Any, where: str, depth: int = 0) -> Any:
    """Return a value as JSON knows it: NumPy scalars and arrays become numbers and lists.

    Raises:
        TypeError, ValueError: JSON has no such value; `where` says in which place.
    """
    if depth > _DEEPEST:
        raise ValueError(
            f"{where} must be nested no deeper than {_DEEPEST} levels. Is it part of itself? Flatten it."
        )
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise ValueError(
                f"{where} must fit into 64 bits. Received: an integer beyond. Pass a float or text."
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be finite, since JSON has no {value}. Repair it, or pass None.")
        return float(value)
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"{where} must have texts as keys. Received: {wrong[0]!r}. Pass str(key).")
        return {str(key): to_json(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise TypeError(
        f"{where} must be JSON: texts, numbers, booleans, None, lists and dicts of them, or NumPy arrays. "
        f"Received: {type(value).__name__}. Convert it first."
    )
