"""Rules for microcontrollers: what tflite-micro lacks or computes otherwise, and the memory needed."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.file_graph import Operator
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.micro import operators

_WEIGHTED = ("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_BYTES = {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "float16": 2, "int64": 8}
_CURE = "convert with precision='int8_full'"


def check(graph: Any) -> Iterator[Finding]:
    """Yield all findings for microcontrollers."""
    yield from _lacking(graph)
    yield from _forms(graph)
    yield from _other_numbers(graph)
    yield from _floats(graph)
    yield from _memory(graph)


def _lacking(graph: Any) -> Iterator[Finding]:
    found = [op for op in file_graph.operators(graph) if op.is_custom or op.name not in operators.OPERATORS]
    for where, _ in file_graph.places(found):
        message = "tflite-micro has no such operator and refuses the file"
        yield Finding("KA401", "error", where, message, "replace the layer, or do this step in your own code")


def _forms(graph: Any) -> Iterator[Finding]:
    """Operators that tflite-micro has, though not with these types."""
    groups: dict[tuple[str, str], list[Operator]] = {}
    for operator in file_graph.operators(graph):
        fault = _form(graph, operator)
        if fault is not None:
            groups.setdefault(fault, []).append(operator)
    for (message, cure), found in groups.items():
        for where, _ in file_graph.places(found):
            yield Finding("KA402", "error", where, message, cure)
    for index in graphs.indices(graph.subgraphs[0].inputs):
        tensor = graph.subgraphs[0].tensors[index]
        if -1 in file_graph.shape(tensor):
            yield Finding(
                "KA402",
                "error",
                f"input {graphs.tensor_name(tensor)!r}",
                f"its shape {file_graph.shape(tensor)} is open, and the arena is planned ahead",
                "convert with fixed sizes, also for the batch",
            )


def _form(graph: Any, operator: Operator) -> tuple[str, str] | None:
    kinds = [graphs.tensor_type(tensor) for tensor in operator.inputs]
    if operator.name == "DEQUANTIZE" and kinds[:1] in (["float16"], ["bfloat16"]):
        return f"unpacks {kinds[0]}, for which tflite-micro has no kernel", _CURE
    if operator.name in _WEIGHTED and "float32" in kinds[:2] and {"int8", "int4"} & set(kinds[:2]):
        return "multiplies floats by integers with scales found at run time, which tflite-micro lacks", _CURE
    if operator.name in operators.FLOAT_ONLY and {"int8", "int16"} & set(kinds):
        return f"has no kernel in {kinds[0]}, only in float", "keep this step in float, or out of the file"
    if operator.name in operators.NOT_INT16 and "int16" in kinds:
        return "has no kernel in int16", _CURE
    return None


def _other_numbers(graph: Any) -> Iterator[Finding]:
    """RELU6 between tensors of different scales: tflite-micro cuts the steps and forgets the scales."""
    found = [
        operator
        for operator in file_graph.operators(graph)
        if operator.name == "RELU6"
        and operator.inputs
        and operator.outputs
        and file_graph.quantized_range(operator.inputs[0]) != file_graph.quantized_range(operator.outputs[0])
    ]
    for where, _ in file_graph.places(found):
        yield Finding(
            "KA403",
            "error",
            where,
            "tflite-micro cuts the steps without bringing them to the output's scale: the answers are wrong",
            "put the activation directly behind a Conv or Dense layer, which takes it in, or use ReLU",
        )


def _floats(graph: Any) -> Iterator[Finding]:
    """What computes in float; one finding for all."""
    names = [
        operator.name
        for operator in file_graph.operators(graph)
        if operator.outputs and graphs.tensor_type(operator.outputs[0]) == "float32"
    ]
    if names:
        counts = collections.Counter(names).most_common()
        yield Finding(
            "KA404",
            "warning",
            f"{len(names)} operators",
            f"compute in float: {', '.join(f'{count} {name}' for name, count in counts)}; slow without a "
            "floating point unit, and four times the memory of int8",
            f"{_CURE}, with integers as inputs and outputs too (`io_dtype`)",
        )


def _memory(graph: Any) -> Iterator[Finding]:
    if next(file_graph.operators(graph), None) is None:
        return
    manifest = len(graphs.metadata(graph, manifests.ENTRY) or b"")
    unread = f"; {manifest:,} bytes of flash are the manifest, which it never reads" if manifest else ""
    yield Finding(
        "KA405",
        "note",
        "file",
        f"inputs and results take {_peak(graph):,} bytes of RAM at once, to which tflite-micro adds what "
        f"describes them{unread}",
        "measure the arena with `keras-attention micro`",
    )


def _peak(graph: Any) -> int:
    """Return the most bytes that inputs and results take at once, each from its making to its last use."""
    subgraph = graph.subgraphs[0]
    steps = [(graphs.indices(op.inputs), graphs.indices(op.outputs)) for op in subgraph.operators]
    last = {tensor: number for number, step in enumerate(steps) for side in step for tensor in side}
    last.update(dict.fromkeys(graphs.indices(subgraph.outputs), len(steps)))
    alive = {tensor: _bytes(subgraph.tensors[tensor]) for tensor in graphs.indices(subgraph.inputs)}
    peak = sum(alive.values())
    for number, (_, results) in enumerate(steps):
        alive.update({tensor: _bytes(subgraph.tensors[tensor]) for tensor in results})
        peak = max(peak, sum(alive.values()))
        alive = {tensor: size for tensor, size in alive.items() if last.get(tensor, -1) > number}
    return peak


def _bytes(tensor: Any) -> int:
    shape = [] if tensor.shape is None else tensor.shape
    return math.prod(abs(int(size)) for size in shape) * _BYTES.get(graphs.tensor_type(tensor), 4)
