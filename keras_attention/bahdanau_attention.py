"""Additive attention of Bahdanau, Cho and Bengio."""

from __future__ import annotations

from typing import Any

import keras
from keras import constraints
from keras import initializers
from keras import ops
from keras import regularizers

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauAttention(keras.layers.Layer):
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
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.seed = seed
        self.supports_masking = True
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape)
        key_channels = (value_shape if key_shape is None else key_shape)[-1]
        self.query_kernel = self._add_kernel("query_kernel", (query_shape[-1], self.units))
        self.key_kernel = self._add_kernel("key_kernel", (key_channels, self.units))
        self.score_kernel = self._add_kernel("score_kernel", (self.units, 1))
        self.bias: Any = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.units,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        masks = {
            "query_mask": query_mask,
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        self._check_call(query.shape, value.shape, use_causal_mask, **masks)
        is_step = len(query.shape) == 2
        if is_step:
            query, masks = self._as_sequence(query, masks)
        mask = _masks.merge_masks(query, key, 3, use_causal_mask=use_causal_mask, **masks)
        query = _functional.project(query, self.query_kernel, self.bias)
        context, scores = self._attend(
            query, _functional.project(key, self.key_kernel), value, mask, training
        )
        if is_step:
            batch, key_length = ops.shape(value)[:2]
            context = _functional.reshape(context, (batch, value.shape[-1]))
            scores = _functional.reshape(scores, (batch, key_length)) if return_attention_scores else None
        _masks.attach(context, query_mask)
        return (context, scores) if return_attention_scores else context

    def _attend(self, query: Any, key: Any, value: Any, mask: Any, training: bool | None) -> tuple[Any, Any]:
        """Attention of projected queries and keys, `(batch, length, units)`."""
        logits = _functional.additive_logits(query, key, self.score_kernel)
        return _functional.attend(logits, value, mask, lambda x: self._dropout_layer(x, training=training))

    def _add_kernel(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=_validation.clone_initializer(self.kernel_initializer),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def _as_sequence(self, query: Any, masks: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Gives a single decoder step and its masks a query axis of length 1."""
        query = _functional.reshape(query, (ops.shape(query)[0], 1, query.shape[-1]))
        masks = dict(masks)
        if masks["query_mask"] is not None:
            masks["query_mask"] = ops.reshape(masks["query_mask"], (-1, 1))
        if masks["attention_mask"] is not None:
            batch, key_length = ops.shape(masks["attention_mask"])
            masks["attention_mask"] = _functional.reshape(masks["attention_mask"], (batch, 1, key_length))
        return query, masks

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        if len(query_shape) not in (2, 3) or len(value_shape) != 3:
            raise ValueError(
                "`query` must have rank 3, (batch, query_length, channels), or 2, (batch, channels), and "
                "`value` rank 3, (batch, key_length, channels). "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        _validation.check_shapes(query_shape, value_shape, key_shape)

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        if use_causal_mask and len(query_shape) == 2:
            raise ValueError(
                "`use_causal_mask` needs a `query` of rank 3: a single decoder step has no position. "
                f"Received: use_causal_mask=True, query.shape={tuple(query_shape)}"
            )
        scores_shape = (*query_shape[:-1], value_shape[1])
        attention_mask = masks["attention_mask"]
        if len(query_shape) == 2 and attention_mask is not None and len(attention_mask.shape) != 2:
            raise ValueError(
                "`attention_mask` must have shape (batch, key_length) when `query` has rank 2. "
                f"Received: attention_mask.shape={tuple(attention_mask.shape)}"
            )
        _validation.check_masks(query_shape[:-1], value_shape[:-1], scores_shape, 1, **masks)

    def compute_mask(self, query: Any, query_mask: Any = None) -> Any:
        return query_mask

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple[Any, ...]:
        self._check_shapes(query_shape, value_shape, key_shape)
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        self._check_call(
            query.shape,
            value.shape,
            use_causal_mask,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
        )
        key_shape = None if key is None else key.shape
        context = keras.KerasTensor(
            self.compute_output_shape(query.shape, value.shape, key_shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return context
        return context, keras.KerasTensor((*query.shape[:-1], value.shape[1]), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "seed": self.seed,
        }
