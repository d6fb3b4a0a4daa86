"""The manifest: what a .tflite file says of itself, in its metadata and beside it. See docs/manifest.md.

Pure Python over the flatbuffer classes; imports neither Keras nor TensorFlow, and runs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest_entries

ENTRY = "keras_attention_manifest"
"""Name of the metadata entry in the file."""
FORMAT_VERSION = 1
SUFFIX = ".manifest.json"
SOURCES = ("evaluation", "calibration", "random")
_SMALLEST_LIMIT = 8_000
_LIMIT_SHARE = 0.05
_JSON_NAMES = {
    type(None): "null",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
_MOST_BYTES = 256_000_000
"""More than any manifest of ours holds; what is larger is not read."""


@dataclass(frozen=True)
class Sealed:
    """A .tflite file that holds its manifest.

    Attributes:
        content: bytes of the file.
        document: the manifest to lie beside it, with all golden pairs.
        remarks: what the user should know.
    """

    content: bytes
    document: dict[str, Any]
    remarks: tuple[str, ...]

    def sidecar(self) -> bytes:
        """Return the bytes of the .manifest.json file."""
        return (json.dumps(self.document, indent=1) + "\n").encode()


def sidecar_path(path: Path) -> Path:
    """Return where the manifest of a .tflite file lies: model.manifest.json beside model.tflite."""
    return path.with_suffix(SUFFIX)


def look_for(path: Path, manifest: str | Path | None) -> dict[str, Any]:
    """Return what a job must know to find a file's manifest: "manifest", a path or None, and "asked_for".

    Args:
        path: the .tflite file.
        manifest: the .manifest.json that the user named; else the one beside the file is meant.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a .tflite file. No such file: {str(path)!r}")
    if manifest is not None and not Path(manifest).is_file():
        raise FileNotFoundError(f"`manifest` must be a {SUFFIX} file. No such file: {str(manifest)!r}")
    beside = sidecar_path(path)
    chosen = Path(manifest) if manifest is not None else beside if beside.is_file() else None
    return {
        "manifest": None if chosen is None else str(chosen.resolve()),
        "asked_for": manifest is not None,
    }


def seal(
    content: bytes,
    entries: Mapping[str, Any],
    *,
    precision: str,
    packages: Mapping[str, str],
    tasks: Sequence[str],
    source: str,
    samples: Sequence[np.ndarray],
    keras_answers: Sequence[np.ndarray],
    file_answers: Sequence[np.ndarray],
) -> Sealed:
    """Put the manifest into a .tflite file's metadata. The same arguments give the same bytes.

    Args:
        content: the finished file.
        entries: what the app must know, as `manifest_entries.check_entries` returns it.
        precision: of the conversion.
        packages: package -> version.
        tasks: "classification", "regression" or "labels" per output.
        source: one of `SOURCES`: whose samples the golden pairs are.
        samples: one array per input, in the file's order, the first axis counting samples.
        keras_answers: Keras' answers to them, one array per output.
        file_answers: the file's answers.

    Raises:
        ValueError: the entries don't fit the file's inputs and outputs.
    """
    graph = graphs.read_graph(content)
    interface = graphs.interface(graph)
    for key, side in manifest_entries.SIDES.items():
        specs = interface[side]
        shapes = {spec["name"]: spec["shape"] for spec in specs}
        entries = manifest_entries.name_axes(entries, key, shapes, [spec["dtype"] for spec in specs])
    outputs = [{**spec, "task": task} for spec, task in zip(interface["outputs"], tasks, strict=True)]
    pairs = golden.make_pairs(interface, samples, keras_answers, file_answers)
    document = {
        "format": ENTRY,
        "format_version": FORMAT_VERSION,
        "precision": precision,
        "inputs": interface["inputs"],
        "outputs": outputs,
        "app": dict(entries),
        "packages": dict(packages),
    }
    embedded = golden.fitting(pairs, max(_SMALLEST_LIMIT, int(_LIMIT_SHARE * len(content))))
    inside = {**document, "golden": {"source": source, "pairs": embedded}}
    graphs.set_metadata(graph, ENTRY, json.dumps(inside, separators=(",", ":")).encode())
    sealed = graphs.write_graph(graph)
    file = {"sha256": hashlib.sha256(sealed).hexdigest(), "size_bytes": len(sealed)}
    remarks = (
        ()
        if embedded
        else (
            f"A golden pair takes more than {_LIMIT_SHARE:.0%} of the file, so the file holds none: keep the "
            f"{SUFFIX} that lies beside it, which `verify` needs.",
        )
    )
    return Sealed(sealed, {**document, "file": file, "golden": {"source": source, "pairs": pairs}}, remarks)


def read_embedded(graph: Any) -> dict[str, Any] | None:
    """Return the manifest of a flatbuffer object, None where it has none.

    Raises:
        ValueError: there is one, and it is damaged.
    """
    data = graphs.metadata(graph, ENTRY)
    return None if data is None else parse(data, "The manifest in the file")


def read_nearest(
    graph: Any, sha256: str, job: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str, list[str]]:
    """Return the manifest beside a file, else the one in it; where it is from; and remarks.

    The one beside it has all golden pairs.

    Args:
        graph: the file.
        sha256: of its bytes.
        job: with what `look_for` returned.

    Raises:
        ValueError: a manifest is damaged, or the one that was asked for was written for another file.
    """
    remarks: list[str] = []
    if job["manifest"] is not None:
        path = Path(job["manifest"])
        document = read_sidecar(path)
        if belongs(document, sha256):
            return document, str(path), remarks
        if job["asked_for"]:
            raise ValueError(
                f"The manifest {path.name!r} was written for another file than this one (sha256 differs). "
                "Name the one that was written with it, or leave it out."
            )
        remarks.append(f"{path.name!r} belongs to another file (sha256 differs) and was ignored.")
    return read_embedded(graph), "the file", remarks


def belongs(document: Mapping[str, Any], sha256: str) -> bool:
    """Whether a manifest was written for the file with this digest."""
    return bool(document.get("file", {}).get("sha256") == sha256)


def read_sidecar(path: Path) -> dict[str, Any]:
    """Return the manifest of a .manifest.json file.

    Raises:
        ValueError: it can't be read, or is damaged.
    """
    where = f"The manifest {path.name!r}"
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{where} can't be read: {error.strerror}") from error
    return parse(data, where)


def parse(data: bytes, where: str) -> dict[str, Any]:
    """Return the manifest in these bytes, every entry of the right type; arrays stay encoded.

    Raises:
        ValueError: it is no manifest; `where` names it.
    """
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{where} has more than {_MOST_BYTES:,} bytes, as no manifest of a model has.")
    try:
        document = json.loads(data, parse_constant=_refuse)
        _check_document(document)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"entry {error} is missing" if isinstance(error, KeyError) else str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = "it is no text"
        raise ValueError(
            f"{where} is damaged, or not one of keras_attention.tflite: {reason}. Convert the model again."
        ) from error
    return dict(document)


def rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the manifest as rows for the terminal: what it is, and its text without control characters."""
    pairs = document["golden"]["pairs"]
    found = [("precision", document["precision"])]
    for key, value in document["app"].items():
        found.append((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    found.append(("golden pairs", f"{len(pairs)}, of {document['golden']['source']} samples"))
    found.append(
        ("made with", ", ".join(f"{name} {number}" for name, number in document["packages"].items()))
    )
    return [(key, printable(text)) for key, text in found]


def printable(text: str) -> str:
    """Return the text with "?" for what a terminal would take as a command."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _refuse(name: str) -> None:
    raise ValueError(f"it holds {name}")


def _expect(value: Any, kinds: type | tuple[type, ...], where: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{where} has the wrong type, {_JSON_NAMES[type(value)]}")
    return value


def _check_document(document: Any) -> None:
    """Raise `KeyError`, `TypeError` or `ValueError` unless every entry is what docs/manifest.md says."""
    _expect(document, dict, "it")
    if document["format"] != ENTRY:
        raise ValueError(f"'format' must be {ENTRY!r}")
    version = _expect(document["format_version"], int, "'format_version'")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"'format_version' must be {FORMAT_VERSION}, received {version}; a newer package may know it"
        )
    _expect(document["precision"], str, "'precision'")
    for side in ("inputs", "outputs"):
        for spec in _expect(document[side], list, f"'{side}'"):
            _check_spec(_expect(spec, dict, f"'{side}'"), side)
    manifest_entries.check_entries(_expect(document["app"], dict, "'app'"))
    for package in _expect(document["packages"], dict, "'packages'").values():
        _expect(package, str, "'packages'")
    if "file" in document:
        _expect(_expect(document["file"], dict, "'file'")["sha256"], str, "'sha256'")
    pairs = _expect(document["golden"], dict, "'golden'")
    if pairs["source"] not in SOURCES:
        raise ValueError(f"'source' must be one of {SOURCES}")
    for pair in _expect(pairs["pairs"], list, "'pairs'"):
        _check_pair(_expect(pair, dict, "'pairs'"))


def _check_spec(spec: dict[str, Any], side: str) -> None:
    for key in ("name", "dtype"):
        _expect(spec[key], str, f"'{side}', '{key}'")
    for size in _expect(spec["shape"], list, f"'{side}', 'shape'"):
        _expect(size, int, f"'{side}', 'shape'")
    _expect(spec["scale"], (float, int, type(None)), f"'{side}', 'scale'")
    _expect(spec["zero_point"], (int, type(None)), f"'{side}', 'zero_point'")
    if side == "outputs" and spec["task"] not in ("classification", "regression", "labels"):
        raise ValueError("'task' must be classification, regression or labels")


def _check_pair(pair: dict[str, Any]) -> None:
    _expect(pair["sample"], int, "'sample'")
    for side in golden.SIDES:
        for array in _expect(pair[side], dict, f"'{side}'").values():
            _expect(array, dict, f"'{side}'")
            _expect(array["dtype"], str, "'dtype'")
            _expect(array["data"], str, "'data'")
            for size in _expect(array["shape"], list, "'shape'"):
                _expect(size, int, "'shape'")
