"""Multi-head attention to a sequence and to learned slots."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.multi_head_layer import MultiHeadLayer
from keras_attention.memory import slots


@keras.saving.register_keras_serializable(package="keras_attention")
class MemoryAttention(MultiHeadLayer):
    """Multi-head attention whose keys and values are the sequence and learned slots beside it.

    The slots hold what does not depend on the sequence, such as prior knowledge of the task. Use it in place
    of `MultiHeadAttention` in a Transformer, with fewer or no feed-forward layers, or where a query must be
    able to attend to nothing in the sequence.

    ```
    keys_i   = [key W_k,i; sqrt(key_dim) M_k,i]        values_i = [value W_v,i; sqrt(num_slots) M_v,i]
    scores_i = softmax(query W_q,i keys_i^T / sqrt(key_dim))
    output   = concat(scores_1 values_1, ..., scores_n values_n) W_o
    ```

    M_k and M_v are the slots, `num_slots` of each for each head, and start as normal numbers of variance
    `1 / key_dim` and `1 / num_slots`: the factors make them as large as projected positions.

    Differs from the papers: attention spans and the removal of the feed-forward layer ("Persistent Memory"),
    and the meshed decoder ("Meshed-Memory Transformer"), are left to the model around the layer.

    Masks are boolean, True = attend, and are AND-ed. An explicit mask takes the place of the one attached to
    its tensor. `value_mask`, `key_mask`, `attention_mask` and `use_causal_mask` are about the sequence: a
    query with no allowed key attends to the slots alone. A query that `query_mask` leaves out gets zero
    scores and zero heads, so its output is the bias of W_o.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        num_slots: Integer. Number of slots of each head.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether the projections have biases. Defaults to `True`.
        output_shape: Integer, tuple or `None`. Feature shape of the output. Defaults to the query's width.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels and slots. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the output of each projection. Defaults to `None`.
        kernel_constraint: Constraint of the kernels and slots. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads. Defaults to `False`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, query_length, channels)`.
        value: Tensor of shape `(batch, key_length, value_channels)`.
        key: Tensor of shape `(batch, key_length, key_channels)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, query_length)`.
        value_mask: Boolean tensor of shape `(batch, key_length)`.
        key_mask: Boolean tensor of shape `(batch, key_length)`.
        attention_mask: Boolean tensor that broadcasts to `(batch, num_heads, query_length, key_length)`;
            batch and heads may be left out.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        Output `(batch, query_length, channels)` and, if asked for, scores
        `(batch, num_heads, query_length, key_length + num_slots)`, the slots last.

    Example:
    ```python
    import keras
    from keras_attention import MemoryAttention

    inputs = keras.Input((16, 32))
    layer = MemoryAttention(num_heads=4, key_dim=8, num_slots=6)
    outputs, scores = layer(inputs, inputs, return_attention_scores=True)
    print(outputs.shape, scores.shape)  # (None, 16, 32) (None, 4, 16, 22)
    ```

    References:
        [Augmenting Self-attention with Persistent Memory](https://arxiv.org/abs/1907.01470),
        [Meshed-Memory Transformer for Image Captioning](https://arxiv.org/abs/1912.08226).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        num_slots: int,
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
            num_heads=num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            activity_regularizer=activity_regularizer,
            use_gate=use_gate,
            seed=seed,
            weight_options=_weights.pick(locals()),
            **kwargs,
        )
        _validation.check_positive_int("num_slots", num_slots)
        self.num_slots = num_slots

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        self.slot_keys = self._add_slots("slot_keys", self.key_dim, self.key_dim)
        self.slot_values = self._add_slots("slot_values", self.value_dim, self.num_slots)

    def _add_slots(self, name: str, width: int, precision: int) -> Any:
        return self.add_weight(
            name=name,
            shape=(1, self.num_heads, self.num_slots, width),
            initializer=keras.initializers.RandomNormal(stddev=1.0 / math.sqrt(precision)),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def _attend_masked(
        self,
        query: Any,
        key: Any,
        value: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        query_mask = masks["query_mask"]
        masks = {**masks, "query_mask": None}  # it is about the slots too, the others are not
        context, scores = super()._attend_masked(query, key, value, masks, training, return_attention_scores)
        if query_mask is None:
            return context, scores
        batch, query_length = ops.shape(query)[:2]
        query_mask = _masks.as_bool(query_mask)
        context = ops.where(_functional.reshape(query_mask, (batch, query_length, 1, 1)), context, 0.0)
        if return_attention_scores:
            scores = ops.where(_functional.reshape(query_mask, (batch, 1, query_length, 1)), scores, 0.0)
        return context, scores

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
        # The factor of the slot keys, sqrt(key_dim), and the scale of the logits are one together.
        slot_values = ops.multiply(self.slot_values, ops.cast(math.sqrt(self.num_slots), value.dtype))
        context, scores = slots.attend(
            query,
            key,
            value,
            ops.convert_to_tensor(self.slot_keys),
            slot_values,
            mask,
            _functional.factor(1.0 / math.sqrt(self.key_dim), query),
            lambda x: self._dropout_layer(x, training=training),
        )
        return ops.transpose(context, (0, 2, 1, 3)), scores

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        scores_shape = super()._scores_shape_of(query_shape, value_shape)  # masks know no slots
        _validation.check_masks(query_shape[:-1], value_shape[:-1], scores_shape, 1, **masks)

    def _scores_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        *leading, key_length = super()._scores_shape_of(query_shape, value_shape)
        return (*leading, None if key_length is None else key_length + self.num_slots)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_slots": self.num_slots}
