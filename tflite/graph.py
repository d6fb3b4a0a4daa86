"""The .tflite file as an object: read it, name its tensors, put its inputs in order, write it.

Thin helpers over the flatbuffer classes that LiteRT ships. They import no TensorFlow.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

_CODE_NAMES = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
_TYPE_NAMES = {
    code: name.lower() for name, code in vars(schema.TensorType).items() if not name.startswith("_")
}


class NoGraphError(ValueError):
    """Bytes that are no .tflite file."""


def read_graph(content: bytes) -> Any:
    """Return the mutable flatbuffer object of a .tflite file's bytes.

    Files of unknown origin are read by `file_structure.read`.

    Raises:
        NoGraphError: the bytes are no .tflite file.
    """
    if len(content) < 8 or content[4:8] != b"TFL3":
        raise NoGraphError("The bytes are not a .tflite file: its mark 'TFL3' is missing at position 4.")
    return flatbuffer_utils.read_model_from_bytearray(bytearray(content))


def write_graph(graph: Any) -> bytes:
    """Return the bytes of a flatbuffer object."""
    return bytes(flatbuffer_utils.convert_object_to_bytearray(graph))


def operator_name(graph: Any, operator: Any) -> str:
    """Return the operator's schema name such as "FULLY_CONNECTED"; a custom operator's own name."""
    code = graph.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number == schema.BuiltinOperator.CUSTOM:
        return text(code.customCode)
    return _CODE_NAMES.get(number, f"BUILTIN_{number}")


def tensor_type(tensor: Any) -> str:
    """Return the tensor's type in lower case, such as "float32" or "int8"."""
    return _TYPE_NAMES.get(tensor.type, f"type_{tensor.type}")


def tensor_name(tensor: Any) -> str:
    """Return the tensor's name as text, "" where the file holds none."""
    return text(tensor.name)


def is_constant(graph: Any, tensor: Any) -> bool:
    """Tell whether the tensor's values are stored in the file."""
    data = graph.buffers[tensor.buffer].data if tensor.buffer < len(graph.buffers) else None
    return data is not None and len(data) > 0


def constant_value(graph: Any, tensor: Any) -> np.ndarray:
    """Return a float32 or integer constant as an array."""
    kind = {"float32": np.float32, "float16": np.float16, "int8": np.int8, "int32": np.int32}[
        tensor_type(tensor)
    ]
    return np.frombuffer(bytes(graph.buffers[tensor.buffer].data), kind).reshape(tuple(tensor.shape))


def indices(values: Any) -> list[int]:
    """Return an operator's or subgraph's tensor indices, without the -1 of absent ones."""
    return [int(value) for value in (values if values is not None else []) if value >= 0]


def set_interface(graph: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Put the only signature's inputs and outputs into Keras' order and give them Keras' names.

    The converter sorts them by name. On the way in they are called input_0, input_1, ... and
    output_0, output_1, ... by position, so that nothing depends on how a tool spells a name.
    """
    (signature,) = graph.signatureDefs
    subgraph = graph.subgraphs[signature.subgraphIndex]
    for names, side in ((inputs, "inputs"), (outputs, "outputs")):
        entries = {text(entry.name): entry for entry in getattr(signature, side)}
        ordered = [entries[f"{side[:-1]}_{index}"] for index in range(len(names))]
        for entry, name in zip(ordered, names, strict=True):
            entry.name = name.encode()
        setattr(signature, side, ordered)
        setattr(subgraph, side, [entry.tensorIndex for entry in ordered])


def strip_names(graph: Any) -> None:
    """Name inputs and outputs as the signature does, and drop the names that no runtime needs.

    In an unrolled RNN those are a third of the file.
    """
    for subgraph in graph.subgraphs:
        subgraph.name = None
        for tensor in subgraph.tensors:
            tensor.name = None
    graph.description = None
    for signature in graph.signatureDefs or []:
        tensors = graph.subgraphs[signature.subgraphIndex].tensors
        for entry in (*signature.outputs, *signature.inputs):
            tensors[entry.tensorIndex].name = entry.name


def operator_code(graph: Any, builtin: int, version: int = 1) -> int:
    """Return the index of an operator code, adding it where the file lacks it."""
    for index, code in enumerate(graph.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin and code.version == version:
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), version
    graph.operatorCodes.append(code)
    return len(graph.operatorCodes) - 1


def remove_dead(graph: Any) -> None:
    """Drop the operators of subgraph 0 whose results nothing reads."""
    subgraph = graph.subgraphs[0]
    read = set(indices(subgraph.outputs))
    kept = []
    for operator in reversed(subgraph.operators):
        if read & set(indices(operator.outputs)) or not indices(operator.outputs):
            kept.append(operator)
            read |= set(indices(operator.inputs))
    subgraph.operators = kept[::-1]


def remove_unused(graph: Any) -> dict[int, int]:
    """Drop tensors, buffers and operator codes that nothing refers to.

    Returns:
        Old tensor index of subgraph 0 -> its new one.
    """
    moved: dict[int, int] = {}
    for number, subgraph in enumerate(graph.subgraphs):
        lists = [subgraph.inputs, subgraph.outputs]
        for operator in subgraph.operators:
            lists += [operator.inputs, operator.outputs, operator.intermediates]
        entries = [
            entry
            for signature in graph.signatureDefs or []
            if signature.subgraphIndex == number
            for entry in (*signature.inputs, *signature.outputs)
        ]
        used = {index for values in lists for index in indices(values)} | {e.tensorIndex for e in entries}
        place = {old: new for new, old in enumerate(sorted(used))}
        moved = moved or place
        subgraph.tensors = [subgraph.tensors[old] for old in sorted(used)]
        subgraph.inputs = _moved(subgraph.inputs, place)
        subgraph.outputs = _moved(subgraph.outputs, place)
        for operator in subgraph.operators:
            operator.inputs = _moved(operator.inputs, place)
            operator.outputs = _moved(operator.outputs, place)
            operator.intermediates = _moved(operator.intermediates, place)
        for entry in entries:
            entry.tensorIndex = place[entry.tensorIndex]
    holders = [tensor for subgraph in graph.subgraphs for tensor in subgraph.tensors]
    holders += list(graph.metadata or [])
    buffers = sorted({0} | {holder.buffer for holder in holders})
    place = {old: new for new, old in enumerate(buffers)}
    graph.buffers = [graph.buffers[old] for old in buffers]
    for holder in holders:
        holder.buffer = place[holder.buffer]
    operators = [operator for subgraph in graph.subgraphs for operator in subgraph.operators]
    codes = sorted({operator.opcodeIndex for operator in operators})
    place = {old: new for new, old in enumerate(codes)}
    graph.operatorCodes = [graph.operatorCodes[old] for old in codes]
    for operator in operators:
        operator.opcodeIndex = place[operator.opcodeIndex]
    return moved


def _moved(values: Any, place: dict[int, int]) -> list[int] | None:
    return None if values is None else [place[int(v)] if v >= 0 else int(v) for v in values]


def count_tensor_types(graph: Any) -> dict[str, int]:
    """Return type -> number of tensors over all subgraphs, most frequent first."""
    counts = collections.Counter(tensor_type(t) for subgraph in graph.subgraphs for t in subgraph.tensors)
    return dict(counts.most_common())


def describe_interface(graph: Any) -> dict[str, list[str]]:
    """Return "name: type[shape]" of the main subgraph's inputs and outputs, in order.

    The names are those of the first signature; a file without one has only its tensors' names.
    """
    return {side: [_describe(entry) for entry in entries] for side, entries in interface(graph).items()}


def interface(graph: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the main subgraph's "inputs" and "outputs" in order, as plain values.

    Each has name, dtype, shape, scale and zero_point; the last two are None where it is not quantized.
    """
    signature = graph.signatureDefs[0] if graph.signatureDefs else None
    return _sides(graph.subgraphs[0], signature)


def signature_interfaces(graph: Any) -> list[dict[str, Any]]:
    """Return "key", "inputs" and "outputs" of each signature, as `interface` does.

    A file without signatures has one here, with the key "".
    """
    if not graph.signatureDefs:
        return [{"key": "", **interface(graph)}]
    return [
        {
            "key": text(signature.signatureKey),
            **_sides(graph.subgraphs[signature.subgraphIndex], signature),
        }
        for signature in graph.signatureDefs
    ]


def _sides(subgraph: Any, signature: Any) -> dict[str, list[dict[str, Any]]]:
    sides = {}
    for side in ("inputs", "outputs"):
        names = {entry.tensorIndex: text(entry.name) for entry in getattr(signature, side, None) or []}
        sides[side] = [
            _entry(names.get(index) or tensor_name(subgraph.tensors[index]), subgraph.tensors[index])
            for index in getattr(subgraph, side)
        ]
    return sides


def metadata(graph: Any, name: str) -> bytes | None:
    """Return the bytes of the metadata entry of that name, None where the file has none."""
    for entry in graph.metadata or []:
        if text(entry.name) == name and 0 < entry.buffer < len(graph.buffers):
            data = graph.buffers[entry.buffer].data
            return b"" if data is None else bytes(data)
    return None


def set_metadata(graph: Any, name: str, data: bytes) -> None:
    """Write the metadata entry of that name, over an older one."""
    entry = next((entry for entry in graph.metadata or [] if text(entry.name) == name), None)
    if entry is None:
        entry = schema.MetadataT()
        entry.name, entry.buffer = name.encode(), len(graph.buffers)
        graph.metadata = [*(graph.metadata or []), entry]
        graph.buffers.append(schema.BufferT())
    graph.buffers[entry.buffer].data = np.frombuffer(data, np.uint8)


def input_names(graph: Any) -> list[str]:
    """Return the names of the main subgraph's inputs in order, as the first signature has them."""
    signature = graph.signatureDefs[0] if graph.signatureDefs else None
    names = {entry.tensorIndex: text(entry.name) for entry in getattr(signature, "inputs", None) or []}
    subgraph = graph.subgraphs[0]
    return [names.get(index) or tensor_name(subgraph.tensors[index]) for index in subgraph.inputs]


def signature_names(graph: Any) -> list[str]:
    """Return the keys of the file's signatures."""
    return [text(signature.signatureKey) for signature in graph.signatureDefs or []]


def _entry(name: str, tensor: Any) -> dict[str, Any]:
    shape = [int(size) for size in (tensor.shape if tensor.shape is not None else [])]
    quantization = tensor.quantization
    scales: Any = None if quantization is None else quantization.scale
    quantized = scales is not None and len(scales) == 1 and scales[0] > 0
    return {
        "name": name,
        "dtype": tensor_type(tensor),
        "shape": shape,
        "scale": float(scales[0]) if quantized else None,
        "zero_point": int(quantization.zeroPoint[0]) if quantized else None,
    }


def _describe(entry: dict[str, Any]) -> str:
    text = f"{entry['name']}: {entry['dtype']}{entry['shape']}"
    if entry["scale"] is None:
        return text
    return f"{text}, scale {entry['scale']:g}, zero point {entry['zero_point']}"


def text(value: bytes | str | None) -> str:
    """Return a name of the file, which may be absent, as text."""
    return value.decode() if isinstance(value, bytes) else (value or "")
