"""Attention within a sliding window."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences import _patterns
from keras_attention.long_sequences._blocks import Heads
from keras_attention.long_sequences.long_sequence_layer import LongSequenceLayer

# Blocks smaller than this cost more than they save.
_SMALLEST_BLOCK = 16


@keras.saving.register_keras_serializable(package="keras_attention")
class LocalAttention(LongSequenceLayer):
    """Multi-head attention of each position to those near it, at a cost linear in the length.

    For long sequences in which what matters is near: sensor signals, audio, text. Equal to
    `MultiHeadAttention(sliding_window=window_size)` with the same weights, computed in blocks of queries that
    meet their neighbours only. Global tokens, the first positions, carry what must go far.

    ```
    scores[i, j] = softmax over |i - j| < window_size of  query_i W_q · key_j W_k / sqrt(key_dim)
    ```

    Differs from the paper: global tokens have the same projections as the others; the window does not widen
    from layer to layer and has no gaps.

    Masks are boolean, True = attend, and are AND-ed. There is no `attention_mask`: it would be the matrix
    that this layer avoids. A query position that may attend to nothing gets zero heads.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        window_size: Integer. Each position attends to positions less than this far away.
        num_global_tokens: Integer. The first so many positions attend to all and are attended to by all.
            Defaults to `0`.
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
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only, global tokens too. Defaults to
            `False`.

    Output shape:
        Output `(batch, length, channels)` and, if asked for, scores `(batch, num_heads, length, length)`.

    Example:
    ```python
    import keras
    from keras_attention import LocalAttention

    inputs = keras.Input((4096, 32))
    outputs = LocalAttention(num_heads=4, key_dim=8, window_size=64, num_global_tokens=1)(inputs, inputs)
    print(outputs.shape)  # (None, 4096, 32)
    ```

    Reference:
        [Longformer: The Long-Document Transformer](https://arxiv.org/abs/2004.05150)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window_size: int,
        num_global_tokens: int = 0,
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
        _validation.check_positive_int("window_size", window_size)
        if num_global_tokens != 0:
            _validation.check_positive_int("num_global_tokens", num_global_tokens)
        self.window_size = window_size
        self.num_global_tokens = num_global_tokens

    def _attend_heads(self, heads: Heads) -> Any:
        length, num_global = ops.shape(heads.query)[1], self.num_global_tokens
        size = max(self.window_size, _SMALLEST_BLOCK)
        size = min(size, length) if isinstance(length, int) else size
        has_log_sum = num_global > 0 or heads.key_mask is not None
        part = _patterns.window_part(heads, size, self.window_size, num_global, has_log_sum)
        if num_global == 0:
            return _blocks.finish(part, heads.key_mask)
        part = _blocks.merge(part, _patterns.first_keys_part(heads, num_global))
        context = _blocks.finish(part, heads.key_mask)
        return ops.concatenate([self._attend_globally(heads), context[:, num_global:]], axis=1)

    def _attend_globally(self, heads: Heads) -> Any:
        """Context of the global tokens, which see all keys."""
        query = heads.query[:, : self.num_global_tokens]
        lengths = ops.shape(query)[1], ops.shape(heads.key)[1]
        causal = heads.is_causal
        mask = _masks.merge_masks(*lengths, 4, key_mask=heads.key_mask, use_causal_mask=causal)
        return _patterns.attend_pairs(heads._replace(query=query), mask)[0]

    def _attend_pairs(self, heads: Heads, mask: Any) -> tuple[Any, Any]:
        query_index, key_index = _blocks.index_pairs(ops.shape(heads.query)[1])
        num_global = self.num_global_tokens
        meets = abs(query_index - key_index) < self.window_size
        meets = meets | (query_index < num_global) | (key_index < num_global)
        return _patterns.attend_pairs(heads, _masks.logical_and(mask, meets))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "window_size": self.window_size,
            "num_global_tokens": self.num_global_tokens,
        }
