"""Float .tflite files of any origin, brought into the form from which files of each precision are made.

Pure Python over the flatbuffer classes, apart from the one run in `fixed_shapes`; imports neither Keras nor
TensorFlow.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import fixed_shapes
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import rewriting

SIGNATURE = "serving_default"
"""Key of the signature that a file without one gets."""
_TYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
_CONTROL = ("WHILE", "IF", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE")
_BUILTINS = frozenset(name for name in vars(schema.BuiltinOperator) if not name.startswith("_"))


def refusal(graph: Any) -> str:
    """Return why a file can't be quantized, with the cure, or "" where it can."""
    names = [graphs.operator_name(graph, o) for subgraph in graph.subgraphs for o in subgraph.operators or []]
    custom = sorted(set(names) - _BUILTINS)
    if custom:
        kind = "Flex (TensorFlow)" if any(name.startswith("Flex") for name in custom) else "custom"
        return (
            f"It holds {kind} operators, which the phone's runtime lacks: {', '.join(custom)}. Export the "
            "model with builtin operators only."
        )
    if len(graph.subgraphs) != 1 or len(graph.signatureDefs or []) > 1:
        control = sorted(set(names) & set(_CONTROL))
        because = f"for {', '.join(control)}" if control else f"{len(graph.signatureDefs or [])} signatures"
        return (
            f"It holds {len(graph.subgraphs)} subgraphs ({because}), and only a single one can be quantized. "
            "Export one model per file, with loops unrolled and branches taken out."
        )
    if not names:
        return "It holds no operators, so there is nothing to quantize."
    tensors = graph.subgraphs[0].tensors
    if "VAR_HANDLE" in names or any(tensor.isVariable for tensor in tensors):
        return (
            "It keeps a state between calls, by variables or a fused recurrent operator. Export the model "
            "with the state as inputs and outputs, or with the recurrence written out."
        )
    if any(tensor.sparsity is not None for tensor in tensors):
        return "It stores sparse weights, which can't be quantized. Export the model with dense weights."
    return _quantized(graph) or _odd_types(graph)


def _quantized(graph: Any) -> str:
    """Say how the file is quantized already, "" where it is not."""
    counts: dict[bool, collections.Counter[str]] = {True: collections.Counter(), False: collections.Counter()}
    floats = 0
    for tensor in graph.subgraphs[0].tensors:
        constant, kind = graphs.is_constant(graph, tensor), graphs.tensor_type(tensor)
        scales = None if tensor.quantization is None else tensor.quantization.scale
        if scales is not None and len(scales) and kind != "float32":
            counts[constant][kind] += 1
        floats += kind == "float32" and not constant
    weights, activations = (_listed(counts[constant]) for constant in (True, False))
    if not weights and not activations:
        return ""
    if not activations:
        what = f"{weights} constants beside float activations (dynamic range, or weights only)"
    elif floats:
        what = f"{activations} activations beside {floats} float32 ones, with {weights or 'no'} constants"
    else:
        what = f"{activations} activations and no float one (fully integer)"
    return f"It is quantized already: {what}. Quantize the float file that it was made from."


def _listed(counts: collections.Counter[str]) -> str:
    return " and ".join(f"{count} {kind}" for kind, count in counts.most_common())


def _odd_types(graph: Any) -> str:
    """Name types without kernels, "" where there are none; float16 weights are taken."""
    restored = {index for _, index, _ in _half_weights(graph)}
    for index, tensor in enumerate(graph.subgraphs[0].tensors):
        kind = graphs.tensor_type(tensor)
        if kind not in _TYPES and index not in restored:
            name = graphs.tensor_name(tensor)
            return f"It computes in {kind} (tensor {name!r}). Export the model in float32."
    return ""


def _half_weights(graph: Any) -> list[tuple[Any, int, int]]:
    """Return each DEQUANTIZE of stored float16 values, with the tensor it reads and the one it writes."""
    subgraph = graph.subgraphs[0]
    found = []
    for operator in subgraph.operators:
        if graphs.operator_name(graph, operator) == "DEQUANTIZE":
            source = subgraph.tensors[operator.inputs[0]]
            if graphs.tensor_type(source) == "float16" and graphs.is_constant(graph, source):
                found.append((operator, int(operator.inputs[0]), int(operator.outputs[0])))
    return found


def prepare(graph: Any) -> dict[str, str]:
    """Bring a float file into the form that `quantization.quantize` takes; return what was changed, in words.

    Afterwards it has fixed shapes, float32 weights, one signature in the order of its inputs and outputs, and
    tensors named as `layer_names` says.

    Raises:
        ValueError: its shapes can't be fixed; the message names the input and the cure.
    """
    changes = []
    layer_names.restore(graph)
    halves = _half_weights(graph)
    if halves:
        _restore(graph, halves)
        changes.append(f"{len(halves)} arrays of float16 weights were turned back to float32")
    changes += fixed_shapes.fix(graph)
    if not graph.signatureDefs:
        changes.append(f"a signature {SIGNATURE!r} was added")
    _set_signature(graph)
    ours = (manifests.ENTRY, layer_names.ENTRY)
    graph.metadata = [e for e in graph.metadata or [] if graphs.text(e.name) not in ours]
    graphs.remove_dead(graph)
    graphs.remove_unused(graph)
    _check_outputs(graph)
    rewriting.bound_roots(graph)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    layer_names.name_tensors(graph, None)
    if all(layer == layer_names.UNKNOWN for layer in layer_names.of_operators(graph)):
        _name_by_operator(graph)
    return {f"float file, {number + 1}": text for number, text in enumerate(changes)}


def _restore(graph: Any, halves: list[tuple[Any, int, int]]) -> None:
    subgraph = graph.subgraphs[0]
    for _, source, result in halves:
        values = graphs.constant_value(graph, subgraph.tensors[source]).astype(np.float32)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        graph.buffers.append(buffer)
        subgraph.tensors[result].buffer = len(graph.buffers) - 1
    removed = {id(operator) for operator, _, _ in halves}
    subgraph.operators = [operator for operator in subgraph.operators if id(operator) not in removed]


def _set_signature(graph: Any) -> None:
    """Give the file one signature whose entries follow the subgraph's inputs and outputs."""
    old = graph.signatureDefs[0] if graph.signatureDefs else None
    subgraph = graph.subgraphs[0]
    signature = schema.SignatureDefT()
    signature.signatureKey = (graphs.text(old.signatureKey) if old is not None else SIGNATURE).encode()
    signature.subgraphIndex = 0
    for side in ("inputs", "outputs"):
        given: dict[int, list[str]] = {}
        for entry in getattr(old, side, None) or []:
            given.setdefault(int(entry.tensorIndex), []).append(graphs.text(entry.name))
        taken: list[str] = []
        entries = []
        for position, index in enumerate(getattr(subgraph, side)):
            left = given.get(int(index))
            name = left.pop(0) if left else graphs.tensor_name(subgraph.tensors[index])
            name = name or f"{side[:-1]}_{position}"
            while name in taken:
                name += "_1"
            taken.append(name)
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = name.encode(), int(index)
            entries.append(entry)
        setattr(signature, side, entries)
    graph.signatureDefs = [signature]


def _check_outputs(graph: Any) -> None:
    subgraph = graph.subgraphs[0]
    count = subgraph.tensors[subgraph.inputs[0]].shape[0]
    for entry in graph.signatureDefs[0].outputs:
        shape = list(subgraph.tensors[entry.tensorIndex].shape)
        if shape[:1] != [count]:
            raise ValueError(
                f"Output {graphs.text(entry.name)!r} has shape {shape}, and the inputs hold {count} samples "
                "on their first axis: the first axis of every output must count them too. Export the model "
                "with a batch axis on every input and output."
            )


def _name_by_operator(graph: Any) -> None:
    """Name tensors without any layer by the operator that writes them, so that reports tell them apart."""
    subgraph = graph.subgraphs[0]
    seen: collections.Counter[str] = collections.Counter()
    for operator in subgraph.operators:
        kind = graphs.operator_name(graph, operator)
        for index in graphs.indices(operator.outputs):
            subgraph.tensors[index].name = f"0.{index}:{kind}_{seen[kind]}".encode()
        seen[kind] += 1
