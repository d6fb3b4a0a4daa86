"""What a program around a .tflite file must know of it: `describe`."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import foreign
from keras_attention.tflite import golden
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.apps import normalizations
from keras_attention.tflite.errors import ConversionError

_TOKEN_TYPES = ("int32", "int64", "uint32")
_IMAGE_CHANNELS = (1, 3, 4)


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
        names: of the last axis' entries: features of an input, labels of an output; may be empty.
        units: of the features, such as "g" or "rad/s"; may be empty.
        kind: an input is an "image", a "window", "tokens" or other "values"; an output "classes" (scores of
            classes, or the class number), "attention" or other "values".
        normalization: what the app does to raw values before this input; None where nothing.
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
    normalization: normalizations.Normalization | None


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
        remarks: what the user should know, one sentence each.
    """

    path: Path
    size_bytes: int
    sha256: str
    precision: str | None
    signatures: tuple[Signature, ...]
    entries: dict[str, Any]
    pairs: tuple[GoldenPair, ...]
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
        signatures.append(
            Signature(
                signature["key"],
                tuple(_input(spec, index, said, scaled) for index, spec in enumerate(signature["inputs"])),
                tuple(
                    _output(spec, index, said, tasks[index] if tasks else None)
                    for index, spec in enumerate(signature["outputs"])
                ),
            )
        )
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
) -> Tensor:
    names, units = (entries.get(key, {}).get(spec["name"], ()) for key in ("features", "units"))
    return _tensor(spec, index, names, units, _input_kind(spec), None, scaled.get(spec["name"]))


def _output(spec: Mapping[str, Any], index: int, entries: Mapping[str, Any], task: str | None) -> Tensor:
    names = entries.get("labels", {}).get(spec["name"], ())
    kind = "values"
    if spec["name"] in entries.get("attention", ()):
        kind = "attention"
    elif names or task == "labels" or (task == "classification" and len(spec["shape"]) == 2):
        kind = "classes"
    return _tensor(spec, index, names, (), kind, task, None)


def _tensor(
    spec: Mapping[str, Any],
    index: int,
    names: Sequence[str],
    units: Sequence[str],
    kind: str,
    task: str | None,
    normalization: normalizations.Normalization | None,
) -> Tensor:
    return Tensor(
        name=spec["name"],
        index=index,
        dtype=spec["dtype"],
        shape=tuple(spec["shape"]),
        scale=spec["scale"],
        zero_point=spec["zero_point"],
        task=task,
        names=tuple(names),
        units=tuple(units),
        kind=kind,
        normalization=normalization,
    )


def _input_kind(spec: Mapping[str, Any]) -> str:
    shape = spec["shape"]
    if spec["dtype"] in _TOKEN_TYPES:
        return "tokens" if len(shape) == 2 else "values"
    if spec["dtype"] == "bool":
        return "values"
    if len(shape) == 4 and shape[-1] in _IMAGE_CHANNELS:
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
