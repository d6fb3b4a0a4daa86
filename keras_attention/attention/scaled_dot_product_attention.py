"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention.attention.attention_layer import AttentionLayer


@keras.saving.register_keras_serializable(package="keras_attention")
class ScaledDotProductAttention(AttentionLayer):
    """Attention by the scaled dot product of queries and keys, without projections.

    The core of the Transformer as a layer of its own: use it where queries, keys and values are projected
    already, or need no projection. `MultiHeadAttention` adds the projections and the heads.

    ```
    scores  = softmax(scale * query @ key^T)
    context = scores @ value
    ```

    Differs from the paper: the scale can be given or learned.

    Masks are boolean, True = attend, and are AND-ed. An explicit mask takes the place of the one attached to
    its tensor. A query position that may attend to nothing gets zero scores and a zero context.

    Args:
        use_scale: Boolean. Whether the scale is a trainable scalar. Defaults to `False`.
        scale: Float or `None`. Factor of the dot product, or the initial value of the trainable one.
            `None` means `1 / sqrt(channels)` of the query. Defaults to `None`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, query_length, channels)`, or with `num_heads` second.
        value: Tensor of shape `(batch, key_length, value_channels)`, or with `num_heads` second.
        key: Tensor of shape `(batch, key_length, channels)`, or with `num_heads` second. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, query_length)`.
        value_mask: Boolean tensor of shape `(batch, key_length)`.
        key_mask: Boolean tensor of shape `(batch, key_length)`.
        attention_mask: Boolean tensor that broadcasts to the scores; the axis of the heads may be left out.
        return_attention_scores: Boolean. Whether to return `(context, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        Context `(batch, query_length, value_channels)` and, if asked for, scores
        `(batch, query_length, key_length)`; each with `num_heads` second when the query has rank 4.

    Example:
    ```python
    import numpy as np
    from keras_attention import ScaledDotProductAttention

    query = np.random.rand(2, 3, 8)
    value = np.random.rand(2, 5, 8)
    context, scores = ScaledDotProductAttention()(query, value, return_attention_scores=True)
    print(context.shape, scores.shape)  # (2, 3, 8) (2, 3, 5)
    ```

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762)
    """

    def __init__(
        self,
        use_scale: bool = False,
        scale: float | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_bool("use_scale", use_scale)
        if scale is not None and (isinstance(scale, bool) or not isinstance(scale, (int, float))):
            raise TypeError(f"`scale` must be a number or `None`. Received: scale={scale!r}")
        if scale is not None and not math.isfinite(scale):
            raise ValueError(f"`scale` must be finite. Received: scale={scale}")
        _validation.check_rate("dropout", dropout)
        self.use_scale = use_scale
        self.scale = scale
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True
        self._scale_weight: Any = None
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape)
        if self.use_scale:
            self._scale_weight = self.add_weight(
                name="scale",
                shape=(),
                initializer=keras.initializers.Constant(self._initial_scale(query_shape[-1])),
            )
        self.built = True

    def _compute(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        lengths = (ops.shape(query)[-2], ops.shape(key)[-2])
        mask = _masks.merge_masks(*lengths, len(query.shape), **masks)
        return self._attend(query, key, value, mask, training, return_attention_scores)

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        scale = self._initial_scale(query.shape[-1]) if self._scale_weight is None else self._scale_weight
        logits = _functional.dot_product_logits(query, key, _functional.factor(scale, query))
        return _functional.attend(logits, value, mask, lambda x: self._dropout_layer(x, training=training))

    def _initial_scale(self, channels: int) -> float:
        return 1.0 / math.sqrt(channels) if self.scale is None else float(self.scale)

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        if len(query_shape) not in (3, 4) or len(value_shape) != len(query_shape):
            raise ValueError(
                "`query` and `value` must both have rank 3, (batch, length, channels), or both rank 4, "
                "(batch, num_heads, length, head_dim). "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        _validation.check_shapes(query_shape, value_shape, key_shape)
        if len(query_shape) == 4 and _validation.differ(query_shape[1], value_shape[1]):
            raise ValueError(
                "`query` and `value` must have the same number of heads. "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        channels = (value_shape if key_shape is None else key_shape)[-1]
        if query_shape[-1] != channels:
            raise ValueError(
                "`query` and `key` (without a `key`: `value`) must have the same number of channels; "
                "project one of them with a Dense layer, or use `MultiHeadAttention` or `BahdanauAttention`. "
                f"Received: {query_shape[-1]} and {channels} channels"
            )

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        query_mask_shape = (query_shape[0], query_shape[-2])
        key_mask_shape = (value_shape[0], value_shape[-2])
        scores_shape = self._scores_shape_of(query_shape, value_shape)
        _validation.check_masks(query_mask_shape, key_mask_shape, scores_shape, 1, **masks)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "use_scale": self.use_scale,
            "scale": self.scale,
            "dropout": self.dropout,
            "seed": self.seed,
        }
