"""What a file's graph says of its inputs and outputs beyond their types: token ranges, sigmoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs

_UNCHANGED = ("CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "TRANSPOSE")
"""Operators whose first input comes out again, number by number."""
_SELECTS = ("SELECT", "SELECT_V2")
_SCALED = ("QUANTIZE", "DEQUANTIZE", "RESHAPE")


def token_limits(graph: Any) -> list[list[int | None]]:
    """Return, for each signature and each of its inputs, below what its numbers must stay; None for any.

    An input has a limit where its numbers choose rows of a table, as in an Embedding: 0 <= number < rows.
    Beyond, LiteRT's kernel reads what is not there, or answers zeros. Numbers that something is added to on
    the way have no known limit.
    """
    limits = []
    for subgraph in _subgraphs(graph):
        readers = _readers(subgraph)
        limits.append([_limit(graph, subgraph, readers, int(index)) for index in subgraph.inputs])
    return limits


def sigmoids(graph: Any) -> list[list[bool]]:
    """Return, for each signature and each of its outputs, whether a sigmoid makes it: from 0 to 1."""
    found = []
    for subgraph in _subgraphs(graph):
        makers = {index: op for op in subgraph.operators or [] for index in graphs.indices(op.outputs)}
        found.append([_is_sigmoid(graph, makers, int(index)) for index in subgraph.outputs])
    return found


def _subgraphs(graph: Any) -> list[Any]:
    """Return each signature's subgraph; the first one of a file without signatures."""
    if not graph.signatureDefs:
        return [graph.subgraphs[0]]
    return [graph.subgraphs[signature.subgraphIndex] for signature in graph.signatureDefs]


def _readers(subgraph: Any) -> dict[int, list[Any]]:
    readers: dict[int, list[Any]] = {}
    for operator in subgraph.operators or []:
        for index in set(graphs.indices(operator.inputs)):
            readers.setdefault(index, []).append(operator)
    return readers


def _limit(graph: Any, subgraph: Any, readers: dict[int, list[Any]], index: int) -> int | None:
    """Return the fewest rows of the tables that are read at the numbers of a tensor."""
    rows = []
    waiting, seen = [index], {index}
    while waiting:
        tokens = waiting.pop()
        for operator in readers.get(tokens, []):
            if (count := _rows(graph, subgraph, operator, tokens)) is not None:
                rows.append(count)
            elif _passes(graph, subgraph, operator, tokens):
                following = set(graphs.indices(operator.outputs)) - seen
                waiting += following
                seen |= following
    return min(rows, default=None)


def _rows(graph: Any, subgraph: Any, operator: Any, tokens: int) -> int | None:
    """Return the rows of the constant table that the operator reads at these numbers; None if it does not."""
    name, inputs = graphs.operator_name(graph, operator), list(operator.inputs)
    if name == "GATHER" and int(inputs[1]) == tokens:
        options = operator.builtinOptions
        axis, batch = getattr(options, "axis", 0), getattr(options, "batchDims", 0)
        table = int(inputs[0]) if (axis, batch) == (0, 0) else None
    elif name == "EMBEDDING_LOOKUP" and int(inputs[0]) == tokens:
        table = int(inputs[1])
    else:
        return None
    if table is None or not _is_stored(graph, subgraph, table):
        return None
    return int(subgraph.tensors[table].shape[0])


def _is_stored(graph: Any, subgraph: Any, index: int) -> bool:
    """Tell whether a tensor is a constant, or one that DEQUANTIZE unpacks."""
    if graphs.is_constant(graph, subgraph.tensors[index]):
        return True
    return any(
        graphs.operator_name(graph, operator) == "DEQUANTIZE"
        and index in graphs.indices(operator.outputs)
        and graphs.is_constant(graph, subgraph.tensors[int(operator.inputs[0])])
        for operator in subgraph.operators
    )


def _passes(graph: Any, subgraph: Any, operator: Any, tokens: int) -> bool:
    """Tell whether numbers from 0 come out of an operator as they went in."""
    name, inputs = graphs.operator_name(graph, operator), [int(index) for index in operator.inputs]
    if name in _UNCHANGED:
        return inputs[0] == tokens
    # Keras counts negative numbers from a table's end: SELECT(LESS(token, 0), ADD(token, rows), token).
    return name in _SELECTS and inputs[2] == tokens and _is_below_zero(graph, subgraph, inputs[0], tokens)


def _is_below_zero(graph: Any, subgraph: Any, index: int, tokens: int) -> bool:
    for operator in subgraph.operators:
        if index in graphs.indices(operator.outputs) and graphs.operator_name(graph, operator) == "LESS":
            first, second = (int(number) for number in operator.inputs)
            bound = subgraph.tensors[second]
            is_zero = graphs.is_constant(graph, bound) and not np.any(graph.buffers[bound.buffer].data)
            return first == tokens and is_zero
    return False


def _is_sigmoid(graph: Any, makers: dict[int, Any], index: int) -> bool:
    for _ in range(len(makers)):
        operator = makers.get(index)
        if operator is None or graphs.operator_name(graph, operator) not in _SCALED:
            break
        index = int(operator.inputs[0])
    return index in makers and graphs.operator_name(graph, makers[index]) == "LOGISTIC"
