"""Several .tflite files as one, each with a signature of its own; equal weights are stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_attention.tflite import graph as graphs

_SUBGRAPH_FIELDS = (
    "condSubgraphIndex",
    "bodySubgraphIndex",
    "thenSubgraphIndex",
    "elseSubgraphIndex",
    "subgraph",
)
"""Options of WHILE, IF and CALL_ONCE that name another subgraph."""
_RUNTIME = "min_runtime_version"


def merge(contents: Mapping[str, bytes]) -> bytes:
    """Return one file whose signatures are those of the files, by the names given.

    Args:
        contents: name of the new signature -> bytes of a file with one signature.
    """
    (first, *others) = (graphs.read_graph(content) for content in contents.values())
    merged = _Merged(first)
    for graph in others:
        merged.append(graph)
    for signature, name in zip(first.signatureDefs, contents, strict=True):
        signature.signatureKey = name.encode()
    return graphs.write_graph(first)


class _Merged:
    """A graph that takes others in."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._buffers = {_data(buffer): index for index, buffer in enumerate(graph.buffers) if _data(buffer)}
        self._codes = {_code(code): index for index, code in enumerate(graph.operatorCodes)}

    def append(self, other: Any) -> None:
        """Take over the subgraphs and the signatures of another graph."""
        graph = self._graph
        buffers = [self._buffer(buffer) for buffer in other.buffers]
        codes = [self._operator_code(code) for code in other.operatorCodes]
        before = len(graph.subgraphs)
        for subgraph in other.subgraphs:
            for tensor in subgraph.tensors:
                tensor.buffer = buffers[tensor.buffer]
            for operator in subgraph.operators:
                operator.opcodeIndex = codes[operator.opcodeIndex]
                _shift(operator.builtinOptions, before)
        graph.subgraphs.extend(other.subgraphs)
        for signature in other.signatureDefs:
            signature.subgraphIndex += before
        graph.signatureDefs.extend(other.signatureDefs)
        self._keep_newest_runtime(other)

    def _buffer(self, buffer: Any) -> int:
        """Return the index of an equal buffer, added if there is none; 0 is the empty one."""
        data = _data(buffer)
        if not data:
            return 0
        if data not in self._buffers:
            self._graph.buffers.append(buffer)
            self._buffers[data] = len(self._graph.buffers) - 1
        return self._buffers[data]

    def _operator_code(self, code: Any) -> int:
        key = _code(code)
        if key not in self._codes:
            self._graph.operatorCodes.append(code)
            self._codes[key] = len(self._graph.operatorCodes) - 1
        return self._codes[key]

    def _keep_newest_runtime(self, other: Any) -> None:
        """Let the note on the oldest runtime that can run the file be that of the more demanding part."""
        own, its = _runtime_note(self._graph), _runtime_note(other)
        if own is not None and its is not None and _version(its.data) > _version(own.data):
            own.data = its.data


def _runtime_note(graph: Any) -> Any:
    """Return the buffer with the file's minimal runtime version, or None."""
    for entry in graph.metadata or []:
        if graphs.text(entry.name) == _RUNTIME:
            return graph.buffers[entry.buffer]
    return None


def _version(data: Any) -> tuple[int, ...]:
    text = bytes(data).rstrip(b"\0").decode()
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _shift(options: Any, count: int) -> None:
    """Let an operator with inner graphs point at where they are now."""
    for field in _SUBGRAPH_FIELDS:
        index = getattr(options, field, None)
        if isinstance(index, int):
            setattr(options, field, index + count)


def _data(buffer: Any) -> bytes:
    return b"" if buffer.data is None else bytes(buffer.data)


def _code(code: Any) -> tuple[int, str, int]:
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return number, graphs.text(code.customCode), code.version
