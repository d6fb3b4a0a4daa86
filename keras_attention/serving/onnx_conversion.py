"""From a frozen TensorFlow graph to an ONNX file with Keras' names, whose operators are all standard.

Runs in the child process: tf2onnx brings TensorFlow's graph optimizer along.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_attention.serving import packages

BATCH = "batch"
"""Name of the open axis."""
_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_MOST_BYTES = 2_000_000_000
"""What one protobuf message can hold."""


def convert(
    content: bytes,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    *,
    opset: int,
    output_shapes: Sequence[Sequence[int]],
    batch_size: int | None,
    metadata: Mapping[str, str],
) -> bytes:
    """Return the bytes of the ONNX file.

    Args:
        content: a serialized `GraphDef` without variables.
        inputs: tensor of the graph -> name in the file, in order.
        outputs: the same.
        opset: version of the operator set.
        output_shapes: of each output, without the batch axis.
        batch_size: a fixed one, or None.
        metadata: key -> text, kept in the file.

    Raises:
        ValueError: an operator of the graph has no standard form in ONNX; it is named, with its layer.
    """
    model = _to_onnx(content, list(inputs), list(outputs), opset)
    del model.graph.value_info[:]  # shapes under names that change below
    _check_operators(model)
    _rename(model.graph, {**inputs, **outputs})
    for value, shape in zip(model.graph.output, output_shapes, strict=True):
        _set_shape(value, [batch_size or BATCH, *shape])
    for value in model.graph.input:
        sizes = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        _set_shape(value, [batch_size or BATCH, *sizes[1:]])
    used = {node.domain for node in _nodes(model.graph)} | {""}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    model.producer_name = "keras_attention"
    model.doc_string = model.graph.doc_string = ""
    model.graph.name = "model"
    del model.metadata_props[:]
    for key, text in metadata.items():
        model.metadata_props.add(key=key, value=text)
    packages.load("onnx.checker").check_model(model, full_check=True)
    written: bytes = model.SerializeToString(deterministic=True)
    return written


def operators(content: bytes) -> dict[str, int]:
    """Return how often each operator occurs in an ONNX file, the bodies of loops included."""
    model = packages.load("onnx").load_model_from_string(content)
    counts = collections.Counter(_operator_name(node) for node in _nodes(model.graph))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _to_onnx(content: bytes, inputs: list[str], outputs: list[str], opset: int) -> Any:
    import tensorflow as tf

    if len(content) > _MOST_BYTES:
        raise ValueError(
            f"the model takes {len(content):,} bytes, and a file of one piece holds {_MOST_BYTES:,} at most. "
            "Export a smaller model, or its parts one by one."
        )
    graph = tf.compat.v1.GraphDef.FromString(content)
    calls = [node.name for node in graph.node if node.op in _PYTHON]
    if calls:
        raise ValueError(
            f"{calls[0]!r} calls a Python function (tf.py_function or tf.numpy_function), which stays behind "
            "when the file goes to a server. Write it with keras.ops, or move that step out of the model."
        )
    converter = packages.load("tf2onnx.convert")
    model, _ = converter.from_graph_def(graph, input_names=inputs, output_names=outputs, opset=opset)
    return model


def _check_operators(model: Any) -> None:
    """Raise unless every operator is one of ONNX' own in its version, so that any server knows it."""
    definitions = packages.load("onnx.defs")
    versions = {entry.domain: entry.version for entry in model.opset_import}
    unknown: dict[str, str] = {}
    for node in _nodes(model.graph):
        is_standard = node.domain == "" and definitions.has(node.op_type, versions[""], "")
        if not is_standard:
            unknown.setdefault(_operator_name(node), node.name)
    if unknown:
        found = ", ".join(f"{name} (at {where!r})" for name, where in sorted(unknown.items()))
        raise ValueError(
            f"the model uses operators that ONNX opset {versions['']} doesn't have: {found}. Replace the "
            "layer that uses them by one made of standard operators, or move that step out of the model."
        )


def _operator_name(node: Any) -> str:
    return f"{node.domain}:{node.op_type}" if node.domain else str(node.op_type)


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield every node, those in the bodies of loops and branches included."""
    for inner in _graphs(graph):
        yield from inner.node


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Give inputs and outputs their names; what has such a name inside makes way."""
    taken = set(names.values())
    inside = {name for inner in _graphs(graph) for name in _value_names(inner)} - set(names)
    renamed = {name: f"inner/{name}" for name in inside & taken} | dict(names)
    for inner in _graphs(graph):
        for value in (*inner.input, *inner.output, *inner.initializer):
            value.name = renamed.get(value.name, value.name)
        for node in inner.node:
            for side in (node.input, node.output):
                side[:] = [renamed.get(name, name) for name in side]


def _value_names(graph: Any) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (*node.input, *node.output)


def _set_shape(value: Any, shape: Sequence[int | str]) -> None:
    dimensions = value.type.tensor_type.shape
    dimensions.Clear()
    for size in shape:
        dimensions.dim.add(**({"dim_param": size} if isinstance(size, str) else {"dim_value": size}))
