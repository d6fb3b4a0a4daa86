"""Keys and values of the positions that are decoded already: how they are kept, written and masked.

A cache is a pair of tensors `(batch, num_key_value_heads, max_length, head_dim)`. Heads stand before
positions, as the products with the queries want them: a step transposes its own few tokens, never the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention import _validation

_LENGTH_AXIS = 2


def check(shapes: Sequence[Any], cache: Any, cache_index: Any, expected: Sequence[Sequence[Any]]) -> None:
    """Raises unless the cache, the index and the new tokens fit each other.

    Args:
        shapes: Shapes of query, value and, or `None`, key.
        cache: Pair of tensors.
        cache_index: Number of positions in the cache.
        expected: Shapes of the pair, `None` where any size will do.
    """
    if cache is None or cache_index is None:
        raise ValueError(
            "`cache` and `cache_index`, the number of positions that are in it, go together. "
            f"Received: cache={'None' if cache is None else 'given'}, cache_index={cache_index}"
        )
    if any(shape is not None and len(shape) != 3 for shape in shapes):
        raise ValueError(
            "`cache` needs inputs of rank 3, (batch, length, channels). "
            f"Received: query.shape={tuple(shapes[0])}, value.shape={tuple(shapes[1])}"
        )
    if shapes[0][1] != shapes[1][1]:
        raise ValueError(
            "With `cache`, `query` and `value` are the same new tokens, of one length. "
            f"Received: query.shape={tuple(shapes[0])}, value.shape={tuple(shapes[1])}"
        )
    expected = [(shapes[0][0], *shape[1:]) for shape in expected]
    is_pair = isinstance(cache, (list, tuple)) and len(cache) == 2
    given = [tuple(x.shape) for x in cache] if is_pair else []
    fits = is_pair and all(
        len(shape) == 4 and not any(map(_validation.differ, shape, wanted))
        for shape, wanted in zip(given, expected, strict=True)
    )
    if not fits or _validation.differ(given[0][_LENGTH_AXIS], given[1][_LENGTH_AXIS]):
        keys, values = (str(shape).replace("None, ", "max_length, ", 2) for shape in map(tuple, expected))
        raise ValueError(
            "`cache` must be a pair of keys (batch, num_key_value_heads, max_length, key_dim) and values of "
            f"value_dim, as `make_cache` makes it, here {keys} and {values}. "
            f"Received: shapes {given if is_pair else cache!r}"
        )
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in cache]
    if not all(map(keras.backend.is_float_dtype, dtypes)):
        raise TypeError(
            "`cache` must hold floats, as `make_cache` makes it; integers would cut off what is kept. "
            f"Received: cache of dtypes {dtypes}"
        )
    _check_index(cache_index, shapes[0][:2], given[0][_LENGTH_AXIS])


def _check_index(index: Any, sizes: Sequence[Any], max_length: int | None) -> None:
    batch, length = sizes
    if isinstance(index, bool) or not (isinstance(index, int) or hasattr(index, "shape")):
        raise TypeError(
            "`cache_index` must be an integer or an integer tensor. "
            f"Received: cache_index={index!r} of type {type(index).__name__}"
        )
    if isinstance(index, int):
        if length is not None and max_length is not None and not 0 <= index <= max_length - length:
            raise ValueError(
                f"`cache_index` plus the number of new tokens must be at most max_length={max_length}. "
                f"Received: cache_index={index}, {length} new tokens"
            )
        return
    shape, dtype = tuple(index.shape), keras.backend.standardize_dtype(index.dtype)
    if not (shape in ((), (1,)) or (len(shape) == 1 and not _validation.differ(shape[0], batch))):
        raise ValueError(
            "`cache_index` must be an integer, or an integer tensor of shape (), (1,) or (batch,). "
            f"Received: cache_index.shape={shape}, batch={batch}"
        )
    if not keras.backend.is_int_dtype(dtype):
        raise TypeError(f"`cache_index` must hold integers. Received: cache_index.dtype={dtype}")


def as_start(cache_index: Any) -> Any:
    """Position of the first new token: an integer, a scalar tensor, or one of shape `(batch,)`, of int32."""
    if isinstance(cache_index, int):
        return cache_index
    index = ops.cast(cache_index, "int32")
    return ops.reshape(index, ()) if tuple(index.shape) == (1,) else index


def is_per_sequence(start: Any) -> bool:
    """Whether each sequence of the batch has a position of its own."""
    return not isinstance(start, int) and len(start.shape) == 1


def positions(start: Any, length: Any) -> Any:
    """Positions `(batch, length)` of the new tokens, for a start of shape `(batch,)`."""
    return ops.add(ops.reshape(start, (-1, 1)), ops.arange(length, dtype="int32"))


def write(cache: Any, new: Any, start: Any) -> Any:
    """A copy of one tensor of the cache with the new `(batch, length, heads, head_dim)` from `start` on."""
    length = ops.shape(new)[1]
    new = ops.cast(ops.transpose(new, (0, 2, 1, 3)), cache.dtype)
    if not is_per_sequence(start):
        return ops.slice_update(cache, ops.multiply(start, np.array([0, 0, 1, 0], "int32")), new)
    slots = ops.reshape(ops.arange(ops.shape(cache)[_LENGTH_AXIS], dtype="int32"), (1, 1, -1, 1))
    targets = _functional.reshape(positions(start, length), (ops.shape(start)[0], 1, 1, length))
    is_target = ops.equal(slots, targets)  # (batch, 1, max_length, length)
    moved = ops.matmul(ops.cast(is_target, new.dtype), new)
    return ops.where(ops.any(is_target, axis=-1, keepdims=True), moved, cache)
