"""Global attention of Luong, Pham and Manning: three ways to compare, and the attentional vector."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.step_layer import StepLayer

SCORES = ("dot", "general", "concat")


@keras.saving.register_keras_serializable(package="keras_attention")
class LuongAttention(StepLayer):
    """Attention that compares a query with keys by a product, a learned product or a small network.

    Use it after a recurrent decoder: `output_units` gives the attentional vector that the paper predicts
    from. `"general"` and `"concat"` take queries and keys of different widths, `"dot"` has no weights.

    ```
    logits[q, k] = query[q] · key[k]                                "dot"
                   query[q] W_q · key[k]                            "general"
                   v^T tanh(W_q query[q] + W_k key[k])              "concat"
    scores       = softmax(logits)
    context      = scores @ value
    output       = context, or tanh(W_c [context; query]) with `output_units`
    ```

    Differs from the paper: `"concat"` multiplies query and key by the two halves of W instead of joining
    them, the same numbers. Local attention and input feeding are not part of the layer.

    Masks are boolean, True = attend, and are AND-ed. An explicit mask takes the place of the one attached to
    its tensor. A query position that may attend to nothing gets zero scores and a zero context; with
    `output_units` its output is tanh(W_c [0; query]).

    Args:
        score: String, `"dot"`, `"general"` or `"concat"`. How a query and a key are compared. Defaults to
            `"dot"`.
        units: Integer or `None`. Width of the hidden layer of `"concat"`, which needs it; the others have
            none. Defaults to `None`.
        output_units: Integer or `None`. Width of the attentional vector; `None` returns the context.
            Defaults to `None`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether to add biases inside the tanh of `"concat"` and of the attentional vector.
            Defaults to `False`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
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
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        Output `(batch, query_length, output_units or value_channels)` and, if asked for, scores
        `(batch, query_length, key_length)`. For one decoder step without `query_length`.

    Example:
    ```python
    import numpy as np
    from keras_attention import LuongAttention

    decoder_states = np.random.rand(2, 3, 16)
    encoder_outputs = np.random.rand(2, 5, 32)
    attention = LuongAttention("general", output_units=24)
    output, scores = attention(decoder_states, encoder_outputs, return_attention_scores=True)
    print(output.shape, scores.shape)  # (2, 3, 24) (2, 3, 5)
    ```

    Reference:
        [Effective Approaches to Attention-based Neural Machine Translation](https://arxiv.org/abs/1508.04025)
    """

    def __init__(
        self,
        score: str = "dot",
        units: int | None = None,
        output_units: int | None = None,
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
        score = _validation.choice("score", score, SCORES)
        _validation.check_positive_int("units", units, optional=True)
        _validation.check_positive_int("output_units", output_units, optional=True)
        _validation.check_rate("dropout", dropout)
        _validation.check_bool("use_bias", use_bias)
        if (score == "concat") != (units is not None):
            raise ValueError(
                '`units` is the width of the hidden layer of score="concat": give it there, and only there. '
                f"Received: score={score!r}, units={units}"
            )
        if use_bias and score != "concat" and output_units is None:
            raise ValueError(
                '`use_bias=True` needs score="concat" or `output_units`: nothing else has a bias. '
                f"Received: use_bias=True, score={score!r}, output_units=None"
            )
        self.score = score
        self.units = units
        self.output_units = output_units
        self.dropout = dropout
        self.use_bias = use_bias
        _weights.set_options(self, **_weights.pick(locals()))
        self.seed = seed
        self.supports_masking = True
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape)
        channels, value_channels = query_shape[-1], value_shape[-1]
        key_channels = value_channels if key_shape is None else key_shape[-1]
        if self.score == "general":
            self.query_kernel = _weights.add_kernel(self, "query_kernel", (channels, key_channels))
        if self.units is not None:
            self.query_kernel = _weights.add_kernel(self, "query_kernel", (channels, self.units))
            self.key_kernel = _weights.add_kernel(self, "key_kernel", (key_channels, self.units))
            self.score_kernel = _weights.add_kernel(self, "score_kernel", (self.units, 1))
            self.bias = _weights.add_bias(self, "bias", (self.units,))
        if self.output_units is not None:
            self.output_kernel = _weights.add_kernel(
                self, "output_kernel", (value_channels + channels, self.output_units)
            )
            self.output_bias = _weights.add_bias(self, "output_bias", (self.output_units,))
        self.built = True

    def _project(self, query: Any, key: Any) -> tuple[Any, Any]:
        if self.score == "dot":
            return query, key
        if self.score == "general":
            return _functional.project(query, self.query_kernel), key
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
        if self.score == "concat":
            logits = _functional.additive_logits(query, key, self.score_kernel)
        else:
            logits = ops.matmul(query, _functional.swap_last_axes(key))
        return _functional.attend(logits, value, mask, lambda x: self._dropout_layer(x, training=training))

    def _combine(self, context: Any, query: Any) -> Any:
        if self.output_units is None:
            return context
        return ops.tanh(_functional.project_parts((context, query), self.output_kernel, self.output_bias))

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        super()._check_shapes(query_shape, value_shape, key_shape)
        channels = (value_shape if key_shape is None else key_shape)[-1]
        if self.score == "dot" and query_shape[-1] != channels:
            raise ValueError(
                '`query` and `key` (without a `key`: `value`) must have the same width for score="dot"; take '
                f'score="general". Received: {query_shape[-1]} and {channels} channels'
            )

    def _output_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return (*query_shape[:-1], self.output_units or value_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score": self.score,
            "units": self.units,
            "output_units": self.output_units,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }
