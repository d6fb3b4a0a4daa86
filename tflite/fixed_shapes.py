"""Float files from elsewhere get fixed shapes: one sample at a time, sizes stored instead of computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

_INTEGERS = frozenset({"int32", "int64", "bool"})


def fix(graph: Any) -> list[str]:
    """Give every tensor of subgraph 0 the shape that it has in a run, and return what was changed, in words.

    What is computed from sizes alone, as a RESHAPE to `(batch, -1)` needs it, is stored as a constant.

    Raises:
        ValueError: an input leaves more open than the batch size, or the graph doesn't run with one sample.
    """
    subgraph = graph.subgraphs[0]
    changes = _fix_inputs(graph)
    try:
        interpreter = runtime.load_interpreter(graphs.write_graph(graph), keep_tensors=True)
        for detail in interpreter.get_input_details():  # they hold anything, and a lookup would go astray
            interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        held = "with its batch size fixed to 1" if changes else "on inputs of zeros"
        raise ValueError(f"The graph can't be run {held}: {error}") from error
    shapes = {detail["index"]: detail["shape"] for detail in interpreter.get_tensor_details()}
    folded = _fold(graph, interpreter)
    if folded:
        changes.append(f"{folded} operators that compute sizes became constants")
    for index, tensor in enumerate(subgraph.tensors):
        found = tensor.shape if tensor.shape is not None else []
        if index in shapes and not graphs.is_constant(graph, tensor):
            found = shapes[index]
        tensor.shape = [int(size) for size in found]
        tensor.shapeSignature = None
    return changes


def _fix_inputs(graph: Any) -> list[str]:
    """Fix open batch sizes to 1; raise where another size is open, or samples are not counted alike."""
    subgraph = graph.subgraphs[0]
    opened = []
    counts = {}
    for name, index in zip(graphs.input_names(graph), subgraph.inputs, strict=True):
        tensor = subgraph.tensors[index]
        shape = [int(size) for size in (tensor.shape if tensor.shape is not None else [])]
        signature = tensor.shapeSignature
        declared = [int(size) for size in signature] if signature is not None and len(signature) else shape
        if not shape:
            raise ValueError(
                f"Input {name!r} is a single number, without an axis that counts samples. Export the model "
                "with a batch axis on every input."
            )
        if min(declared[1:], default=0) < 0:
            raise ValueError(
                f"Input {name!r} has an open size: {declared}. Only the first axis, which counts samples, "
                "can be fixed here; export the model again with the sizes that the app will use."
            )
        if declared[0] < 0:
            shape[0] = 1
            opened.append(name)
        tensor.shape = shape
        counts[name] = shape[0]
    if len(set(counts.values())) != 1:
        raise ValueError(
            f"The inputs must count samples alike on their first axis, and it differs: {counts}. Export the "
            "model with a batch axis on every input."
        )
    return [f"the batch size, which was open, is 1 ({', '.join(opened)})"] if opened else []


def _fold(graph: Any, interpreter: Any) -> int:
    """Store integers that depend on shapes and constants alone; return how many operators that saves."""
    subgraph = graph.subgraphs[0]
    outputs = set(graphs.indices(subgraph.outputs))
    known = {i for i, tensor in enumerate(subgraph.tensors) if graphs.is_constant(graph, tensor)}
    kept = []
    for operator in subgraph.operators:
        inputs, results = graphs.indices(operator.inputs), graphs.indices(operator.outputs)
        is_known = graphs.operator_name(graph, operator) == "SHAPE" or (inputs and known.issuperset(inputs))
        integers = all(graphs.tensor_type(subgraph.tensors[result]) in _INTEGERS for result in results)
        if not (results and is_known and integers) or outputs & set(results):
            kept.append(operator)
            continue
        for result in results:
            _store(graph, subgraph.tensors[result], interpreter.get_tensor(result))
            known.add(result)
    folded = len(subgraph.operators) - len(kept)
    subgraph.operators = kept
    return folded


def _store(graph: Any, tensor: Any, values: np.ndarray) -> None:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    graph.buffers.append(buffer)
    tensor.buffer = len(graph.buffers) - 1
    tensor.shape = list(values.shape)
