"""Rules about the operators of a .tflite file."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.finding import Finding

_COPYING = ("BROADCAST_TO", "TILE")
_VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


def not_builtin(graph: Any) -> Iterator[Finding]:
    """Flex and custom operators."""
    for where, group in file_graph.places(op for op in file_graph.operators(graph) if op.is_custom):
        is_flex = group[0].name.startswith("Flex")
        yield Finding(
            "KA203",
            "error",
            where,
            "the plain runtime refuses the file: the app would have to bring "
            + ("TensorFlow's Flex delegate, many megabytes" if is_flex else "an implementation of its own"),
            "convert with builtin operators only; replace the layer, or do this step in the app",
        )


def high_rank(graph: Any) -> Iterator[Finding]:
    """Operators on tensors with more than four axes."""
    found = (
        operator
        for operator in file_graph.operators(graph)
        if any(len(file_graph.shape(tensor)) > 4 for tensor in (*operator.inputs, *operator.outputs))
    )
    for where, group in file_graph.places(found):
        ranks = [len(file_graph.shape(t)) for op in group for t in (*op.inputs, *op.outputs)]
        yield Finding(
            "KA204",
            "warning",
            where,
            f"works on {max(ranks)} axes: the GPU delegate refuses that, and XNNPACK does for some operators",
            "split along an axis first, then reshape each part to four axes at most",
        )


def copying(graph: Any) -> Iterator[Finding]:
    """BROADCAST_TO and TILE."""
    found = (op for op in file_graph.operators(graph) if op.name in _COPYING)
    for where, _ in file_graph.places(found):
        yield Finding(
            "KA205",
            "warning",
            where,
            "writes the same numbers several times into memory, outside XNNPACK",
            "let the next operator broadcast: keep an axis of size 1 instead of repeat, tile or broadcast_to",
        )


def variables(graph: Any) -> Iterator[Finding]:
    """Resource variables, with or without a value."""
    all_operators = list(file_graph.operators(graph))
    is_assigned = any(op.name == "ASSIGN_VARIABLE" for op in all_operators)
    for where, _ in file_graph.places(op for op in all_operators if op.name in _VARIABLES):
        if is_assigned:
            message = "the file keeps a state between calls, and runs outside delegates"
            yield Finding("KA206", "warning", where, message, "pass the state as an input and an output")
        else:
            yield Finding(
                "KA206",
                "error",
                where,
                "nothing in the file gives the variable a value: reading it fails or gives garbage",
                "convert from a SavedModel (keras.export.ExportArchive), or freeze the variables first",
            )


def loops(graph: Any) -> Iterator[Finding]:
    """WHILE, which recurrent layers become."""
    for where, _ in file_graph.places(op for op in file_graph.operators(graph) if op.name == "WHILE"):
        yield Finding(
            "KA210",
            "warning",
            where,
            "a loop runs outside delegates step by step, and static int8 of it ends the stock converter",
            "write the steps out: keras_attention's `convert` does, up to max_unrolled_steps",
        )


def float_in_quantized(graph: Any) -> Iterator[Finding]:
    """What computes in float though the file is quantized; one finding for all."""
    if not file_graph.is_quantized(graph):
        return
    computing = [
        op for op in file_graph.operators(graph) if op.name not in ("QUANTIZE", "DEQUANTIZE") and op.outputs
    ]
    in_float = [
        op
        for op in computing
        if any(graphs.tensor_type(t) in ("float32", "float16") for t in (*op.inputs[:1], *op.outputs))
    ]
    interface = [
        graphs.tensor_name(graph.subgraphs[0].tensors[index])
        for side in (graph.subgraphs[0].inputs, graph.subgraphs[0].outputs)
        for index in graphs.indices(side)
        if graphs.tensor_type(graph.subgraphs[0].tensors[index]) == "float32"
    ]
    if interface and not in_float:
        yield Finding(
            "KA209",
            "note",
            "inputs and outputs",
            f"are float: {', '.join(map(repr, interface))}; all operators compute in integers",
            "fine on a CPU; for an NPU, Edge TPU or microcontroller convert with integers there too, by "
            "`io_dtype`",
        )
    if in_float:
        counts = collections.Counter(op.name for op in in_float).most_common()
        parts = [f"{count} {name}" for name, count in counts]
        if interface:
            parts.append(f"float inputs and outputs {', '.join(map(repr, interface))}")
        hybrid = sum(any(graphs.tensor_type(t) == "int8" for t in op.inputs[1:]) for op in in_float)
        inside = f"; {hybrid} of them in int8 inside, with scales found at run time" if hybrid else ""
        yield Finding(
            "KA209",
            "note",
            f"{len(in_float)} of {len(computing)} operators",
            f"read or write floats: {', '.join(parts)}{inside}",
            "fine on a CPU; an NPU, Edge TPU or microcontroller needs every tensor in integers",
        )


def first_axis(graph: Any) -> Iterator[Finding]:
    """Activations of three or more axes whose first axis is not that of the inputs."""
    inputs = [graph.subgraphs[0].tensors[i] for i in graphs.indices(graph.subgraphs[0].inputs)]
    batches = {file_graph.shape(tensor)[0] for tensor in inputs if file_graph.shape(tensor)}
    if len(batches) != 1:
        return
    (batch,) = batches
    found = [
        operator
        for operator in file_graph.operators(graph)
        if not all(graphs.is_constant(graph, tensor) for tensor in operator.inputs)  # weights, unpacked
        and any(
            len(file_graph.shape(tensor)) > 2 and file_graph.shape(tensor)[0] not in (batch, 1)
            for tensor in operator.outputs
        )
    ]
    for where, _ in file_graph.places(found):
        yield Finding(
            "KA212",
            "note",
            where,
            f"the first axis of its output isn't the batch of {batch}: the GPU delegate takes the first axis "
            "for the batch and may refuse the graph",
            "keep (batch, heads, length, size) instead of merging heads or steps into the first axis",
        )
