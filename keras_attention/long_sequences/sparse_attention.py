"""Attention to chosen blocks or strides of a sequence."""

from __future__ import annotations

from typing import Any
from typing import Literal

import keras
from keras import ops

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences import _patterns
from keras_attention.long_sequences import _routing
from keras_attention.long_sequences._blocks import Heads
from keras_attention.long_sequences.long_sequence_layer import LongSequenceLayer

Pattern = Literal["strided", "fixed", "block", "top_k"]
_NUM_BLOCKS, _NUM_COLUMNS = 4, 1


@keras.saving.register_keras_serializable(package="keras_attention")
class SparseAttention(LongSequenceLayer):
    """Multi-head attention of each position to a pattern of others, at a cost below the square of the length.

    For long sequences in which a place far away may matter, but few do: periodic signals ("strided", with the
    period as block size), text and music ("fixed"), or blocks that the data choose ("top_k").

    ```
    scores[i, j] = softmax over the j that i meets of  query_i W_q · key_j W_k / sqrt(key_dim)

                with l = block_size:
    "strided":  |i - j| < l                  or  (i - j) mod l = 0
    "block":    floor(i / l) = floor(j / l)  or  (i - j) mod l = 0
    "fixed":    floor(i / l) = floor(j / l)  or  j mod l >= l - num_columns
    "top_k":    floor(j / l) among the num_blocks blocks of keys with the highest  mean(query) · mean(key),
                head by head; the block of i is always one of them
    ```

    With block_size near sqrt(length), the first three cost length^1.5; "top_k" costs
    `length * num_blocks * block_size`.

    Differs from the papers: every head attends to both parts of a pattern, and there is a two-sided form
    without a causal mask. "top_k" chooses for a block of queries, not for each; under a causal mask by the
    queries of the block before, since its own would tell the first of them about the future. The choice
    itself has no gradient, what is chosen has.

    Masks are boolean, True = attend, and are AND-ed. There is no `attention_mask`: it would be the matrix
    that this layer avoids. A query position that may attend to nothing gets zero heads.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        block_size: Integer. Positions of a block, and the stride.
        pattern: `"strided"`, `"fixed"`, `"block"` or `"top_k"`. Defaults to `"strided"`.
        num_blocks: Integer or `None`. Blocks that a block of queries attends to with `"top_k"`, its own
            included. Defaults to 4.
        num_columns: Integer or `None`. Positions at the end of each block that all see with `"fixed"`.
            Defaults to 1.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether the projections have biases. Defaults to `True`.
        output_shape: Integer, tuple or `None`. Feature shape of the output. Defaults to the query's width.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the output of each projection. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads. Defaults to `False`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: `num_key_value_heads`, `rotary` and `use_query_key_norm`, as in `MultiHeadAttention`, and
            the arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, length, channels)`.
        value: Tensor of shape `(batch, length, value_channels)`.
        key: Tensor of shape `(batch, length, key_channels)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, length)`.
        value_mask: Boolean tensor of shape `(batch, length)`.
        key_mask: Boolean tensor of shape `(batch, length)`.
        attention_mask: Refused.
        return_attention_scores: Boolean. Whether to return `(output, scores)`; the scores of all pairs cost
            time and memory that are quadratic in the length. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        Output `(batch, length, channels)` and, if asked for, scores `(batch, num_heads, length, length)`.

    Example:
    ```python
    import keras
    from keras_attention import SparseAttention

    inputs = keras.Input((1024, 32))
    layer = SparseAttention(num_heads=4, key_dim=8, block_size=32, pattern="top_k", num_blocks=3)
    outputs = layer(inputs, inputs, use_causal_mask=True)
    print(outputs.shape)  # (None, 1024, 32)
    ```

    References:
        [Generating Long Sequences with Sparse Transformers](https://arxiv.org/abs/1904.10509),
        [MoBA: Mixture of Block Attention](https://arxiv.org/abs/2502.13189) (`"top_k"`).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        block_size: int,
        pattern: Pattern = "strided",
        num_blocks: int | None = None,
        num_columns: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            dropout,
            use_bias,
            output_shape,
            activity_regularizer,
            use_gate,
            seed,
            weight_options=_weights.pick(locals()),
            **kwargs,
        )
        _validation.check_positive_int("block_size", block_size)
        if pattern not in ("strided", "fixed", "block", "top_k"):
            raise ValueError(
                f'`pattern` must be "strided", "fixed", "block" or "top_k". Received: pattern={pattern!r}'
            )
        for name, value, owner in (
            ("num_blocks", num_blocks, "top_k"),
            ("num_columns", num_columns, "fixed"),
        ):
            _validation.check_positive_int(name, value, optional=True)
            if value is not None and pattern != owner:
                raise ValueError(
                    f'`{name}` is for `pattern="{owner}"`; leave it `None`. '
                    f"Received: {name}={value}, pattern={pattern!r}"
                )
        if num_columns is not None and num_columns > block_size:
            raise ValueError(
                "`num_columns` are positions of a block, `block_size` at most. "
                f"Received: num_columns={num_columns}, block_size={block_size}"
            )
        self.block_size = block_size
        self.pattern = pattern
        self.num_blocks = num_blocks
        self.num_columns = num_columns

    def _attend_heads(self, heads: Heads) -> Any:
        length, size = ops.shape(heads.query)[1], self.block_size
        if isinstance(length, int) and length <= size:  # all in one block
            part = _patterns.window_part(heads, length, has_log_sum=heads.key_mask is not None)
            return _blocks.finish(part, heads.key_mask)
        if self.pattern == "top_k":
            return _routing.routed_context(heads, size, self.num_blocks or _NUM_BLOCKS)
        near = _patterns.window_part(heads, size, size if self.pattern == "strided" else None)
        if self.pattern == "fixed":
            far = _patterns.last_keys_part(heads, size, self.num_columns or _NUM_COLUMNS)
        else:
            far = _patterns.stride_part(heads, size)
        return _blocks.finish(_blocks.merge(near, far), heads.key_mask)

    def _attend_pairs(self, heads: Heads, mask: Any) -> tuple[Any, Any]:
        return _patterns.attend_pairs(heads, _masks.logical_and(mask, self._pairs(heads)))

    def _pairs(self, heads: Heads) -> Any:
        """Mask of the pairs that meet, of rank 4."""
        size = self.block_size
        if self.pattern == "top_k":
            return _routing.routed_pairs(heads, size, self.num_blocks or _NUM_BLOCKS)
        query, key = _blocks.index_pairs(ops.shape(heads.query)[1])
        near = abs(query - key) < size if self.pattern == "strided" else query // size == key // size
        if self.pattern == "fixed":
            return near | (key % size >= size - (self.num_columns or _NUM_COLUMNS))
        return near | ((query - key) % size == 0)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "block_size": self.block_size,
            "pattern": self.pattern,
            "num_blocks": self.num_blocks,
            "num_columns": self.num_columns,
        }
