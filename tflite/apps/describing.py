"""Reading what a program around a .tflite file must know of it: `describe`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import foreign
from keras_attention.tflite import golden
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import normalizations
from keras_attention.tflite.apps import tensors
from keras_attention.tflite.apps.description import Description
from keras_attention.tflite.apps.description import GoldenPair
from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.errors import ConversionError


def describe(path: str | Path, manifest: str | Path | None = None) -> Description:
    """Read a .tflite file and its manifest, in a child process, so that a damaged file harms nothing.

    Args:
        path: the .tflite file, of any origin.
        manifest: its .manifest.json. Defaults to the one beside the file, else the one in it.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: a file or the manifest is damaged, or they don't belong together.
    """
    path = Path(path)
    sought = manifests.look_for(path, manifest)
    job = {"task": "describe", **sought}
    found = foreign.run_job(path, job, "can't be described")
    try:
        return _description(path, found)
    except ValueError as error:
        raise ConversionError(f"{str(path)!r} can't be described. {error}") from error


def _description(path: Path, found: Mapping[str, Any]) -> Description:
    document = found["manifest"]
    entries = {} if document is None else dict(document["app"])
    remarks = list(found["remarks"])
    if document is not None:
        _check_first_signature(document, found["signatures"][0])
    inputs = found["signatures"][0]["inputs"]
    shapes = {spec["name"]: spec["shape"] for spec in inputs}
    scaling = normalizations.read(entries.get("preprocessing"), shapes)
    remarks += scaling.remarks
    signatures = []
    for number, signature in enumerate(found["signatures"]):
        said, scaled = (entries, scaling.by_input) if number == 0 else ({}, {})  # all is of the first one
        tasks = [spec["task"] for spec in document["outputs"]] if document and number == 0 else None
        limits, sigmoids = found["token_limits"][number], found["sigmoids"][number]
        signatures.append(
            Signature(
                signature["key"],
                tuple(
                    tensors.input_tensor(spec, index, said, scaled, limits[index])
                    for index, spec in enumerate(signature["inputs"])
                ),
                tuple(
                    tensors.output_tensor(spec, index, said, tasks[index] if tasks else None, sigmoids[index])
                    for index, spec in enumerate(signature["outputs"])
                ),
            )
        )
    remarks += [
        f"Which numbers a picture's 0 and 255 become in input {tensor.name!r} is not known, so apps can't "
        "fill it from pictures. Say it by 'pixel_range' in `convert(manifest=...)`, as in [0, 255] or [0, 1]."
        for signature in signatures
        for tensor in signature.inputs
        if tensor.kind == "image" and tensor.pixel_range is None
    ]
    pairs = () if document is None else _pairs(document)
    if document is None:
        remarks.append("The file has no manifest: its labels, preprocessing and right answers are not known.")
    elif not pairs:
        remarks.append(
            "The manifest holds no golden pairs, so answers can't be checked; the "
            f"{manifests.SUFFIX} that was written with the file has them."
        )
    return Description(
        path=path,
        size_bytes=found["size_bytes"],
        sha256=found["sha256"],
        precision=None if document is None else document["precision"],
        signatures=tuple(signatures),
        entries=entries,
        pairs=pairs,
        source=None if document is None else document["golden"]["source"],
        remarks=tuple(remarks),
    )


def _check_first_signature(document: Mapping[str, Any], signature: Mapping[str, Any]) -> None:
    for side in ("inputs", "outputs"):
        known = [{key: spec[key] for key in signature[side][0]} for spec in document[side]]
        if known != signature[side]:
            raise ValueError(
                f"The manifest is of another file. Its {side} are {known}, the file's {signature[side]}."
            )


def _pairs(document: Mapping[str, Any]) -> tuple[GoldenPair, ...]:
    """Decode the pairs, with the difference that docs/manifest.md allows over all of them."""
    sides: dict[str, list[list[np.ndarray]]] = {side: [] for side in golden.SIDES}
    for pair in document["golden"]["pairs"]:
        for side in golden.SIDES:
            specs = document["inputs" if side == "inputs" else "outputs"]
            sides[side].append(golden.decode_side(pair, side, specs, [spec["shape"] for spec in specs]))
    allowed = {}
    for index, spec in enumerate(document["outputs"] if sides["file"] else ()):
        stored, keras = (np.concatenate([row[index] for row in sides[side]]) for side in ("file", "keras"))
        allowed[spec["name"]] = golden.deviation(stored, stored, keras, spec)[1]
    inputs = [spec["name"] for spec in document["inputs"]]
    outputs = [spec["name"] for spec in document["outputs"]]
    return tuple(
        GoldenPair(
            sample=pair["sample"],
            inputs=dict(zip(inputs, given, strict=True)),
            outputs=dict(zip(outputs, answers, strict=True)),
            keras=dict(zip(outputs, keras, strict=True)),
            allowed=allowed,
        )
        for pair, given, answers, keras in zip(
            document["golden"]["pairs"], sides["inputs"], sides["file"], sides["keras"], strict=True
        )
    )
