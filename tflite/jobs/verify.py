"""Child job "verify": a file's golden pairs, answered again by the runtime of this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import file_structure
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime

_REPLAYABLE = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Replay the golden pairs of the file that the job names."""
    del folder
    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    interface = graphs.interface(graph)
    document, origin, remarks, faults = choose_manifest(graph, hashlib.sha256(content).hexdigest(), job)
    check_interface(document, interface)
    emit("replay", 0, 0)
    try:
        outputs = _replay(content, document, job["threads"], emit)
    except RuntimeError as error:
        raise ValueError(
            f"The runtime can't run the file, which is damaged or needs another: {error}"
        ) from error
    faults += [
        f"output {output['name']!r} answers {output['difference']:.3g} away from the stored answers, where "
        f"{output['allowed']:.3g} is allowed"
        for output in outputs
        if not output["difference"] <= output["allowed"]
    ]
    return {
        "origin": origin,
        "source": document["golden"]["source"],
        "pairs": len(document["golden"]["pairs"]),
        "outputs": outputs,
        "faults": faults,
        "remarks": remarks,
    }


def choose_manifest(
    graph: Any, sha256: str, job: dict[str, Any]
) -> tuple[dict[str, Any], str, list[str], list[str]]:
    """Return the manifest to replay, where it comes from, remarks and faults."""
    if job["asked_for"]:  # the user wants these pairs, whatever file they were written for
        path = Path(job["manifest"])
        named = manifests.read_sidecar(path)
        if not manifests.belongs(named, sha256):
            fault = f"the manifest {path.name!r} was written for another file than this one (sha256 differs)"
            return _with_pairs(named), str(path), [], [fault]
    document, origin, remarks = manifests.read_nearest(graph, sha256, job)
    if document is None:
        raise ValueError(
            f"The file holds no manifest ({manifests.ENTRY!r}), so there is nothing to replay. Convert "
            "the model with keras_attention.tflite.convert, which writes one, or name it: --manifest FILE."
        )
    return _with_pairs(document), origin, remarks, []


def _with_pairs(document: dict[str, Any]) -> dict[str, Any]:
    if not document["golden"]["pairs"]:
        raise ValueError(
            "The manifest holds no golden pairs, which were too large for the file. Put the "
            f"{manifests.SUFFIX} that was written with the file beside it, or name it: --manifest FILE."
        )
    return document


def check_interface(document: dict[str, Any], interface: dict[str, list[dict[str, Any]]]) -> None:
    """Raise `ValueError` unless the manifest speaks of the inputs and outputs that the file has."""
    for side, specs in interface.items():
        known = [
            {key: spec[key] for key in ("name", "dtype", "shape", "scale", "zero_point")}
            for spec in document[side]
        ]
        if known != specs:
            raise ValueError(f"The manifest is of another file. Its {side} are {known}, the file's {specs}.")
        odd = [spec["dtype"] for spec in specs if spec["dtype"] not in _REPLAYABLE]
        if odd:
            raise ValueError(f"The file has {side} of type {odd[0]!r}, which can't be replayed.")


def _replay(
    content: bytes, document: dict[str, Any], threads: int, emit: Callable[[str, int, int], None]
) -> list[dict[str, Any]]:
    """Return name, difference, allowed, agreement and sqnr_db of each output over all pairs."""
    interpreter = runtime.load_interpreter(content, num_threads=threads)
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    shapes = [detail["shape"].tolist() for detail in inputs]
    pairs = document["golden"]["pairs"]
    sides: dict[str, list[list[np.ndarray]]] = {"answers": [], "file": [], "keras": []}
    for number, pair in enumerate(pairs):
        arrays = golden.decode_side(pair, "inputs", document["inputs"], shapes)
        for detail, values in zip(inputs, arrays, strict=True):
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        answers = [interpreter.get_tensor(detail["index"]) for detail in outputs]
        sides["answers"].append(answers)
        for side in ("file", "keras"):  # what the file answered bounds what is unpacked
            expected = golden.decode_side(pair, side, document["outputs"], [a.shape for a in answers])
            sides[side].append(expected)
        emit("replay", number + 1, len(pairs))
    joined = {
        side: [np.concatenate(parts) for parts in zip(*rows, strict=True)] for side, rows in sides.items()
    }
    replayed = []
    for index, spec in enumerate(document["outputs"]):
        replay, stored, keras = (joined[side][index] for side in ("answers", "file", "keras"))
        difference, allowed = golden.deviation(stored, replay, keras, spec)
        real = golden.real_values(replay, spec)
        replayed.append(
            {
                "name": spec["name"],
                "difference": difference,
                "allowed": allowed,
                "agreement": metrics.agreement(keras, real, spec["task"]),
                "sqnr_db": metrics.sqnr_db(keras, real),
            }
        )
    return replayed
