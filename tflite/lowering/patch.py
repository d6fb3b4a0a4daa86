"""What the lowering passes share: the patch that a pass hands over, and the record of what was done."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import Any

from keras_attention.tflite.size_prediction import predict_unrolled_bytes


@dataclass(frozen=True)
class Patch:
    """An instance attribute to replace while the model is traced.

    Attributes:
        target: the layer.
        attribute: name of the attribute; instance attributes hide methods of the class.
        value: what it is replaced by.
    """

    target: Any
    attribute: str
    value: Any


@dataclass
class Lowering:
    """The limits of a lowering, and the record of what it did.

    Attributes:
        max_unrolled_steps: longest sequence over which a recurrent layer is unrolled.
        changes: path of the layer -> what was changed, in a few words.
        loops: path of each recurrent layer that kept its loop -> its number of steps (-1: open size).
        sizes: path of each recurrent layer -> bytes that its steps take, or would take, written out.
        states: id of each stateful layer -> its present states, one tensor each.
    """

    max_unrolled_steps: int
    changes: dict[str, str] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    states: dict[int, list[Any]] = field(default_factory=dict)

    def note(self, layer: Any, change: str) -> None:
        """Record a change of a layer, beside those it has."""
        known = self.changes.get(layer.path)
        if known is None:
            self.changes[layer.path] = change
        elif change not in known:
            self.changes[layer.path] = f"{known}; {change}"

    def unrolls(self, layer: Any, batch: int | None, length: int | None, mask: Any) -> bool:
        """Decide whether a recurrent layer is unrolled, and record the decision."""
        if length is not None:
            size = predict_unrolled_bytes(layer, length, is_masked=mask is not None)
            self.sizes[layer.path] = self.sizes.get(layer.path, 0) + size
        if batch is not None and length is not None and length <= self.max_unrolled_steps:
            self.changes[layer.path] = f"{length} recurrent steps unrolled"
            return True
        self.loops[layer.path] = -1 if batch is None or length is None else length
        return False
