"""What a program around a .tflite file must know of it: `describe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import foreign
from keras_attention.tflite import golden
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import manifest_entries
from keras_attention.tflite import normalizations
from keras_attention.tflite.errors import ConversionError

_TOKEN_TYPES = ("int32", "int64", "uint32")
_BYTES = (0.0, 255.0)
_BYTES_THEMSELVES = ((None, None), (1.0, 0))
"""Scale and zero point of bytes that stand for themselves."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a file.

    Attributes:
        name: as in the signature.
        index: place among the signature's inputs or outputs.
        dtype: such as "float32" or "int8".
        shape: with the batch axis.
        scale: real value = scale * (stored - zero_point); None where not quantized.
        zero_point: the same.
        task: of an output: "classification", "regression" or "labels"; None where the file doesn't say.
        names: of the last axis' entries: features of an input, labels of an output; may be empty. One unit
            that decides between two classes has two, the first for below 0.5.
        units: of the features, such as "g" or "rad/s"; may be empty.
        kind: an input is an "image", a "window", "tokens" or other "values"; an output "classes" (scores of
            classes, or the class number), "attention" or other "values".
        normalization: what the app does to raw values before this input; None where nothing.
        pixel_range: of an image: what an 8-bit picture's 0 and 255 become, before the normalization; None
            where nobody says so, and for other inputs.
        below: of an input whose numbers choose rows of a table, as tokens do: 0 <= number < below; None where
            the graph doesn't show it, and for outputs.
    """

    name: str
    index: int
    dtype: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None
    task: str | None
    names: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    normalization: normalizations.Normalization | None = None
    pixel_range: tuple[float, float] | None = None
    below: int | None = None


@dataclass(frozen=True)
class Signature:
    """One way to call a file.

    Attributes:
        key: its name, such as "serve"; empty where the file has none.
        inputs: in the file's order.
        outputs: the same.
    """

    key: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class GoldenPair:
    """An input of the first signature with the answers to it.

    Attributes:
        sample: its number among the samples.
        inputs: input name -> stored values, batch axis included.
        outputs: output name -> the file's answer, in stored values.
        keras: output name -> Keras' answer, real values.
        allowed: output name -> by how much an answer of another processor may differ, in stored values.
    """

    sample: int
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    keras: dict[str, np.ndarray]
    allowed: dict[str, float]


@dataclass(frozen=True)
class Description:
    """A .tflite file as a program around it needs it.

    Attributes:
        path: the file.
        size_bytes: its size.
        sha256: of its bytes, hexadecimal.
        precision: as given to `convert`; None for a file without manifest.
        signatures: at least one.
        entries: what the manifest says to the app; empty without.
        pairs: golden pairs; may be none.
        source: whose samples they are: "evaluation", "calibration", or "random"; None without a manifest.
        remarks: what the user should know, one sentence each.
    """

    path: Path
    size_bytes: int
    sha256: str
    precision: str | None
    signatures: tuple[Signature, ...]
    entries: dict[str, Any]
    pairs: tuple[GoldenPair, ...]
    source: str | None
    remarks: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Name of the file, without folders."""
        return self.path.name

    @property
    def sampling_rate_hz(self) -> float | None:
        """Samples per second of a window, where the manifest says so."""
        return self.entries.get("sampling_rate_hz")

    @property
    def window_length(self) -> int | None:
        """Samples per window, where the manifest says so."""
        return self.entries.get("window_length")


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
                    _input(spec, index, said, scaled, limits[index])
                    for index, spec in enumerate(signature["inputs"])
                ),
                tuple(
                    _output(spec, index, said, tasks[index] if tasks else None, sigmoids[index])
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


def _input(
    spec: Mapping[str, Any],
    index: int,
    entries: Mapping[str, Any],
    scaled: Mapping[str, normalizations.Normalization],
    below: int | None,
) -> Tensor:
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


def _output(
    spec: Mapping[str, Any], index: int, entries: Mapping[str, Any], task: str | None, is_sigmoid: bool
) -> Tensor:
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
