"""What each input and output of a file is for: an image or tokens, classes or attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_attention.tflite import manifest_entries
from keras_attention.tflite import normalizations
from keras_attention.tflite.apps.description import Tensor

_TOKEN_TYPES = ("int32", "int64", "uint32")
_BYTES = (0.0, 255.0)
_BYTES_THEMSELVES = ((None, None), (1.0, 0))
"""Scale and zero point of bytes that stand for themselves."""


def input_tensor(
    spec: Mapping[str, Any],
    index: int,
    entries: Mapping[str, Any],
    scaled: Mapping[str, normalizations.Normalization],
    below: int | None,
) -> Tensor:
    """Return an input.

    Args:
        spec: the file's own facts.
        index: its place.
        entries: what the manifest says to apps, where it speaks of this signature.
        scaled: input name -> normalization.
        below: the limit of its numbers, where they choose rows of a table.
    """
    name, kind = spec["name"], _input_kind(spec, below)
    names, units = (entries.get(key, {}).get(name, ()) for key in ("features", "units"))
    pixels = None
    if kind == "image":
        ends = entries.get("pixel_range", {}).get(name)
        takes_bytes = spec["dtype"] == "uint8" and (spec["scale"], spec["zero_point"]) in _BYTES_THEMSELVES
        pixels = (float(ends[0]), float(ends[1])) if ends else _BYTES if takes_bytes else None
    return Tensor(
        **_stored(spec),
        index=index,
        task=None,
        names=tuple(names),
        units=tuple(units),
        kind=kind,
        normalization=scaled.get(name),
        pixel_range=pixels,
        below=below,
    )


def output_tensor(
    spec: Mapping[str, Any], index: int, entries: Mapping[str, Any], task: str | None, is_sigmoid: bool
) -> Tensor:
    """Return an output.

    Args:
        spec: the file's own facts.
        index: its place.
        entries: what the manifest says to apps, where it speaks of this signature.
        task: as the manifest says, None where it says none.
        is_sigmoid: whether a sigmoid makes it.
    """
    names = tuple(entries.get("labels", {}).get(spec["name"], ()))
    is_one_unit = spec["shape"][1:] in ([], [1]) and task != "labels"
    kind = "values"
    if spec["name"] in entries.get("attention", ()):
        kind = "attention"
    elif is_one_unit:
        # Its task is "regression" unless the user said otherwise, so the labels and the sigmoid tell more.
        if len(names) == 2 or (len(names) == 1 and is_sigmoid):
            kind = "classes"
            names = names if len(names) == 2 else (f"not {names[0]}", names[0])
    elif task == "labels" or (task == "classification" and (names or len(spec["shape"]) == 2)):
        kind = "classes"
    return Tensor(**_stored(spec), index=index, task=task, names=names, units=(), kind=kind)


def _stored(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: spec[key] for key in ("name", "dtype", "scale", "zero_point")} | {
        "shape": tuple(spec["shape"])
    }


def _input_kind(spec: Mapping[str, Any], below: int | None) -> str:
    shape = spec["shape"]
    if spec["dtype"] in _TOKEN_TYPES or below is not None:
        return "tokens" if len(shape) == 2 else "values"
    if spec["dtype"] == "bool":
        return "values"
    if manifest_entries.is_image(shape):
        return "image"
    return "window" if len(shape) == 3 else "values"
