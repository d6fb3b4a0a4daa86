"""Checks of arguments and shapes, with messages that name the argument, the rule, the value and the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import initializers


def check_positive_int(name: str, value: Any, optional: bool = False) -> None:
    """Raises unless `value` is a positive integer (or `None` when `optional`)."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        allowed = "a positive integer or `None`" if optional else "a positive integer"
        raise TypeError(
            f"`{name}` must be {allowed}. Received: {name}={value!r} of type {type(value).__name__}"
        )
    if value <= 0:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")


def check_int(name: str, value: Any) -> None:
    """Raises unless `value` is an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{name}` must be an integer. Received: {name}={value!r}")


def check_number(name: str, value: Any) -> None:
    """Raises unless `value` is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")
    if not float("-inf") < value < float("inf"):
        raise ValueError(f"`{name}` must be finite. Received: {name}={value}")


def check_positive_number(name: str, value: Any) -> None:
    """Raises unless `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number above 0. Received: {name}={value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be finite and above 0. Received: {name}={value}")


def check_rate(name: str, value: Any) -> None:
    """Raises unless `value` is a number in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number in [0, 1). Received: {name}={value!r}")
    if not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be in [0, 1): it is the share of scores dropped. Received: {name}={value}"
        )


def check_bool(name: str, value: Any) -> None:
    """Raises unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False. Received: {name}={value!r}")


def check_layer(name: str, value: Any, method: str = "call") -> None:
    """Raises unless `value` is a Keras layer that has the method."""
    if not isinstance(value, keras.layers.Layer) or not hasattr(value, method):
        wanted = "a Keras layer" if method == "call" else f"a Keras layer with the method `{method}`"
        raise TypeError(
            f"`{name}` must be {wanted}, an object and not a class, or `None`. Received: {name}={value!r}"
        )


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises unless `value` is one of the strings."""
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {allowed}. Received: {name}={value!r}")


def int_tuple(name: str, value: Any, positive: bool = False) -> tuple[int, ...] | None:
    """`value`, an integer or a sequence of integers, as a tuple; `None` stays `None`."""
    if value is None:
        return None
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not items or any(isinstance(item, bool) or not isinstance(item, int) for item in items):
        raise TypeError(f"`{name}` must be an integer, a tuple of them or `None`. Received: {name}={value!r}")
    if positive and min(items) <= 0:
        raise ValueError(f"`{name}` must hold positive integers. Received: {name}={value}")
    return items


def clone_initializer(initializer: Any) -> Any:
    """A copy with its own random state, so that two weights never start with equal values."""
    if not isinstance(initializer, initializers.Initializer):
        return initializer
    return initializer.__class__.from_config(initializer.get_config())


def differ(first: Any, second: Any) -> bool:
    """Whether two dimensions are both known and different."""
    return first is not None and second is not None and first != second


def check_sequence(name: str, shape: Sequence[Any]) -> None:
    """Raises unless `shape` is that of a sequence with a known number of channels."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"`{name}` must have rank 3, (batch, length, channels), with known channels. "
            f"Received: {name}.shape={tuple(shape)}"
        )


def check_shapes(
    query_shape: Sequence[Any], value_shape: Sequence[Any], key_shape: Sequence[Any] | None
) -> None:
    """Raises unless batch sizes agree and `key` and `value` are of one rank and length."""
    received = f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
    if key_shape is not None:
        received += f", key.shape={tuple(key_shape)}"
        if len(key_shape) != len(value_shape) or any(
            differ(k, v) for k, v in zip(key_shape[:-1], value_shape[:-1], strict=True)
        ):
            raise ValueError(
                f"`key` and `value` must agree in every axis but the last: each key has one value. {received}"
            )
    if differ(query_shape[0], value_shape[0]):
        raise ValueError(f"`query` and `value` must have the same batch size. {received}")
    if (
        query_shape[-1] is None
        or value_shape[-1] is None
        or (key_shape is not None and key_shape[-1] is None)
    ):
        raise ValueError(f"The last axis of `query`, `value` and `key` must be known. {received}")


def check_masks(
    query_mask_shape: Sequence[Any],
    key_mask_shape: Sequence[Any],
    scores_shape: Sequence[Any],
    num_attention_axes: int,
    query_mask: Any = None,
    value_mask: Any = None,
    key_mask: Any = None,
    attention_mask: Any = None,
) -> None:
    """Raises unless every mask has the shape of what it masks; `attention_mask` may broadcast to the scores.

    Args:
        query_mask_shape: Expected shape of `query_mask`.
        key_mask_shape: Expected shape of `value_mask` and `key_mask`.
        scores_shape: `(batch, [...,] [num_heads,] *query_sizes, *key_sizes)`.
        num_attention_axes: Number of axes in `query_sizes` and in `key_sizes`.
        query_mask: Mask or `None`.
        value_mask: Mask or `None`.
        key_mask: Mask or `None`.
        attention_mask: Mask or `None`.
    """
    for name, mask, expected in (
        ("query_mask", query_mask, query_mask_shape),
        ("value_mask", value_mask, key_mask_shape),
        ("key_mask", key_mask, key_mask_shape),
    ):
        check_mask(name, mask, expected)
    check_mask_dtype("attention_mask", attention_mask)
    if attention_mask is None:
        return
    ndim, num_trailing = len(attention_mask.shape), 2 * num_attention_axes
    leading, trailing = tuple(scores_shape[:-num_trailing]), tuple(scores_shape[-num_trailing:])
    if ndim < len(scores_shape) and len(leading) > 1:
        leading = leading[:-1]  # without the heads
    expected = (*leading[: ndim - num_trailing], *trailing) if ndim >= num_trailing else ()
    if not _matches(attention_mask.shape, expected, broadcast=True):
        raise ValueError(
            f"`attention_mask` must broadcast to the attention scores, {tuple(scores_shape)}; the batch and "
            f"the heads may be left out. Received: attention_mask.shape={tuple(attention_mask.shape)}"
        )


def check_mask(name: str, mask: Any, shape: Sequence[Any]) -> None:
    """Raises unless the mask, if there is one, has the shape and is no float mask."""
    check_mask_dtype(name, mask)
    if mask is not None and not _matches(mask.shape, shape):
        raise ValueError(
            f"`{name}` must have shape {tuple(shape)}, True where a position takes part. "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )


def check_mask_dtype(name: str, mask: Any) -> None:
    """Raises for a float mask: one that is meant to be added, 0 and -1e9, would say the opposite."""
    dtype = getattr(mask, "dtype", None)
    if dtype is not None and keras.backend.is_float_dtype(keras.backend.standardize_dtype(dtype)):
        raise TypeError(
            f"`{name}` must be boolean, True where a position takes part; turn an additive mask into "
            f"`{name} > -1`, and ones and zeros into `{name} > 0.5`. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(dtype)}"
        )


def _matches(shape: Sequence[Any], expected: Sequence[Any], broadcast: bool = False) -> bool:
    return len(shape) == len(expected) and not any(
        differ(size, wanted) and not (broadcast and size == 1)
        for size, wanted in zip(shape, expected, strict=True)
    )
