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


def read_graph(content: bytes) -> Any:
    """Return the mutable flatbuffer object of a .tflite file's bytes.

    Raises:
        ValueError: the bytes are no .tflite file.
    """
    if len(content) < 8 or content[4:8] != b"TFL3":
        raise ValueError("The bytes are not a .tflite file: its mark 'TFL3' is missing at position 4.")
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


def name_tensors(graph: Any) -> None:
    """Give each tensor a short name of its own, such as "0:17".

    The quantizer tells tensors apart by name, and the converter's names are neither unique nor short.
    """
    for number, subgraph in enumerate(graph.subgraphs):
        for index, tensor in enumerate(subgraph.tensors):
            tensor.name = f"{number}:{index}".encode()


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


def count_tensor_types(graph: Any) -> dict[str, int]:
    """Return type -> number of tensors over all subgraphs, most frequent first."""
    counts = collections.Counter(tensor_type(t) for subgraph in graph.subgraphs for t in subgraph.tensors)
    return dict(counts.most_common())


def describe_interface(graph: Any) -> dict[str, list[str]]:
    """Return "name: type[shape]" of the main subgraph's inputs and outputs, in order.

    The names are those of the first signature; a file without one has only its tensors' names.
    """
    subgraph = graph.subgraphs[0]
    described = {}
    for side in ("inputs", "outputs"):
        signature = graph.signatureDefs[0] if graph.signatureDefs else None
        names = {entry.tensorIndex: text(entry.name) for entry in getattr(signature, side, None) or []}
        described[side] = [
            _describe(names.get(index) or tensor_name(subgraph.tensors[index]), subgraph.tensors[index])
            for index in getattr(subgraph, side)
        ]
    return described


def signature_names(graph: Any) -> list[str]:
    """Return the keys of the file's signatures."""
    return [text(signature.signatureKey) for signature in graph.signatureDefs or []]


def _describe(name: str, tensor: Any) -> str:
    shape = [int(size) for size in (tensor.shape if tensor.shape is not None else [])]
    text = f"{name}: {tensor_type(tensor)}{shape}"
    quantization = tensor.quantization
    if quantization is None or quantization.scale is None or len(quantization.scale) != 1:
        return text
    return f"{text}, scale {quantization.scale[0]:g}, zero point {int(quantization.zeroPoint[0])}"


def text(value: bytes | str | None) -> str:
    """Return a name of the file, which may be absent, as text."""
    return value.decode() if isinstance(value, bytes) else (value or "")
