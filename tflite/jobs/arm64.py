"""Child job "arm64": what to feed to a file, and the answers of this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import benchmark_inputs
from keras_attention.tflite import file_structure
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.arm64 import program

_INTEGERS = ("int4", "int8", "uint8", "int16")


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Do the step that the job names: "interface" of the file, or "answer"."""
    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    interface = graphs.interface(graph)
    found: dict[str, Any] = {"interface": interface, "remarks": _remarks(graph)}
    if job["step"] == "interface":
        return found
    inputs = folder / "inputs.npz"
    if not inputs.exists():
        samples, found["source"], remarks = _own_samples(graph, content, interface, job)
        found["remarks"] += remarks
        numbered: dict[str, Any] = {str(number): values for number, values in enumerate(samples)}
        np.savez(inputs, **numbered)
    with np.load(inputs) as data:
        samples = [data[str(number)] for number in range(len(data.files))]
    emit("replay", 0, 0)
    try:
        answers = program.answer(content, samples, lambda _: None)
    except RuntimeError as error:
        raise ValueError(
            f"The runtime can't run the file, which is damaged or needs another: {error}"
        ) from error
    arrays: dict[str, Any] = {
        f"{kind}_{i}": array for kind in program.KINDS for i, array in enumerate(answers[kind])
    }
    np.savez(folder / "here.npz", **arrays)
    return {**found, "samples": len(samples[0]), **_arithmetic(graph)}


def _own_samples(
    graph: Any, content: bytes, interface: dict[str, Any], job: dict[str, Any]
) -> tuple[list[np.ndarray], str, list[str]]:
    """Return one array per input, of the golden pairs or random values, whose they are, and remarks."""
    document, _, remarks = manifests.read_nearest(graph, hashlib.sha256(content).hexdigest(), job)
    pairs = [] if document is None else document["golden"]["pairs"][: job["samples"]]
    if document is None or not pairs:
        random = benchmark_inputs.random_inputs(interface["inputs"])
        return [values[np.newaxis] for values in random.values()], "random values", remarks
    shapes = [spec["shape"] for spec in interface["inputs"]]
    rows = [golden.decode_side(pair, "inputs", interface["inputs"], shapes) for pair in pairs]
    samples = [np.stack(column) for column in zip(*rows, strict=True)]
    return samples, str(document["golden"]["source"]), remarks


def _arithmetic(graph: Any) -> dict[str, bool]:
    """Return whether the file computes in integers, or from stored ones, and whether in floats.

    Bytes that come in, such as pixels, are exact numbers of their own.
    """
    main = graph.subgraphs[0]
    given = {id(main.tensors[index]) for index in graphs.indices(main.inputs)}
    operators = [(subgraph, o) for subgraph in graph.subgraphs for o in subgraph.operators or []]
    quantized = (
        id(tensor) not in given
        and tensor.quantization is not None
        and tensor.quantization.scale is not None
        and len(tensor.quantization.scale) > 0
        and graphs.tensor_type(tensor) in _INTEGERS
        for subgraph in graph.subgraphs
        for tensor in subgraph.tensors
    )
    floats = (
        graphs.tensor_type(subgraph.tensors[index]) == "float32"
        for subgraph, operator in operators
        if graphs.operator_name(graph, operator) not in ("QUANTIZE", "DEQUANTIZE")
        for index in graphs.indices(operator.outputs)
    )
    return {"has_integers": any(quantized), "has_floats": any(floats)}


def _remarks(graph: Any) -> list[str]:
    names = graphs.signature_names(graph)
    if len(names) < 2:
        return []
    return [f"The file has {len(names)} signatures, {', '.join(names)}; only the first was run."]
