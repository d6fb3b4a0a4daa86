"""Inputs of any rank as `(batch, length, channels)` and back, for attention over chosen axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation


class Layout:
    """Where the attended and the other axes of an input are; inputs of rank 3 pass through untouched.

    Args:
        attention_axes: Attended axes, in the order in which they are flattened into the length; `None`
            means all but batch and channels.
        ndim: Rank of the inputs, `(batch, ..., channels)`.
    """

    def __init__(self, attention_axes: Sequence[int] | None, ndim: int) -> None:
        inner = range(1, ndim - 1)
        axes = inner if attention_axes is None else (a + ndim if a < 0 else a for a in attention_axes)
        self.axes = tuple(axes)
        if len(set(self.axes)) < len(self.axes) or not set(self.axes) <= set(inner):
            raise ValueError(
                f"`attention_axes` must be distinct axes between the batch and the channels, 1 to {ndim - 2} "
                f"for inputs of rank {ndim}. Received: attention_axes={attention_axes}"
            )
        self.other_axes = tuple(axis for axis in inner if axis not in self.axes)
        self.is_flat = ndim == 3

    def check(self, query_shape: Sequence[Any], value_shape: Sequence[Any]) -> None:
        """Raises unless both shapes agree in the axes that are not attended over."""
        for axis in self.other_axes:
            if _validation.differ(query_shape[axis], value_shape[axis]):
                raise ValueError(
                    f"`query` and `value` must agree in axis {axis}, which is not one of the attention "
                    f"axes {self.axes}. "
                    f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
                )

    def _split(self, sizes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return [sizes[axis] for axis in (0, *self.other_axes)], [sizes[axis] for axis in self.axes]

    def flatten(self, x: Any, has_channels: bool = True) -> Any:
        """`(batch, ..., channels)` to `(batch * others, length, channels)`, the others unattended."""
        if self.is_flat:
            return x
        order = (0, *self.other_axes, *self.axes) + ((len(x.shape) - 1,) if has_channels else ())
        batch, length = self._split(ops.shape(x))
        if order != tuple(range(len(order))):
            x = ops.transpose(x, order)
        channels = (x.shape[-1],) if has_channels else ()
        return _functional.reshape(x, (_functional.product(batch), _functional.product(length), *channels))

    def flatten_masks(
        self, masks: dict[str, Any], query_sizes: Sequence[Any], key_sizes: Sequence[Any]
    ) -> dict[str, Any]:
        """The masks of the flattened tensors."""
        if self.is_flat:
            return masks
        flat = dict(masks)
        for name in ("query_mask", "value_mask", "key_mask"):
            if masks[name] is not None:
                flat[name] = self.flatten(_masks.as_bool(masks[name]), has_channels=False)
        mask = masks["attention_mask"]
        if mask is not None:
            flat["attention_mask"] = self._flatten_attention_mask(
                _masks.as_bool(mask), query_sizes, key_sizes
            )
        return flat

    def _flatten_attention_mask(self, mask: Any, query_sizes: Sequence[Any], key_sizes: Sequence[Any]) -> Any:
        batch, query_length = self._split(query_sizes)
        _, key_length = self._split(key_sizes)
        sizes = list(ops.shape(mask))
        num_leading = len(sizes) - 2 * len(self.axes)
        missing = len(batch) + 1 - num_leading
        sizes = [*sizes[:num_leading], *[1] * missing, *sizes[num_leading:]]
        heads = sizes[len(batch)]
        mask = _functional.reshape(mask, sizes)
        mask = ops.broadcast_to(mask, (*batch, heads, *query_length, *key_length))
        product = _functional.product
        return _functional.reshape(mask, (product(batch), heads, product(query_length), product(key_length)))

    def restore(self, x: Any, query_sizes: Sequence[Any]) -> Any:
        """`(batch * others, query_length, *features)` back to `(batch, ..., *features)`."""
        if self.is_flat:
            return x
        batch, length = self._split(query_sizes)
        order = (0, *self.other_axes, *self.axes)
        x = _functional.reshape(x, (*batch, *length, *x.shape[2:]))
        if order != tuple(range(len(order))):
            features = range(len(order), len(x.shape))
            x = ops.transpose(x, (*(order.index(axis) for axis in range(len(order))), *features))
        return x

    def restore_scores(self, scores: Any, query_sizes: Sequence[Any], key_sizes: Sequence[Any]) -> Any:
        """`(batch * others, num_heads, query_length, key_length)` back to `scores_sizes`."""
        if self.is_flat:
            return scores
        return _functional.reshape(scores, self.scores_sizes(query_sizes, key_sizes, scores.shape[1]))

    def scores_sizes(
        self, query_sizes: Sequence[Any], key_sizes: Sequence[Any], num_heads: int
    ) -> tuple[Any, ...]:
        """Sizes of the scores, `(batch, others, num_heads, *query_sizes, *key_sizes)`."""
        batch, query_length = self._split(query_sizes)
        _, key_length = self._split(key_sizes)
        return (*batch, num_heads, *query_length, *key_length)
