"""Operators of TensorFlow that the ONNX converter doesn't know, made of ones that it knows."""

from __future__ import annotations

from typing import Any

_SIGN_BIT = -(2**31)
_RESULTS = {"Cast": "y", "Const": "output", "Erf": "y", "Less": "z", "LogicalOr": "z", "Reciprocal": "y"}
"""Operator -> what its definition calls the result, by which the body of a function refers to it."""


def rewrite(graph: Any) -> None:
    """Rewrite a `GraphDef` and its functions in place."""
    _rewrite(graph.node, is_function=False)
    for function in graph.library.function:
        _rewrite(function.node_def, is_function=True)


def _rewrite(nodes: Any, *, is_function: bool) -> None:
    by_name = {node.name: node for node in nodes}
    for node in list(nodes):
        new = _Maker(nodes, node.name, is_function)
        if node.op == "Erfc":
            _replace_erfc(node, new)
        elif node.op == "BitwiseAnd":
            cast, mask = (by_name.get(name.split(":")[0]) for name in node.input)
            if cast is not None and mask is not None and cast.op == "Bitcast" and _is_sign_bit(mask):
                _replace_sign_bit(node, cast, new)


class _Maker:
    """Adds nodes beside one that is replaced."""

    def __init__(self, nodes: Any, name: str, is_function: bool) -> None:
        self._nodes, self._name, self._is_function = nodes, name, is_function

    def add(self, operator: str, suffix: str, inputs: list[str], **types: int) -> str:
        """Add a node and return how others refer to it."""
        node = self._nodes.add(op=operator, name=f"{self._name}/{suffix}", input=inputs)
        for attribute, kind in types.items():
            node.attr[attribute].type = kind
        return f"{node.name}:{_RESULTS[operator]}:0" if self._is_function else str(node.name)

    def constant(self, value: float, suffix: str, kind: int) -> str:
        """Add a number of a type of TensorFlow."""
        import tensorflow as tf

        reference = self.add("Const", suffix, [], dtype=kind)
        tensor = tf.make_tensor_proto(value, tf.dtypes.as_dtype(kind), shape=())
        self._nodes[-1].attr["value"].tensor.CopyFrom(tensor)
        return reference


def _replace_erfc(node: Any, new: _Maker) -> None:
    """Write erfc(x), of which exact GELU is made, as 1 - erf(x)."""
    kind = node.attr["T"].type
    error = new.add("Erf", "erf", list(node.input), T=kind)
    node.op = "Sub"
    node.input[:] = [new.constant(1.0, "one", kind), error]


def _is_sign_bit(node: Any) -> bool:
    import tensorflow as tf

    if node.op != "Const" or node.attr["dtype"].type != tf.int32.as_datatype_enum:
        return False
    return bool((tf.make_ndarray(node.attr["value"].tensor) == _SIGN_BIT).all())


def _replace_sign_bit(node: Any, cast: Any, new: _Maker) -> None:
    """Find the sign of x, as argmax and argmin do for zeros, by x < 0 or 1 / x < 0, and not in its bits."""
    import tensorflow as tf

    kind, integer = cast.attr["T"].type, tf.int32.as_datatype_enum
    value, zero = cast.input[0], new.constant(0.0, "zero", kind)
    below = new.add("Less", "below", [value, zero], T=kind)
    inverse = new.add("Reciprocal", "inverse", [value], T=kind)
    inverse_below = new.add("Less", "inverse_below", [inverse, zero], T=kind)
    negative = new.add("LogicalOr", "negative", [below, inverse_below])
    number = new.add("Cast", "number", [negative], SrcT=tf.bool.as_datatype_enum, DstT=integer)
    mask = node.input[1]
    node.op = "Mul"
    node.input[:] = [number, mask]
