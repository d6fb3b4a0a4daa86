"""Which Keras layer an operator of the file came from.

The converter's tensor names hold the layers' name scopes, as in "model/encoder/query/MatMul;...". While
a graph is worked on, each tensor is called "<position>:<layer path>": unique, as the quantizer wants it,
and still telling. A written file has no such names, which would be a third of an unrolled recurrent network;
float files, from which others may be made later, list the layers of their operators in their metadata.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keras_attention.tflite import graph as graphs

_COUNTED = re.compile(r"_\d+$")
_FORBIDDEN = re.compile(r"[;:]")
UNKNOWN = "(no layer)"
ENTRY = "keras_attention_layers"
"""Name of the metadata entry: [[layer path, number of operators in a row], ...] of subgraph 0, as JSON."""


def name_tensors(graph: Any, layers: Mapping[str, bool] | None) -> None:
    """Name every tensor by its position and the layer that its present name tells.

    Args:
        graph: as the converter, or another tool, wrote it.
        layers: name of each layer of the model -> whether it multiplies by weights; a fused operator belongs
            to the layer that does. None where they are not known: scopes are taken as they are.
    """
    for number, subgraph in enumerate(graph.subgraphs):
        for index, tensor in enumerate(subgraph.tensors):
            layer = _layer(graphs.tensor_name(tensor), layers)
            tensor.name = f"{number}.{index}:{layer}".encode()


def complete(graph: Any) -> None:
    """Name the tensors of subgraph 0 that rewriting added, by the layer that they belong to."""
    subgraph = graph.subgraphs[0]
    for operator, layer in zip(subgraph.operators, of_operators(graph), strict=True):
        for index in (*graphs.indices(operator.outputs), *graphs.indices(operator.inputs)):
            tensor = subgraph.tensors[index]
            if not graphs.tensor_name(tensor):
                tensor.name = f"0.new{index}:{layer}".encode()


def of_operators(graph: Any) -> list[str]:
    """Return the layer of each operator of subgraph 0.

    A tensor without a name was made by rewriting an operator; it belongs to the next that has one.
    """
    subgraph = graph.subgraphs[0]
    found: list[str] = []
    following = UNKNOWN
    for operator in reversed(subgraph.operators):
        name = graphs.tensor_name(subgraph.tensors[operator.outputs[0]])
        if ":" in name:
            layer = name.partition(":")[2] or _first_input(graph, operator)
            following = layer or UNKNOWN
        found.append(following)
    return found[::-1]


def store(graph: Any) -> None:
    """Write the layers of the operators into the file's metadata, where any are known."""
    layers = of_operators(graph)
    kinds = [graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators]
    if all(
        layer == UNKNOWN or layer.startswith(f"{kind}_") for layer, kind in zip(layers, kinds, strict=True)
    ):
        return  # names made up from the operators can be made again
    runs = [[layer, len(list(group))] for layer, group in itertools.groupby(layers)]
    graphs.set_metadata(graph, ENTRY, json.dumps(runs, separators=(",", ":")).encode())


def restore(graph: Any) -> None:
    """Name what each operator of subgraph 0 writes by the layer that the metadata tells, as converters do.

    The list is no more than a help: one that doesn't fit the operators, since another tool changed the file,
    is left aside.
    """
    data = graphs.metadata(graph, ENTRY)
    operators = graph.subgraphs[0].operators
    runs = [] if data is None else _runs(data)
    if sum(count for _, count in runs) != len(operators):
        return
    layers = (layer for layer, count in runs for _ in range(count))
    for operator, layer in zip(operators, layers, strict=True):
        for index in graphs.indices(operator.outputs):
            graph.subgraphs[0].tensors[index].name = b"" if layer == UNKNOWN else f"{layer}/".encode()


def _runs(data: bytes) -> list[tuple[str, int]]:
    """Return what `store` wrote, nothing where it is of another form."""
    try:
        entries = json.loads(data)
        runs = [(layer, count) for layer, count in entries]
    except (ValueError, TypeError, RecursionError):
        return []
    fits = all(isinstance(layer, str) and type(count) is int and count > 0 for layer, count in runs)
    return runs if fits else []


def _first_input(graph: Any, operator: Any) -> str:
    """Return the layer of the stored weights that an operator reads, "" where they tell none."""
    tensors = graph.subgraphs[0].tensors
    for index in graphs.indices(operator.inputs):
        if graphs.is_constant(graph, tensors[index]):
            layer = graphs.tensor_name(tensors[index]).partition(":")[2]
            if layer:
                return layer
    return ""


def of_model(layers: Iterable[Any]) -> dict[str, bool]:
    """Return the name of each layer, and whether it multiplies by weights, as `name_tensors` wants them."""
    return {layer.name: any("kernel" in variable.name for variable in layer.variables) for layer in layers}


def _layer(name: str, known: Mapping[str, bool] | None) -> str:
    """Return the path of layers in a tensor's name, "" where there is none."""
    found = []
    for part in name.split(";"):
        scopes = part.split("/")[:-1]
        if known is not None:
            # Keras counts scopes: "dense_1" is most likely the layer "dense", called again.
            tries = [(_COUNTED.sub("", scope), scope) for scope in scopes]
            found_names = [next((name for name in names if name in known), "") for names in tries]
            scopes = [name for name in found_names if name]
        if scopes:
            found.append(scopes)
    if not found:
        return ""
    weighted = [path for path in found if known is not None and known[path[-1]]]
    return _FORBIDDEN.sub("_", "/".join((weighted or found)[0]))
