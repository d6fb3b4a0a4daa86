"""What a layer is tested with: one row of a table that every shared test reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
from contract import mixed_mask
from contract import normal

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer, how it is made and called, and what must come of it.

    Args:
        name: name of the case, unique among all.
        cls: class of the layer.
        config: arguments of its constructor. Arguments that are layers are given as functions without
            arguments that make them, since no two layers may share one.
        shapes: shapes of its tensors, in the order of the call, each with the batch first.
        output_shape: expected shape of the output.
        scores_shape: expected shape of what `return_attention_scores=True` adds; `None`: it has no such
            argument. `more_scores_shapes`: of further scores behind them.
        num_weights: expected number of trainable weights; `num_frozen`: of all others, such as tables.
        masks: boolean arguments of the call and their shapes, `use_causal_mask` with the shape `()`.
        call: further arguments of every call.
        reference: function of the inputs in float64, and by keyword of `weights` (path below the layer's own
            -> array), `config` and the masks given; returns the output, or `(output, scores)`.
        unmoved: ends of paths of weights whose gradient is zero by the mathematics.
        moving: ends of paths of frozen weights that training moves, such as the statistics of batch norm.
        makers: functions of `(rng, shape)` that make the inputs, by position; normal numbers elsewhere.
        known_axes: axes, as (input, axis), that must be known when the model is built; the last one always.
        passes_mask: whether the mask attached to the first input goes on with the output.
        is_zero_when_masked: whether a query that may attend to nothing gives zeros (without biases), so that
            the output has no part which goes around the attention.
        keys_masked_by: masks that, all False, leave nothing to attend to.
        gradient_tolerance: least relative tolerance of gradients against central differences, for functions
            with kinks that a difference may cross.
        int8_db: least SQNR of its test model in int8.
    """

    name: str
    cls: type
    config: Mapping[str, Any]
    shapes: tuple[Shape, ...]
    output_shape: Shape
    num_weights: int
    scores_shape: Shape | None = None
    more_scores_shapes: tuple[Shape, ...] = ()
    num_frozen: int = 0
    masks: Mapping[str, Shape] = dataclasses.field(default_factory=dict)
    call: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    unmoved: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()
    makers: Mapping[int, Callable[..., np.ndarray]] = dataclasses.field(default_factory=dict)
    known_axes: frozenset[tuple[int, int]] = frozenset()
    passes_mask: bool = True
    is_zero_when_masked: bool = True
    keys_masked_by: tuple[str, ...] = ()
    gradient_tolerance: float = 0.0
    int8_db: float = 30.0

    def __str__(self) -> str:
        return self.name

    def make_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with layers of their own."""
        return {n: v() if callable(v) and not isinstance(v, type) else v for n, v in self.config.items()}

    def make(self, **more: Any) -> Any:
        """The layer, seeded, not built."""
        return self.cls(**{**self.make_config(), **more})

    def make_inputs(self, rng: np.random.Generator, batch: int | None = None) -> list[np.ndarray]:
        """The inputs of a call; `batch` takes the place of the first size."""
        shapes = self.shapes if batch is None else [(batch, *shape[1:]) for shape in self.shapes]
        make = [self.makers.get(i, lambda rng, shape: normal(rng, *shape)) for i in range(len(shapes))]
        return [function(rng, shape) for function, shape in zip(make, shapes, strict=True)]

    def make_masks(self, rng: np.random.Generator, names: tuple[str, ...]) -> dict[str, Any]:
        """The named masks, each holding both values; `use_causal_mask` as the argument that it is."""
        return {n: mixed_mask(rng, *self.masks[n]) if self.masks[n] else True for n in names}

    @property
    def mask_sets(self) -> list[tuple[str, ...]]:
        """No mask, each alone, and all together."""
        alone = [(name,) for name in self.masks]
        return [(), *alone, *([tuple(self.masks)] if len(alone) > 1 else [])]

    def call_layer(self, layer: Any, inputs: Any, **masks: Any) -> tuple[Any, ...]:
        """Output and, where there are any, scores."""
        if self.scores_shape is None:
            return (layer(*inputs, **self.call, **masks),)
        return tuple(layer(*inputs, **self.call, **masks, return_attention_scores=True))

    def call_output(self, layer: Any, inputs: Any, **masks: Any) -> Any:
        """The output alone, by the path that forms no scores."""
        return layer(*inputs, **self.call, **masks)
