"""Which Keras layer an operator of the file came from.

The converter's tensor names hold the layers' name scopes, as in "model/encoder/query/MatMul;...". While
a graph is worked on, each tensor is called "<position>:<layer path>": unique, as the quantizer wants it,
and still telling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keras_attention.tflite import graph as graphs

_COUNTED = re.compile(r"_\d+$")
_FORBIDDEN = re.compile(r"[;:]")
UNKNOWN = "(no layer)"


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
