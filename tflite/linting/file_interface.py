"""Rules about what goes into a .tflite file, what comes out, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_attention.tflite import byte_inputs
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime_versions
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.finding import Finding


def no_signature(graph: Any) -> Iterator[Finding]:
    """Files whose inputs can be told apart by position only."""
    if not graph.signatureDefs:
        yield Finding(
            "KA201",
            "warning",
            "file",
            "it has no signature: inputs and outputs have no stable names, and no order to rely on",
            "convert from a SavedModel or with keras_attention, which write one",
        )


def open_sizes(graph: Any) -> Iterator[Finding]:
    """Tensors with an open axis: inputs one by one, the others as one finding."""
    cure = "convert with fixed sizes, also for the batch"
    tensors = graph.subgraphs[0].tensors
    inputs = set(graphs.indices(graph.subgraphs[0].inputs))
    inner = 0
    for index, tensor in enumerate(tensors):
        shape = file_graph.shape(tensor)
        if -1 not in shape:
            continue
        if index not in inputs:
            inner += 1
            continue
        where = f"input {graphs.tensor_name(tensor)!r}"
        message = (
            f"its shape {shape} is open: delegates take fixed sizes only, and memory isn't planned ahead"
        )
        yield Finding("KA202", "warning", where, message, cure)
    if inner and not any(-1 in file_graph.shape(tensors[index]) for index in inputs):
        yield Finding(
            "KA202",
            "warning",
            f"{inner} tensors inside",
            "their sizes depend on values and are known at run time only",
            "replace operators such as UNIQUE, WHERE or a RESHAPE to a computed shape",
        )


def quantized_interface(graph: Any) -> Iterator[Finding]:
    """Inputs and outputs that the app has to quantize itself."""
    subgraph = graph.subgraphs[0]
    for side in ("inputs", "outputs"):
        for index in graphs.indices(getattr(subgraph, side)):
            tensor = subgraph.tensors[index]
            limits = file_graph.quantized_range(tensor)
            if limits is None:
                continue
            scale, zero_point = tensor.quantization.scale[0], int(tensor.quantization.zeroPoint[0])
            kind = graphs.tensor_type(tensor)
            cure = f"the value is ({kind}{_signed(-zero_point)}) * {scale:g}"
            if side == "inputs":
                cure = f"quantize with round(value / {scale:g}){_signed(zero_point)} and clip"
                cure = "pass the bytes as they are" if byte_inputs.are_plain(tensor) else cure
            yield Finding(
                "KA214",
                "note",
                f"{side[:-1]} {graphs.tensor_name(tensor)!r}",
                f"{kind} with scale {scale:g} and zero point {zero_point}: real values from {limits[0]:g} to "
                f"{limits[1]:g}",
                cure,
            )


def _signed(number: int) -> str:
    """Return what adds a number, nothing for 0."""
    return "" if number == 0 else f" {'+' if number > 0 else '-'} {abs(number)}"


def runtime_version(graph: Any) -> Iterator[Finding]:
    """The oldest runtime that has all operators."""
    if next(file_graph.operators(graph), None) is not None:
        yield Finding(
            "KA215",
            "note",
            "file",
            f"needs TensorFlow Lite (LiteRT) {runtime_versions.minimum_runtime(graph)} or later",
            "compare with the runtime that the app ships, or that Google Play services provide",
        )
