"""Concatenation in a form that XNNPACK takes: a tree of operators with four inputs each."""

from __future__ import annotations

from typing import Any

from keras import ops

_MOST = 4
"""Tensors that one CONCATENATION joins; the delegate takes no more than five."""


def join(tensors: list[Any], axis: int) -> Any:
    """Concatenate the tensors over an axis."""
    while len(tensors) > 1:
        groups = [tensors[start : start + _MOST] for start in range(0, len(tensors), _MOST)]
        tensors = [ops.concatenate(group, axis=axis) if len(group) > 1 else group[0] for group in groups]
    return tensors[0]
