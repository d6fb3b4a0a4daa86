"""Masks as functions. All are boolean, True = attend, and fit the mask arguments of the layers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _masks
from keras_attention import _validation


def padding_mask(
    inputs: Any = None, padding_value: float = 0, lengths: Any = None, max_length: int | None = None
) -> Any:
    """Mask `(batch, length)` of the positions that are no padding, for `query_mask` and `value_mask`.

    Give the padded inputs themselves, or the number of real steps of each.

    Args:
        inputs: Ids `(batch, length)`, or a sequence `(batch, length, channels)`, where a step counts as
            padding when all its channels are `padding_value`.
        padding_value: Number that stands for padding. Defaults to `0`.
        lengths: Integers `(batch,)`, in place of `inputs`; the real steps come first.
        max_length: Integer. Length of the padded sequences; needed with `lengths`.

    Returns:
        A boolean array where the argument is an array or a list, otherwise a tensor.

    Example:
    ```python
    from keras_attention import padding_mask

    print(padding_mask([[5, 3, 0], [7, 0, 0]]))  # [[True, True, False], [True, False, False]]
    print(padding_mask(lengths=[2, 1], max_length=3))  # the same
    ```
    """
    if (inputs is None) == (lengths is None) or (lengths is None) != (max_length is None):
        raise ValueError(
            "Give `padding_mask` either `inputs`, or `lengths` and `max_length`. Received: "
            f"inputs={_name(inputs)}, lengths={_name(lengths)}, max_length={max_length}"
        )
    if inputs is None:
        return _mask_of_lengths(lengths, max_length)
    inputs = _as_array(inputs)
    _check_rank("inputs", inputs, (2, 3), "(batch, length) or (batch, length, channels)")
    has_channels = len(inputs.shape) == 3
    if isinstance(inputs, np.ndarray):
        mask = inputs != padding_value
        return mask.any(-1) if has_channels else mask
    mask = ops.not_equal(inputs, padding_value)
    return ops.any(mask, axis=-1) if has_channels else mask


def causal_mask(query_length: Any, key_length: Any = None) -> Any:
    """Mask `(query_length, key_length)` by which position i sees the keys 0 to i, for `attention_mask`.

    The layers make it themselves with `use_causal_mask=True`.

    Args:
        query_length: Integer or scalar tensor. Number of queries.
        key_length: Integer, scalar tensor or `None`. Number of keys. Defaults to `query_length`.

    Returns:
        A boolean array where the lengths are integers, otherwise a tensor.

    Example:
    ```python
    from keras_attention import causal_mask

    print(causal_mask(3).astype(int))  # [[1 0 0], [1 1 0], [1 1 1]]
    ```
    """
    query_length = _length("query_length", query_length)
    key_length = query_length if key_length is None else _length("key_length", key_length)
    return _masks.position_mask(query_length, key_length, 2, True)


def sliding_window_mask(
    query_length: Any, sliding_window: int, key_length: Any = None, use_causal_mask: bool = False
) -> Any:
    """Mask `(query_length, key_length)` of the pairs less than `sliding_window` apart, for `attention_mask`.

    Args:
        query_length: Integer or scalar tensor. Number of queries.
        sliding_window: Integer. Positions seen to either side, the query's own included.
        key_length: Integer, scalar tensor or `None`. Number of keys. Defaults to `query_length`.
        use_causal_mask: Boolean. Whether later keys are left out. Defaults to `False`.

    Returns:
        A boolean array where the lengths are integers, otherwise a tensor.

    Example:
    ```python
    from keras_attention import sliding_window_mask

    print(sliding_window_mask(4, 2).astype(int))  # [[1 1 0 0], [1 1 1 0], [0 1 1 1], [0 0 1 1]]
    ```
    """
    _validation.check_positive_int("sliding_window", sliding_window)
    _validation.check_bool("use_causal_mask", use_causal_mask)
    query_length = _length("query_length", query_length)
    key_length = query_length if key_length is None else _length("key_length", key_length)
    return _masks.position_mask(query_length, key_length, 2, use_causal_mask, sliding_window)


def combine_masks(*masks: Any) -> Any:
    """Mask that is True where all masks are; they broadcast as arrays do, and each `None` is skipped.

    Args:
        *masks: Boolean or integer masks, or `None`. A padding mask of keys gets the axis of the queries
            first: `ops.expand_dims(mask, 1)`.

    Returns:
        A boolean array where all masks are arrays, otherwise a tensor; `None` where there is no mask.

    Example:
    ```python
    import numpy as np
    from keras_attention import causal_mask, combine_masks, padding_mask

    keys = padding_mask(lengths=[2, 3], max_length=3)  # (batch, key_length)
    mask = combine_masks(np.expand_dims(keys, 1), causal_mask(3), None)
    print(mask.shape)  # (2, 3, 3)
    ```
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        mask = _as_array(mask)
        _validation.check_mask_dtype("masks", mask)
        mask = mask.astype(bool) if isinstance(mask, np.ndarray) else _masks.as_bool(mask)
        if combined is not None and not _broadcast(combined.shape, mask.shape):
            raise ValueError(
                "All `masks` must broadcast; a padding mask of keys, (batch, key_length), needs an axis "
                "of the queries: `ops.expand_dims(mask, 1)`. "
                f"Received: masks of shape {tuple(combined.shape)} and {tuple(mask.shape)}"
            )
        combined = _masks.logical_and(combined, mask)
    return combined


def _mask_of_lengths(lengths: Any, max_length: Any) -> Any:
    _validation.check_positive_int("max_length", max_length)
    lengths = _as_array(lengths)
    _check_rank("lengths", lengths, (1,), "(batch,)")
    if isinstance(lengths, np.ndarray):
        return np.arange(max_length) < lengths.reshape((-1, 1))
    positions = ops.arange(max_length, dtype=keras.backend.standardize_dtype(lengths.dtype))
    return ops.less(ops.reshape(positions, (1, -1)), ops.reshape(lengths, (-1, 1)))


def _length(name: str, value: Any) -> Any:
    if isinstance(value, np.integer):
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number and not hasattr(value, "dtype"):
        raise TypeError(f"`{name}` must be an integer or a scalar tensor. Received: {name}={value!r}")
    if is_number and value < 0:
        raise ValueError(f"`{name}` must not be negative. Received: {name}={value}")
    return value


def _as_array(x: Any) -> Any:
    return x if hasattr(x, "dtype") else np.asarray(x)


def _name(x: Any) -> str:
    return "None" if x is None else type(x).__name__


def _check_rank(name: str, x: Any, ranks: tuple[int, ...], wanted: str) -> None:
    if len(x.shape) not in ranks:
        raise ValueError(f"`{name}` must have shape {wanted}. Received: {name}.shape={tuple(x.shape)}")


def _broadcast(first: Any, second: Any) -> bool:
    pairs = zip(reversed(tuple(first)), reversed(tuple(second)), strict=False)
    return not any(_validation.differ(a, b) and 1 not in (a, b) for a, b in pairs)
