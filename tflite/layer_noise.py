"""How much noise each layer makes if it alone is quantized: the evidence for what to leave in float."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.trial import REFUSED_DB

SECONDS = 20.0
"""No further layer is measured after this long; the report then holds fewer."""
ALIKE_DB = 3.0
"""A layer that reads a bad tensor suffers as the one that writes it; within this the writer comes first."""
BAD_DB, FAIR_DB = 20.0, 35.0


@dataclass(frozen=True)
class Group:
    """The quantized operators of one layer.

    Attributes:
        layer: path of the Keras layer.
        operators: their indices.
        names: their kinds, each once.
    """

    layer: str
    operators: frozenset[int]
    names: tuple[str, ...]


def group(graph: Any, layers: Sequence[str], operators: Collection[int]) -> list[Group]:
    """Return the operators by layer, in the order of the graph."""
    found: dict[str, list[int]] = {}
    for index in sorted(operators):
        found.setdefault(layers[index], []).append(index)
    all_operators = graph.subgraphs[0].operators
    return [
        Group(
            layer,
            frozenset(indices),
            tuple(dict.fromkeys(graphs.operator_name(graph, all_operators[index]) for index in indices)),
        )
        for layer, indices in found.items()
    ]


def measure(
    groups: Sequence[Group],
    sqnr_db: Callable[[frozenset[int]], float],
    treatment: Callable[[frozenset[int]], str],
) -> tuple[dict[str, Any], ...]:
    """Return a row for each layer, worst first, as `Report.sensitivity` holds them.

    Args:
        groups: the layers in the order of the graph.
        sqnr_db: returns the SQNR of the whole graph if only these operators are quantized.
        treatment: says how the file treats these operators.
    """
    end = time.monotonic() + SECONDS
    measured: list[tuple[float, Group]] = []
    for one in groups:
        if measured and time.monotonic() > end:
            break
        measured.append((sqnr_db(one.operators), one))
    rows = []
    for ratio, one in _worst_first(measured):
        kind = treatment(one.operators)
        rows.append(
            {
                "layer": one.layer,
                "operators": list(one.names),
                "sqnr_db": ratio,
                "treatment": kind,
                "advice": _advice(ratio, kind),
            }
        )
    return tuple(rows)


def scaled(row: dict[str, Any], layers: Sequence[str]) -> dict[str, Any]:
    """Return a row that says so if the layer's outlier channels were scaled into the weights behind."""
    if row["layer"] not in layers:
        return row
    advice = (
        "Outlier channels were divided here and multiplied in the weights behind: the file is free of them."
    )
    return {**row, "treatment": f"{row['treatment']}, channels scaled", "advice": advice}


def _worst_first(measured: Sequence[tuple[float, Group]]) -> list[tuple[float, Group]]:
    """Sort by noise; of layers that are about alike the one that comes first in the graph leads."""
    waiting = list(measured)
    ordered = []
    while waiting:
        worst = min(ratio for ratio, _ in waiting)
        first = next(entry for entry in waiting if entry[0] <= worst + ALIKE_DB)
        waiting.remove(first)
        ordered.append(first)
    return ordered


def _advice(ratio: float, treatment: str) -> str:
    if ratio <= REFUSED_DB:
        return "The runtime refuses a fixed scale here; it is left out of it."
    if ratio >= FAIR_DB:
        return "Quantizes well."
    if treatment != "int8":
        return "Would be noisy with a fixed scale; the file avoids one."
    if ratio >= BAD_DB:
        return "Noticeable: wider or more calibration data may help, or precision='auto'."
    return (
        "One scale can't hold its values: look for a channel that is far larger than the others, bound it by "
        "a norm or a smaller learning rate, or let precision='auto' leave the layer in float."
    )
