"""Additive attention of Bahdanau, Cho and Bengio."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.step_layer import StepLayer


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauAttention(StepLayer):
    """Additive attention with learned projections of queries and keys.

    Use it where queries and keys come from different places and have different widths, such as the state of
    a decoder and the outputs of an encoder: one decoder step is a query of rank 2.

    ```
    logits[q, k] = v^T tanh(W_q query[q] + W_k key[k])
    scores       = softmax(logits)
    context      = scores @ value
    ```

    Differs from the paper: nothing with the defaults; `use_bias=True` adds a bias inside tanh. In contrast to
    `keras.layers.AdditiveAttention`, W_q, W_k and v are part of the layer.

    Memory: the sums inside tanh take `batch * query_length * key_length * units` values, in training and on
    the phone. Long sequences on both sides want `MultiHeadAttention`.

    Masks are boolean, True = attend, and are AND-ed. An explicit mask takes the place of the one attached to
    its tensor. A query position that may attend to nothing gets zero scores and a zero context.

    Args:
        units: Integer. Width of the hidden layer that scores a pair of positions.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether to add a bias inside tanh. Defaults to `False`.
        kernel_initializer: Initializer of W_q, W_k and v. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the bias. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of W_q, W_k and v. Defaults to `None`.
        bias_regularizer: Regularizer of the bias. Defaults to `None`.
        kernel_constraint: Constraint of W_q, W_k and v. Defaults to `None`.
        bias_constraint: Constraint of the bias. Defaults to `None`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, query_length, channels)`, or `(batch, channels)` for one decoder step.
        value: Tensor of shape `(batch, key_length, value_channels)`.
        key: Tensor of shape `(batch, key_length, key_channels)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, query_length)`, or `(batch,)` for one decoder step.
        value_mask: Boolean tensor of shape `(batch, key_length)`.
        key_mask: Boolean tensor of shape `(batch, key_length)`.
        attention_mask: Boolean tensor that broadcasts to the scores.
        return_attention_scores: Boolean. Whether to return `(context, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        Context `(batch, query_length, value_channels)` and, if asked for, scores
        `(batch, query_length, key_length)`. For one decoder step `(batch, value_channels)` and
        `(batch, key_length)`.

    Example:
    ```python
    import numpy as np
    from keras_attention import BahdanauAttention

    decoder_state = np.random.rand(2, 16)
    encoder_outputs = np.random.rand(2, 5, 32)
    attention = BahdanauAttention(8)
    context, scores = attention(decoder_state, encoder_outputs, return_attention_scores=True)
    print(context.shape, scores.shape)  # (2, 32) (2, 5)
    ```

    Reference:
        [Neural Machine Translation by Jointly Learning to Align and Translate](https://arxiv.org/abs/1409.0473)
    """

    def __init__(
        self,
        units: int,
        dropout: float = 0.0,
        use_bias: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("units", units)
        _validation.check_rate("dropout", dropout)
        _validation.check_bool("use_bias", use_bias)
        self.units = units
        self.dropout = dropout
        self.use_bias = use_bias
        _weights.set_options(self, **_weights.pick(locals()))
        self.seed = seed
        self.supports_masking = True
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape)
        key_channels = (value_shape if key_shape is None else key_shape)[-1]
        self.query_kernel = _weights.add_kernel(self, "query_kernel", (query_shape[-1], self.units))
        self.key_kernel = _weights.add_kernel(self, "key_kernel", (key_channels, self.units))
        self.score_kernel = _weights.add_kernel(self, "score_kernel", (self.units, 1))
        self.bias = _weights.add_bias(self, "bias", (self.units,))
        self.built = True

    def _project(self, query: Any, key: Any) -> tuple[Any, Any]:
        query = _functional.project(query, self.query_kernel, self.bias)
        return query, _functional.project(key, self.key_kernel)

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """Attention of projected queries and keys, `(batch, length, units)`."""
        logits = _functional.additive_logits(query, key, self.score_kernel)
        return _functional.attend(logits, value, mask, lambda x: self._dropout_layer(x, training=training))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }
