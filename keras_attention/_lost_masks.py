"""Says when a layer would have got a mask, had an operation on the way to it not lost it."""

from __future__ import annotations

import warnings
from typing import Any

import keras

_MIXING = ("Dot", "Einsum", "Matmul", "Tensordot")
"""Operations whose output has the positions of another input than the masked one."""


def warn(layer: Any, tensor: Any, argument: str) -> None:
    """Warns if the symbolic `tensor`, which has no mask, comes from one that has, position by position.

    Keras itself warns at a layer that does not support masks; it says nothing at operations such as
    `x + y`, and at a sum of a masked and an unmasked sequence.

    Args:
        layer: Layer that is called.
        tensor: The sequence that it attends to.
        argument: Argument by which the mask can be given.
    """
    if not isinstance(tensor, keras.KerasTensor) or _has_mask(tensor):
        return
    found = _find(tensor)
    if found is None:
        return
    operation, masked = found
    warnings.warn(
        f"Layer '{layer.name}' attends to padding: '{_maker(masked).name}' makes a mask that "
        f"'{operation.name}' ({type(operation).__name__}) does not pass on. Give it to the layer, "
        f"`{argument}=...`, or put a layer that passes masks on in the place of '{operation.name}', such as "
        "`keras.layers.Add` between two masked sequences.",
        stacklevel=2,
    )


def _find(tensor: Any) -> tuple[Any, Any] | None:
    """The operation that lost a mask without a word, and its masked input."""
    waiting, seen = [tensor], set()
    while waiting:
        tensor = waiting.pop()
        node = _node(tensor)
        if node is None or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        operation = node.operation
        for source in _sources(node):
            if not _same_positions(source, tensor):
                continue
            if not _has_mask(source):
                waiting.append(source)
            elif not isinstance(operation, keras.layers.Layer) or operation.supports_masking:
                return operation, source
    return None


def _maker(tensor: Any) -> Any:
    """The layer where the mask of the tensor comes from."""
    node = _node(tensor)
    masked = [source for source in _sources(node) if _has_mask(source)]
    return _maker(masked[0]) if masked else node.operation


def _node(tensor: Any) -> Any:
    history = getattr(tensor, "_keras_history", None)
    return None if history is None else history.operation._inbound_nodes[history.node_index]


def _sources(node: Any) -> list[Any]:
    """The inputs whose positions the output can have: the first argument of a layer, all of an operation."""
    if isinstance(node.operation, keras.layers.Layer):
        given = keras.tree.flatten(node.arguments.args[:1])
        return [x for x in given if isinstance(x, keras.KerasTensor)]
    return [] if type(node.operation).__name__ in _MIXING else list(node.input_tensors)


def _same_positions(source: Any, tensor: Any) -> bool:
    return len(source.shape) == len(tensor.shape) > 2 and source.shape[1] == tensor.shape[1]


def _has_mask(tensor: Any) -> bool:
    return getattr(tensor, "_keras_mask", None) is not None
