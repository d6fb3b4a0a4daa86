"""Attention by kernel features: `phi(query) · phi(key)` takes the place of the exponential of the logit.

Features and sums are float32 or better. Sums over keys come first, so that no pair of positions is formed
outside a chunk. Tensors are `(batch, length, num_heads, features)` outside and of rank 4 or below inside.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention.long_sequences import _blocks

# Keeps a feature of the ReLU alive where all inputs are negative, as in the paper's code.
RELU_FLOOR = 1e-3
# Exponents of this size are far from the largest float32, e^88, even when summed over a long sequence.
LARGEST_EXPONENT = 30.0
# Sums of feature products below this count as none.
LEAST_SUM = 1e-30
_MOST_CHUNKS = 64


def widen(x: Any) -> Any:
    """The tensor in float32 at least."""
    is_half = keras.backend.standardize_dtype(x.dtype) in ("float16", "bfloat16")
    return ops.cast(x, "float32") if is_half else x


def mask_keys(features: Any, key_mask: Any, low: float = 0.0) -> Any:
    """Features of the keys that may not be attended to become `low`."""
    if key_mask is None:
        return features
    batch, length = ops.shape(key_mask)
    return ops.where(_functional.reshape(key_mask, (batch, length, 1, 1)), features, low)


def elu_features(x: Any) -> Any:
    """`elu(x) + 1`."""
    return ops.add(ops.elu(x), 1.0)


def relu_features(x: Any) -> Any:
    """`relu(x)`, never quite zero."""
    return ops.add(ops.relu(x), RELU_FLOOR)


def performer_query_features(query: Any, projection: Any) -> Any:
    """`exp(projection · query)` up to a factor for each query, which the division cancels."""
    exponents = _project(query, projection)
    largest = ops.stop_gradient(ops.max(exponents, axis=-1, keepdims=True))
    return ops.exp(ops.subtract(exponents, largest))


def performer_key_features(key: Any, projection: Any, key_mask: Any, is_causal: bool) -> Any:
    """`exp(projection · key - |key|^2 / 2)` up to a factor for all keys, which the division cancels.

    The factor makes the largest feature 1. With a causal mask it may not depend on the keys, some of which
    are in the future; the exponents are at most `|projection|^2 / 2` then.
    """
    scaled = ops.multiply(key, key.shape[-1] ** -0.25)
    norms = ops.multiply(ops.sum(ops.square(scaled), axis=-1, keepdims=True), 0.5)
    exponents = ops.subtract(_project(key, projection), norms)
    if is_causal:
        bound = 0.5 * ops.max(ops.sum(ops.square(projection), axis=0))
        largest = ops.maximum(bound - LARGEST_EXPONENT, 0.0)
    else:
        exponents = mask_keys(exponents, key_mask, _blocks.HIDDEN_LOGIT)
        largest = ops.stop_gradient(ops.max(exponents, axis=(1, 3), keepdims=True))
    return mask_keys(ops.exp(ops.subtract(exponents, largest)), key_mask)


def _project(x: Any, projection: Any) -> Any:
    scaled = ops.multiply(x, x.shape[-1] ** -0.25)
    return ops.matmul(scaled, ops.cast(projection, x.dtype))


def orthogonal_projection(shape: tuple[int, int], seed: int | None, dtype: Any) -> Any:
    """Columns of the lengths of normal vectors, orthogonal within groups of `shape[0]`.

    Args:
        shape: `(head_dim, num_features)`.
        seed: Seed of the random numbers.
        dtype: Dtype of the result.
    """
    head_dim, num_features = shape
    num_groups = -(-num_features // head_dim)
    normal = keras.initializers.RandomNormal(stddev=1.0, seed=seed)
    first, second = normal((2, num_groups, head_dim, head_dim), dtype="float32")
    directions, triangles = ops.qr(first)
    signs = ops.sign(ops.diagonal(triangles, axis1=-2, axis2=-1))
    directions = directions * ops.expand_dims(signs, 1)
    columns = directions * ops.expand_dims(ops.norm(second, axis=-1), 1)
    columns = ops.reshape(ops.transpose(columns, (1, 0, 2)), (head_dim, num_groups * head_dim))
    return ops.cast(columns[:, :num_features], dtype)


def divide(sums: Any, totals: Any) -> Any:
    """`sums / totals`, zeros where no key counts."""
    return ops.divide(sums, ops.where(ops.greater(totals, LEAST_SUM), totals, 1.0))


def _with_ones(value: Any) -> Any:
    """The values with a column of ones behind them: what is summed over them is the divisor."""
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def _normalized(sums: Any) -> Any:
    return divide(sums[..., :-1], sums[..., -1:])


def attend(query: Any, key: Any, value: Any) -> Any:
    """Every query and all keys: `phi(query) (phi(key)^T value) / (phi(query) sum phi(key))`.

    Args:
        query: Features of the queries, `(batch, query_length, num_heads, num_features)`.
        key: Features of the keys, `(batch, key_length, num_heads, num_features)`, zeros where masked.
        value: Values, `(batch, key_length, num_heads, value_dim)`.
    """
    query, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, value))
    state = ops.matmul(ops.transpose(key, (0, 2, 3, 1)), _with_ones(value))
    return ops.transpose(_normalized(ops.matmul(query, state)), (0, 2, 1, 3))


def attend_causally(query: Any, key: Any, value: Any, size: int) -> Any:
    """As `attend`, each query with the keys up to its own position, in chunks of `size` positions."""
    batch, length, num_heads, _ = ops.shape(query)
    size = min(size, length) if isinstance(length, int) else size
    count = _blocks.count_blocks(length, size)
    folded = _functional.product([batch, count])

    def fold(x: Any) -> Any:
        blocks = _functional.reshape(_blocks.to_blocks(x, count, size), (folded, size, *x.shape[2:]))
        return ops.transpose(blocks, (0, 2, 1, 3))

    value_dim = value.shape[-1]
    query, key, value = fold(query), fold(key), _with_ones(fold(value))
    earlier = np.tril(np.ones((size, size), "float32"))[None, None]
    products = ops.matmul(query, _functional.swap_last_axes(key))  # (folded, num_heads, size, size)
    sums = ops.matmul(ops.multiply(products, ops.cast(earlier, products.dtype)), value)
    if not isinstance(count, int) or count > 1:
        state = ops.matmul(_functional.swap_last_axes(key), value)
        sizes = ops.shape(state)
        features = sizes[1] * sizes[2] * sizes[3]
        state = sums_before(_functional.reshape(state, (batch, count, features)))
        sums = _functional.add(sums, ops.matmul(query, _functional.reshape(state, sizes)))
    context = ops.transpose(_normalized(sums), (0, 2, 1, 3))
    context = _functional.reshape(context, (batch, count * size, num_heads, value_dim))
    return _blocks.cut(context, length)


def sums_before(x: Any) -> Any:
    """Sums of all earlier rows of `(batch, count, features)`, by groups of groups: the cost is linear."""
    batch, count, features = ops.shape(x)
    if not isinstance(count, int):
        return ops.subtract(ops.cumsum(x, axis=1), x)
    if count <= _MOST_CHUNKS:
        return ops.matmul(ops.cast(np.tril(np.ones((count, count), "float32"), -1), x.dtype), x)
    groups = _blocks.count_blocks(count, _MOST_CHUNKS)
    blocks = _blocks.to_blocks(x, groups, _MOST_CHUNKS)
    within = ops.cast(np.tril(np.ones((_MOST_CHUNKS, _MOST_CHUNKS), "float32"), -1), x.dtype)
    before = ops.expand_dims(sums_before(ops.sum(blocks, axis=2)), 2)
    sums = _functional.add(ops.matmul(within, blocks), before)
    sums = _functional.reshape(sums, (batch, groups * _MOST_CHUNKS, features))
    return _blocks.cut(sums, count)


def pair_scores(query: Any, key: Any, mask: Any) -> Any:
    """Weights of all pairs, which sum to 1, `(batch, num_heads, query_length, key_length)`."""
    query, key = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    products = ops.matmul(query, _functional.swap_last_axes(key))
    if mask is not None:
        products = ops.where(mask, products, 0.0)
    return divide(products, ops.sum(products, axis=-1, keepdims=True))
