"""Which piece of the graph each operator runs in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DELEGATE = "DELEGATE"
"""The runtime's name for the node that stands for one piece, listed behind the file's own operators."""


def partition_map(details: Sequence[dict[str, Any]], tensor_types: Sequence[str]) -> list[dict[str, Any]]:
    """Return {"index", "operator", "dtype", "partition"} for each operator of the file, in its order.

    A piece is told by its tensors: walking back from what it gives to what it takes, each operator on the
    way was taken by it. None stands for an operator that the interpreter runs by itself, and for one whose
    result nobody reads.

    Args:
        details: what the interpreter lists, operators of the file first, then the pieces.
        tensor_types: type of each tensor of the main subgraph; `dtype` is that of the first output.
    """
    operators = [detail for detail in details if detail["op_name"] != DELEGATE]
    pieces = [detail for detail in details if detail["op_name"] == DELEGATE]
    producers = {int(tensor): place for place, found in enumerate(operators) for tensor in found["outputs"]}
    partitions: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        known = set(map(int, piece["inputs"]))
        waiting = list(map(int, piece["outputs"]))
        while waiting:
            tensor = waiting.pop()
            if tensor in known or tensor not in producers:
                continue
            known.add(tensor)
            place = producers[tensor]
            partitions[place] = number
            waiting.extend(map(int, operators[place]["inputs"]))
    return [
        {
            "index": place,
            "operator": found["op_name"],
            "dtype": tensor_types[int(found["outputs"][0])] if len(found["outputs"]) else "none",
            "partition": partitions.get(place),
        }
        for place, found in enumerate(operators)
    ]
