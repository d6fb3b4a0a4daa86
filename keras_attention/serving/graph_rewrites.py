"""Operators of TensorFlow that the ONNX converter doesn't know, made of ones that it knows."""

from __future__ import annotations

from typing import Any


def replace_erfc(graph: Any) -> None:
    """Write erfc(x), of which exact GELU is made, as 1 - erf(x), in a `GraphDef` and its functions."""
    from tensorflow.core.framework import types_pb2

    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in [node for node in nodes if node.op == "Erfc"]:
            error, one = nodes.add(), nodes.add()
            error.CopyFrom(node)
            error.op, error.name = "Erf", f"{node.name}/erf"
            kind = node.attr["T"].type
            one.op, one.name = "Const", f"{node.name}/one"
            one.attr["dtype"].type = kind
            value = one.attr["value"].tensor
            value.dtype = kind
            value.tensor_shape.SetInParent()
            (value.double_val if kind == types_pb2.DT_DOUBLE else value.float_val).append(1.0)
            # In a function's body the outputs of other nodes are named with their argument.
            inside = nodes is not graph.node
            del node.input[:]
            node.op = "Sub"
            node.input.extend(
                [f"{one.name}:output:0", f"{error.name}:y:0"] if inside else [one.name, error.name]
            )
