"""Which operators of a .tflite file XNNPACK leaves outside, found by loading the file.

This runs native code on a file that may be wrong, so in the child process only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_attention.tflite import runtime
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.finding import Finding

_CURES = {
    "int8": "keep this operator in float, as precision='int8' does, or write it with operators that XNNPACK "
    "has in int8",
    "uint8": "convert again to int8; XNNPACK has few operators in uint8",
    "int16": "XNNPACK has no int16: use precision='int8', or dynamic",
}
_OTHER_CURE = "write this step with other operators, fold it into constants, or do it in the app"


def outside_xnnpack(content: bytes) -> Iterator[Finding]:
    """Operators that run on the plain kernels, by name and type, with the number of partitions."""
    interpreter = runtime.load_interpreter(content)
    details = interpreter._get_ops_details()
    types = {
        int(detail["index"]): np.dtype(detail["dtype"]).name for detail in interpreter.get_tensor_details()
    }
    constants = _constants(details, interpreter)
    partitions = sum(detail["op_name"] == "DELEGATE" for detail in details)
    groups: dict[tuple[str, str], list[str]] = {}
    for detail in _outside(details):
        inputs = [int(index) for index in detail["inputs"] if index >= 0]
        read = [index for index in inputs if index not in constants] or inputs
        kind = types.get(read[0], "unknown") if read else "no input"
        groups.setdefault((detail["op_name"], kind), []).append(str(detail["index"]))
    for (name, kind), positions in groups.items():
        pieces = "1 piece" if partitions == 1 else f"{partitions} pieces"
        yield Finding(
            "KA211",
            "note" if partitions == 1 else "warning",
            f"{name} on {kind} ({file_graph.numbered(positions)})",
            f"runs outside XNNPACK, which takes the graph in {pieces}; each change of sides copies tensors",
            _CURES.get(kind, _OTHER_CURE),
        )


def refused(error: Exception) -> Finding:
    """The finding for a file that can be read, but not loaded."""
    return Finding(
        "KA216",
        "error",
        "file",
        f"the runtime of this machine can't load it: {' '.join(str(error).split())}",
        "the file is damaged, is newer than the runtime, or an operator has no kernel for its types",
    )


def _outside(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the operators that no delegate replaced.

    The runtime doesn't tell which they are. All that enters a partition is among the inputs of its
    delegate, so that going back from its outputs to its inputs meets the replaced operators and no others.
    """
    producers = {
        int(index): detail
        for detail in details
        if detail["op_name"] != "DELEGATE"
        for index in detail["outputs"]
    }
    replaced: set[int] = set()
    for delegate in (detail for detail in details if detail["op_name"] == "DELEGATE"):
        border = {int(index) for index in delegate["inputs"]}
        pending = [int(index) for index in delegate["outputs"]]
        while pending:
            index = pending.pop()
            producer = producers.get(index)
            if index in border or producer is None or producer["index"] in replaced:
                continue
            replaced.add(producer["index"])
            pending.extend(int(i) for i in producer["inputs"])
    return [d for d in details if d["op_name"] != "DELEGATE" and d["index"] not in replaced]


def _constants(details: list[dict[str, Any]], interpreter: Any) -> set[int]:
    """Return the tensors that no operator writes and that are no inputs of the graph."""
    written = {int(index) for detail in details for index in detail["outputs"]}
    inputs = {int(detail["index"]) for detail in interpreter.get_input_details()}
    every = {int(index) for detail in details for index in detail["inputs"]}
    return every - written - inputs
