"""Which operators of a .tflite file XNNPACK leaves outside, found by loading the file.

This runs native code on a file that may be wrong, so in the child process only.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
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
    """Operators that run on the plain kernels, by name and type, with the number of partitions.

    A file in integers throughout was made so for something else than a phone's CPU, and gets one note.
    """
    interpreter = runtime.load_interpreter(content)
    details = interpreter._get_ops_details()
    types = {
        int(detail["index"]): np.dtype(detail["dtype"]).name for detail in interpreter.get_tensor_details()
    }
    constants = _constants(details, interpreter)
    partitions = sum(detail["op_name"] == "DELEGATE" for detail in details)
    takes = "takes nothing of the graph" if partitions == 0 else f"takes the graph in {_pieces(partitions)}"
    outside = _outside(details)
    if outside and _all_integer(details, types, interpreter):
        yield _of_integers(details, outside, takes)
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for detail in outside:
        inputs = [int(index) for index in detail["inputs"] if index >= 0]
        read = [index for index in inputs if index not in constants] or inputs
        kind = types.get(read[0], "unknown") if read else "no input"
        groups.setdefault((detail["op_name"], kind), []).append(str(detail["index"]))
    for (name, kind), positions in groups.items():
        yield Finding(
            "KA211",
            "note" if partitions == 1 else "warning",
            f"{name} on {kind} ({file_graph.numbered(positions)})",
            f"runs outside XNNPACK, which {takes}; each change of sides copies tensors",
            _CURES.get(kind, _OTHER_CURE),
        )


def _all_integer(details: Sequence[Any], types: Mapping[int, str], interpreter: Any) -> bool:
    """Tell whether all operators compute in integers, with integer inputs and outputs or in 16 bits.

    int8 between float inputs and outputs is also what stock converters make for a phone's CPU.
    """
    computing = [d for d in details if d["op_name"] not in ("DELEGATE", "QUANTIZE", "DEQUANTIZE")]
    kinds = {
        types.get(int(index), "unknown")
        for detail in computing
        for index in (*detail["inputs"], *detail["outputs"])
        if index >= 0
    }
    sides = (*interpreter.get_input_details(), *interpreter.get_output_details())
    no_float_sides = all(np.dtype(side["dtype"]).kind != "f" for side in sides)
    if any("float" in kind for kind in kinds):
        return False
    return "int16" in kinds or ("int8" in kinds and no_float_sides)


def _of_integers(details: Sequence[Any], outside: Sequence[Any], takes: str) -> Finding:
    count = sum(detail["op_name"] != "DELEGATE" for detail in details)
    names = collections.Counter(detail["op_name"] for detail in outside).most_common()
    return Finding(
        "KA211",
        "note",
        f"{len(outside)} of {count} operators",
        f"run outside XNNPACK, which {takes}: {', '.join(f'{number} {name}' for name, number in names)}",
        "nothing on an NPU, a DSP or a microcontroller, which want such a file, in integers throughout; on a "
        "phone's CPU precision='int8' is faster, which leaves such operators in float",
    )


def _pieces(count: int) -> str:
    return "1 piece" if count == 1 else f"{count} pieces"


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
