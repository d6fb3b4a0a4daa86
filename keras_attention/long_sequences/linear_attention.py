"""Attention by kernel features, linear in the length."""

from __future__ import annotations

import math
from typing import Any
from typing import Literal

import keras
from keras import ops

from keras_attention import _validation
from keras_attention import _weights
from keras_attention.long_sequences import _kernels
from keras_attention.long_sequences._blocks import Heads
from keras_attention.long_sequences.long_sequence_layer import LongSequenceLayer

FeatureMap = Literal["elu", "relu", "performer"]
# Positions in a chunk of causal attention; the states between chunks then cost as much as the chunks.
_CHUNK = 64


@keras.saving.register_keras_serializable(package="keras_attention")
class LinearAttention(LongSequenceLayer):
    """Multi-head attention of all positions to all, by kernel features, at a cost linear in the length.

    For long sequences in which anything may matter for anything. The weights are smoother than a softmax's:
    prefer `LocalAttention` where what matters is near. `feature_map="performer"` approximates the softmax.

    ```
    context[i] = phi(q_i) sum_j phi(k_j)^T v_j / (phi(q_i) sum_j phi(k_j)^T)     with q = query W_q, ...

    "elu":        phi(x) = elu(x) + 1
    "relu":       phi(x) = relu(x) + 0.001
    "performer":  phi(x) = exp(P x / key_dim^(1/4) - |x|^2 / (2 sqrt(key_dim))),  P orthogonal random features
    ```

    Differs from the papers: random features are drawn once and kept as a weight that is not trained; a factor
    that the division cancels keeps them stable, and no constant is added. `dropout` drops what the heads
    return, since there are no scores to drop. With "performer" and a causal mask, keys of an extreme length
    get no weight: their features are below what float32 holds.

    Masks are boolean, True = attend, and are AND-ed. There is no `attention_mask`: it would be the matrix
    that this layer avoids. A query position that may attend to nothing gets zero heads.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        feature_map: `"elu"`, `"relu"` or `"performer"`. Defaults to `"elu"`.
        num_features: Integer or `None`. Random features of `"performer"`, shared by the heads. Defaults to
            `key_dim * log(key_dim)`, `key_dim` at least.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the numbers returned by the heads that is dropped in training.
            Defaults to `0.0`.
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
        seed: Integer or `None`. Seed of the random features and of the dropout. Defaults to `None`.
        **kwargs: `num_key_value_heads`, `rotary` and `use_query_key_norm`, as in `MultiHeadAttention`, and
            the arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, query_length, channels)`.
        value: Tensor of shape `(batch, key_length, value_channels)`.
        key: Tensor of shape `(batch, key_length, key_channels)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, query_length)`.
        value_mask: Boolean tensor of shape `(batch, key_length)`.
        key_mask: Boolean tensor of shape `(batch, key_length)`.
        attention_mask: Refused.
        return_attention_scores: Boolean. Whether to return `(output, scores)`; the scores of all pairs cost
            time and memory that are quadratic in the length. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only, in sequences of one length.
            Defaults to `False`.

    Output shape:
        Output `(batch, query_length, channels)` and, if asked for, scores
        `(batch, num_heads, query_length, key_length)`, the products of the features divided by their sum.

    Example:
    ```python
    import keras
    from keras_attention import LinearAttention

    inputs = keras.Input((4096, 32))
    outputs = LinearAttention(num_heads=4, key_dim=8)(inputs, inputs, use_causal_mask=True)
    print(outputs.shape)  # (None, 4096, 32)
    ```

    References:
        [Transformers are RNNs](https://arxiv.org/abs/2006.16236),
        [Rethinking Attention with Performers](https://arxiv.org/abs/2009.14794) (`"performer"`, `"relu"`).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        feature_map: FeatureMap = "elu",
        num_features: int | None = None,
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
        if feature_map not in ("elu", "relu", "performer"):
            raise ValueError(
                f'`feature_map` must be "elu", "relu" or "performer". Received: feature_map={feature_map!r}'
            )
        _validation.check_positive_int("num_features", num_features, optional=True)
        if num_features is not None and feature_map != "performer":
            raise ValueError(
                '`num_features` are the random features of `feature_map="performer"`; leave it `None`. '
                f"Received: num_features={num_features}, feature_map={feature_map!r}"
            )
        self.feature_map = feature_map
        self.num_features = num_features
        self._projection_weight: Any = None

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.feature_map != "performer":
            return
        default = max(self.key_dim, math.ceil(self.key_dim * math.log(self.key_dim)))
        self._projection_weight = self.add_weight(
            name="random_features",
            shape=(self.key_dim, self.num_features or default),
            initializer=lambda shape, dtype: _kernels.orthogonal_projection(shape, self.seed, dtype),
            trainable=False,
            autocast=False,
        )

    def _features(self, heads: Heads) -> tuple[Any, Any]:
        """Features of queries and keys, `(batch, length, num_heads, num_features)`; zeros for masked keys."""
        query, key = _kernels.widen(heads.query), _kernels.widen(heads.key)
        if self.feature_map == "performer":
            projection = ops.cast(self._projection_weight, query.dtype)
            return (
                _kernels.performer_query_features(query, projection),
                _kernels.performer_key_features(key, projection, heads.key_mask, heads.is_causal),
            )
        features = _kernels.elu_features if self.feature_map == "elu" else _kernels.relu_features
        return features(query), _kernels.mask_keys(features(key), heads.key_mask)

    def _attend_heads(self, heads: Heads) -> Any:
        query, key = self._features(heads)
        value = _kernels.widen(heads.value)
        if heads.is_causal:
            context = _kernels.attend_causally(query, key, value, _CHUNK)
        else:
            context = _kernels.attend(query, key, value)
        return heads.dropout(ops.cast(context, heads.value.dtype))

    def _attend_pairs(self, heads: Heads, mask: Any) -> tuple[Any, Any]:
        scores = _kernels.pair_scores(*self._features(heads), mask)
        value = ops.transpose(_kernels.widen(heads.value), (0, 2, 1, 3))
        context = ops.transpose(ops.matmul(scores, value), (0, 2, 1, 3))
        context, scores = (ops.cast(x, heads.value.dtype) for x in (context, scores))
        return heads.dropout(context), scores

    def _needs_equal_lengths(self, use_causal_mask: bool) -> bool:
        return use_causal_mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "feature_map": self.feature_map,
            "num_features": self.num_features,
        }
