"""Reading .tflite files of unknown origin: what doesn't hold together is named, before native code sees it.

A file is a flatbuffer: tables that point to each other by offsets and indices. The runtime trusts most of
them.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs

_BITS = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 64),
    **dict.fromkeys(("float32", "int32", "uint32"), 32),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 16),
    **dict.fromkeys(("int8", "uint8", "bool"), 8),
    "complex128": 128,
    "int4": 4,
    "uint4": 4,
    "int2": 2,
}
"""Size of one value, for the types that have one."""
_MOST_AXES = 8
_MOST_VALUES = 2**40


def read(content: bytes) -> Any:
    """Return the mutable flatbuffer object of a file's bytes, whose references all lead somewhere.

    Lists that the file leaves out are empty lists.

    Raises:
        ValueError: the bytes are no .tflite file or a damaged one; the message says what is wrong in it.
    """
    try:
        graph = graphs.read_graph(content)
    except (MemoryError, graphs.NoGraphError):
        raise
    except Exception as error:  # flatbuffer classes raise whatever the wrong bytes lead to
        raise ValueError(
            "The file is damaged: an offset, a length or an index in it leads outside the file."
        ) from error
    try:
        _check(graph)
    except _Damage as damage:
        raise ValueError(f"The file is damaged: {damage}.") from damage
    return graph


class _Damage(Exception):
    """What is wrong, in words."""


def _check(graph: Any) -> None:
    for name in ("buffers", "operatorCodes", "signatureDefs", "metadata"):
        setattr(graph, name, _list(getattr(graph, name)))
    if not _list(graph.subgraphs):
        raise _Damage("it holds no graph")
    for number, code in enumerate(graph.operatorCodes):
        _check_text(code.customCode, f"the name of custom operator {number}")
    for number, subgraph in enumerate(graph.subgraphs):
        _check_subgraph(graph, subgraph, f" of subgraph {number}" if number else "")
    for signature in graph.signatureDefs:
        _check_signature(graph, signature)
    for entry in graph.metadata:
        _check_text(entry.name, "the name of a metadata entry")
        _check_index(entry.buffer, graph.buffers, "a metadata entry", "buffer")


def _check_subgraph(graph: Any, subgraph: Any, of: str) -> None:
    for name in ("tensors", "operators", "inputs", "outputs"):
        setattr(subgraph, name, _list(getattr(subgraph, name)))
    for number, tensor in enumerate(subgraph.tensors):
        _check_tensor(graph, tensor, f"tensor {number}{of}")
    for side in ("inputs", "outputs"):
        for index in getattr(subgraph, side):
            _check_index(index, subgraph.tensors, f"the graph's {side}{of}", "tensor")
    for number, operator in enumerate(subgraph.operators):
        where = f"operator {number}{of}"
        _check_index(operator.opcodeIndex, graph.operatorCodes, where, "operator code")
        for name in ("inputs", "outputs", "intermediates"):
            setattr(operator, name, _list(getattr(operator, name)))
            for index in getattr(operator, name):
                if index != -1:  # stands for one that is left out
                    _check_index(index, subgraph.tensors, where, "tensor")


def _check_tensor(graph: Any, tensor: Any, where: str) -> None:
    _check_text(tensor.name, f"the name of {where}")
    _check_index(tensor.buffer, graph.buffers, where, "buffer")
    shape = [int(size) for size in _list(tensor.shape)]
    signature = [int(size) for size in _list(tensor.shapeSignature)]
    if min(shape, default=0) < 0 or min(signature, default=0) < -1:
        raise _Damage(f"{where} has a negative size, shape {shape}")
    if max(len(shape), len(signature)) > _MOST_AXES or math.prod(shape) > _MOST_VALUES:
        raise _Damage(f"{where} is larger than any runtime takes, shape {shape}")
    quantization = tensor.quantization
    if quantization is not None:
        scales, zeros = len(_list(quantization.scale)), len(_list(quantization.zeroPoint))
        if zeros not in (0, scales) or (zeros == 0 and scales):
            raise _Damage(f"{where} has {scales} scales and {zeros} zero points")
        if scales and not np.isfinite(np.asarray(quantization.scale)).all():
            raise _Damage(f"{where} has scales that are not finite")
    bits = _BITS.get(graphs.tensor_type(tensor))
    stored = len(_list(graph.buffers[tensor.buffer].data)) if tensor.buffer else 0
    if stored and bits and tensor.sparsity is None:
        needed = -(-math.prod(shape) * bits // 8)
        if stored != needed:
            raise _Damage(f"{where} needs {needed:,} bytes for its shape {shape} and has {stored:,}")


def _check_signature(graph: Any, signature: Any) -> None:
    _check_text(signature.signatureKey, "the name of a signature")
    _check_index(signature.subgraphIndex, graph.subgraphs, "a signature", "subgraph")
    tensors = graph.subgraphs[signature.subgraphIndex].tensors
    for side in ("inputs", "outputs"):
        setattr(signature, side, _list(getattr(signature, side)))
        for entry in getattr(signature, side):
            _check_text(entry.name, f"a name among a signature's {side}")
            _check_index(entry.tensorIndex, tensors, f"a signature's {side}", "tensor")


def _check_index(index: Any, items: list[Any], where: str, what: str) -> None:
    if not 0 <= int(index) < len(items):
        raise _Damage(f"{where} refers to {what} {index} of {len(items)}")


def _check_text(value: Any, where: str) -> None:
    try:
        text = graphs.text(value)
    except UnicodeDecodeError as error:
        raise _Damage(f"{where} is no text") from error
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise _Damage(f"{where} holds control characters, which a terminal would obey")


def _list(values: Any) -> Any:
    return [] if values is None else values
