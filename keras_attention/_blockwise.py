"""Exact softmax attention that holds the scores of one block of queries at a time, in training too.

The blocks run one after the other in a loop. The backward pass forms the scores of each block again instead
of keeping them, so that memory grows with the length and not with its square.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks

MOST_BANDS = 4
"""Parts of a causal loop, each reading the keys up to its last query: at most 5/8 of all pairs are formed."""
SEED_STRIDE = 1_000_003
"""Distance of the dropout seeds of two blocks; layers next to each other have seeds that differ by less."""


@dataclasses.dataclass(frozen=True)
class Blocks:
    """How blocks of queries attend.

    Args:
        size: Queries of one block.
        scale: Factor of the dot product.
        use_causal_mask: Whether query position i sees the key positions 0 to i only.
        sliding_window: Number of positions seen to either side, itself included, or `None`.
        dropout: Share of the scores dropped; 0 unless training.
        seed: Seed of the dropout of this call, an integer tensor of shape `(2,)`; `None` without dropout.
        bias: Function of `(query_length, key_length, query_start)` that returns what is added to the logits
            of these queries, `(1, num_heads, query_length, key_length)`; without weights, as it gets no
            gradient.
    """

    size: int
    scale: float
    use_causal_mask: bool = False
    sliding_window: int | None = None
    dropout: float = 0.0
    seed: Any = None
    bias: Callable[[Any, Any, Any], Any] | None = None


class _BlockSeed(keras.random.SeedGenerator):
    """The same seed at each draw, so that the backward pass drops what the forward pass dropped."""

    def __init__(self, seed: Any, index: Any) -> None:
        # no call of the base: it would make a variable
        self.value = ops.stack([seed[0] + ops.cast(index * SEED_STRIDE, seed.dtype), seed[1]])

    def next(self, ordered: bool = True) -> Any:
        return self.value


def attend(query: Any, key: Any, value: Any, mask: Any, blocks: Blocks) -> Any:
    """Returns the context, `(batch, query_length, num_heads, value_dim)`.

    Where a length is unknown while tracing, the loop counts its blocks at run time and each reads all keys.

    Args:
        query: Tensor of shape `(batch, query_length, num_heads, key_dim)`.
        key: Tensor of shape `(batch, key_length, num_key_value_heads, key_dim)`; each of its heads
            serves as many query heads, next to each other.
        value: Tensor of shape `(batch, key_length, num_key_value_heads, value_dim)`.
        mask: Boolean tensor of rank 4 that broadcasts to the scores, or `None`; without what `blocks` masks.
        blocks: How the blocks attend.
    """
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    length, key_length = ops.shape(query)[2], ops.shape(key)[2]
    if isinstance(length, int):
        blocks = dataclasses.replace(blocks, size=min(blocks.size, length))
    mask = None if mask is None else ops.convert_to_tensor(mask)
    if mask is not None and mask.shape[2] != 1:
        mask = _cut(mask, length, blocks.size)
    rest = {name: x for name, x in (("mask", mask), ("seed", blocks.seed)) if x is not None}

    def forward_and_backward(rows: Any, key: Any, value: Any, *given: Any) -> tuple[Any, Any]:
        # Mask and seed are arguments too: JAX may compile the two passes apart from where they were made.
        tensors = dict(zip(rest, given, strict=True))
        num_blocks = (length + blocks.size - 1) // blocks.size
        loop = _Loop(blocks, num_blocks, key_length, tensors.get("mask"), tensors.get("seed"))

        def backward(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            upstream = args[0] if upstream is None else upstream  # PyTorch names it, the others do not
            return (*loop.backward(rows, key, value, upstream), *(None for _ in rest))

        return loop.forward(rows, key, value), backward

    attend_blocks = ops.custom_gradient(forward_and_backward)
    context = attend_blocks(_cut(query, length, blocks.size), key, value, *rest.values())
    return ops.transpose(_join(context, length), (0, 2, 1, 3))


@dataclasses.dataclass(frozen=True)
class _Loop:
    """Both passes over the blocks of one call.

    Queries, context and their gradients are `(num_blocks, batch, num_heads, size, head_dim)`, and alike is a
    mask that differs from query to query; keys and values `(batch, num_heads, key_length, head_dim)`.
    """

    blocks: Blocks
    num_blocks: Any
    key_length: Any
    mask: Any
    seed: Any

    def forward(self, query: Any, key: Any, value: Any) -> Any:
        width = max(query.shape[-1], value.shape[-1])

        def step(index: Any, num_keys: Any, rows: Any) -> tuple[Any]:
            # The context takes the place of the queries: so each block waits for the one before, and no two
            # are in memory at once, however many operators the backend would start.
            block = rows[index][..., : query.shape[-1]]
            first = self._first_key(index, num_keys)
            scores = self._scores(block, _part(key, 2, first, num_keys), index, first, num_keys)
            context = _times(self._drop(scores, index), _part(value, 2, first, num_keys))
            return (_put(rows, index, _pad(context, 3, width - value.shape[-1])),)

        (rows,) = self._run(step, (_pad(query, 4, width - query.shape[-1]),))
        return rows[..., : value.shape[-1]]

    def backward(self, query: Any, key: Any, value: Any, upstream: Any) -> tuple[Any, Any, Any]:
        dtype = keras.backend.standardize_dtype(query.dtype)
        sum_dtype = "float32" if dtype in ("float16", "bfloat16") else dtype
        scale = _functional.factor(self.blocks.scale, query)

        def step(index: Any, num_keys: Any, rows: Any, key_sum: Any, value_sum: Any) -> tuple[Any, ...]:
            block, gradient = rows[index], upstream[index]
            first = self._first_key(index, num_keys)
            keys = _part(key, 2, first, num_keys)
            scores = self._scores(block, keys, index, first, num_keys)
            of_values = _times_transposed(self._drop(scores, index), gradient, value.shape[1])
            by_scores = _times(gradient, _functional.swap_last_axes(_part(value, 2, first, num_keys)))
            by_scores, scores = (ops.cast(x, sum_dtype) for x in (self._drop(by_scores, index), scores))
            mean = ops.sum(ops.multiply(by_scores, scores), axis=-1, keepdims=True)
            by_logits = ops.cast(ops.multiply(scores, ops.subtract(by_scores, mean)), dtype)
            of_keys = _times_transposed(by_logits, ops.multiply(block, scale), key.shape[1])
            of_queries = ops.multiply(_times(by_logits, keys), scale)
            return (
                _put(rows, index, of_queries),
                _add_part(key_sum, first, num_keys, ops.cast(of_keys, sum_dtype)),
                _add_part(value_sum, first, num_keys, ops.cast(of_values, sum_dtype)),
            )

        sums = (ops.zeros_like(x, dtype=sum_dtype) for x in (key, value))
        rows, key_sum, value_sum = self._run(step, (query, *sums))
        return rows, ops.cast(key_sum, dtype), ops.cast(value_sum, dtype)

    def _run(self, step: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        """Takes the step for every block."""
        for first, stop, num_keys in self._bands():
            _, *carried = ops.while_loop(
                lambda index, *_, stop=stop: index < stop,
                lambda index, *state, num_keys=num_keys: (index + 1, *step(index, num_keys, *state)),
                (ops.convert_to_tensor(first, "int32"), *carried),
            )
        return tuple(carried)

    def _bands(self) -> list[tuple[int, Any, Any]]:
        """First block, the one after the last, and the number of keys that each reads."""
        size, window = self.blocks.size, self.blocks.sliding_window
        num_blocks = self.num_blocks
        if not isinstance(num_blocks, int) or not isinstance(self.key_length, int):
            return [(0, num_blocks, self.key_length)]
        if window is not None:
            both_sides = window - 1 if self.blocks.use_causal_mask else 2 * (window - 1)
            return [(0, num_blocks, min(size + both_sides, self.key_length))]
        if not self.blocks.use_causal_mask:
            return [(0, num_blocks, self.key_length)]
        each = -(-num_blocks // MOST_BANDS)
        stops = [min(first + each, num_blocks) for first in range(0, num_blocks, each)]
        return [(i * each, stop, min(stop * size, self.key_length)) for i, stop in enumerate(stops)]

    def _first_key(self, index: Any, num_keys: Any) -> Any:
        """The first key that a block reads; `None` where it reads all keys."""
        if num_keys is self.key_length or num_keys == self.key_length:
            return None
        if self.blocks.sliding_window is None:
            return 0
        first = index * self.blocks.size - (self.blocks.sliding_window - 1)
        return ops.clip(first, 0, self.key_length - num_keys)

    def _scores(self, block: Any, keys: Any, index: Any, first: Any, num_keys: Any) -> Any:
        """Softmax of a block of queries, `(batch, num_heads, size, num_keys)`."""
        query = ops.multiply(block, _functional.factor(self.blocks.scale, block))
        logits = _times(query, _functional.swap_last_axes(keys))
        if self.blocks.bias is not None:
            rows = self.blocks.bias(self.blocks.size, self.key_length, index * self.blocks.size)
            logits = _functional.add(logits, ops.cast(_part(rows, 3, first, num_keys), logits.dtype))
        return _functional.masked_softmax(logits, self._mask_of(index, first, num_keys))

    def _mask_of(self, index: Any, first: Any, num_keys: Any) -> Any:
        mask = self.mask
        if mask is not None and len(mask.shape) == 5:
            mask = mask[index]
        if mask is not None and mask.shape[3] != 1:
            mask = _part(mask, 3, first, num_keys)
        window = self.blocks.sliding_window
        if not self.blocks.use_causal_mask and window is None:
            return mask
        queries = ops.reshape(ops.arange(self.blocks.size, dtype="int32"), (1, 1, -1, 1))
        keys = ops.reshape(ops.arange(num_keys, dtype="int32"), (1, 1, 1, -1))
        distance = (queries + index * self.blocks.size) - (keys if first is None else keys + first)
        if self.blocks.use_causal_mask:
            mask = _masks.logical_and(mask, distance >= 0)
        if window is not None:
            mask = _masks.logical_and(mask, ops.abs(distance) < window)
        return mask

    def _drop(self, x: Any, index: Any) -> Any:
        """Dropout, which multiplies by the same factors whenever a block is asked for again."""
        rate = self.blocks.dropout
        if rate == 0:
            return x
        noise = keras.random.uniform(ops.shape(x), dtype="float32", seed=_BlockSeed(self.seed, index))
        return ops.where(noise >= rate, ops.multiply(x, _functional.factor(1.0 / (1.0 - rate), x)), 0.0)


def _times(x: Any, y: Any) -> Any:
    """`x @ y` for each head; `y` may have fewer heads, each for several of `x` that are neighbours."""
    batch, heads, rows, columns = ops.shape(x)
    if heads == y.shape[1]:
        return ops.matmul(x, y)
    x = _functional.reshape(x, (batch, y.shape[1], heads // y.shape[1] * rows, columns))
    return _functional.reshape(ops.matmul(x, y), (batch, heads, rows, ops.shape(y)[3]))


def _times_transposed(x: Any, y: Any, num_heads: int) -> Any:
    """`x^T @ y` for each of `num_heads` heads, summed over the heads of `x` that share it."""
    batch, heads, rows, columns = ops.shape(x)
    if heads != num_heads:
        sizes = (batch, num_heads, heads // num_heads * rows)
        x, y = _functional.reshape(x, (*sizes, columns)), _functional.reshape(y, (*sizes, y.shape[3]))
    return ops.matmul(_functional.swap_last_axes(x), y)


def _cut(x: Any, length: Any, size: int) -> Any:
    """`(batch, num_heads, length, channels)` to `(num_blocks, batch, num_heads, size, channels)`."""
    batch, heads, _, channels = ops.shape(x)
    num_blocks = (length + size - 1) // size
    if isinstance(length, int):
        x = _pad(x, 2, num_blocks * size - length)
    else:
        x = _pad(x, 2, size - 1)[:, :, : num_blocks * size]
    x = _functional.reshape(x, (batch, heads, num_blocks, size, channels))
    return ops.transpose(x, (2, 0, 1, 3, 4))


def _join(x: Any, length: Any) -> Any:
    """The way back."""
    num_blocks, batch, heads, size, channels = ops.shape(x)
    x = ops.transpose(x, (1, 2, 0, 3, 4))
    return _functional.reshape(x, (batch, heads, num_blocks * size, channels))[:, :, :length]


def _put(x: Any, index: Any, block: Any) -> Any:
    """`x` with another block; TensorFlow's `slice_update` would load its compiler for it."""
    return ops.scatter_update(x, ops.reshape(index, (1, 1)), ops.expand_dims(block, 0))


def _pad(x: Any, axis: int, count: int) -> Any:
    """Appends zeros."""
    if count == 0:
        return x
    return ops.pad(x, [(0, count if i == axis else 0) for i in range(len(x.shape))])


def _part(x: Any, axis: int, first: Any, count: Any) -> Any:
    """`count` entries of an axis from the first on; all where that is `None`."""
    if first is None:
        return x
    if isinstance(first, int):
        return x[(slice(None),) * axis + (slice(first, first + count),)]
    sizes = list(ops.shape(x))
    sizes[axis] = count
    return ops.slice(x, _start(axis, first), sizes)


def _add_part(x: Any, first: Any, count: Any, addend: Any) -> Any:
    """Adds to the rows of `x` that `_part` takes."""
    if first is None:
        return _functional.add(x, addend)
    if isinstance(first, int):
        return _functional.add(x, _pad(addend, 2, x.shape[2] - count))
    return ops.slice_update(x, _start(2, first), _functional.add(_part(x, 2, first, count), addend))


def _start(axis: int, first: Any) -> list[Any]:
    """Where a part starts; JAX wants integers of one type."""
    return [first if i == axis else ops.zeros_like(first) for i in range(4)]
