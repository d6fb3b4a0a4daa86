"""Attention that turns a sequence into one vector."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention import pooling

QUERIES = ("learned", "last")
SCORES = ("dot", "general", "additive")


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionPooling(keras.layers.Layer):
    """Attention of one query per head over a sequence: the many-to-one layer of a time-series model.

    Use it between the layers that return sequences and the head that classifies or predicts, where others
    take the last state or the mean. The query is learned, the same for every sample, or the last position.

    ```
    logits[h, k] = q_h · x[k]                              "dot"
                   q · x[k] W_k                            "general"
                   v_h^T tanh(x[k] W_k,h + q W_q,h + b_h)  "additive"; a learned query is v_h, without W_q
    scores[h]    = softmax(logits[h])
    context      = sum_k scores[k] x[k]
    output       = context, or tanh([context; q] W_c + b_c) with `output_units`
    ```

    With `key_dim` there are heads as in `MultiHeadAttention`: "dot" takes `q_h · x[k] W_k,h / sqrt(key_dim)`,
    with q W_q,h for the last position, and the context is `concat(sum_k scores[h, k] x[k] W_v,h) W_o + b_o`.

    Differs from the papers: the sequence is summed before it is projected, which is the same and costs one
    projection instead of `length`; keys and values have no biases, which the softmax would ignore or the
    output bias can take over. With a learned query the attentional vector is tanh(context W_c + b_c). In
    "Set Transformer" the pooled vectors go through a further feed-forward layer.

    The mask is boolean, True = attend; it ends here, and the last position is the last one that is not
    masked. Where all positions are masked, scores and context are zero.

    Args:
        num_heads: Integer. Number of heads; more than one need `key_dim`. Defaults to `1`.
        key_dim: Integer or `None`. Width of each head; `None` attends to the sequence as it is, by one head.
            Defaults to `None`.
        query: String, `"learned"` or `"last"`. Defaults to `"learned"`.
        score: String, `"dot"`, `"general"` or `"additive"`. How the query and a position are compared.
            `"general"` is for the last position without `key_dim`. Defaults to `"dot"`.
        output_units: Integer or `None`. Width of the attentional vector; `None` returns the context.
            Defaults to `None`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether to add the biases b, b_o and b_c. Defaults to `False`.
        kernel_initializer: Initializer of the kernels and the learned query. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels and the learned query. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        kernel_constraint: Constraint of the kernels and the learned query. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)`.
        mask: Boolean tensor of shape `(batch, length)`. Defaults to the mask attached to the inputs.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.

    Output shape:
        Output `(batch, output_units or channels)` and, if asked for, scores `(batch, num_heads, length)`.

    Example:
    ```python
    import keras
    from keras_attention import AttentionPooling

    inputs = keras.Input((128, 6))
    states = keras.layers.Conv1D(32, 5, activation="relu")(inputs)
    vector, scores = AttentionPooling(num_heads=4, key_dim=8)(states, return_attention_scores=True)
    print(vector.shape, scores.shape)  # (None, 32) (None, 4, 124)
    ```

    References:
        [Hierarchical Attention Networks for Document Classification](https://aclanthology.org/N16-1174)
        (additive, learned), [Set Transformer](https://arxiv.org/abs/1810.00825) (heads, learned),
        [Effective Approaches to Attention-based Neural Machine Translation](https://arxiv.org/abs/1508.04025)
        (last position).
    """

    def __init__(
        self,
        num_heads: int = 1,
        key_dim: int | None = None,
        query: str = "learned",
        score: str = "dot",
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
        _validation.check_positive_int("num_heads", num_heads)
        _validation.check_positive_int("key_dim", key_dim, optional=True)
        query = _validation.choice("query", query, QUERIES)
        score = _validation.choice("score", score, SCORES)
        _validation.check_positive_int("output_units", output_units, optional=True)
        _validation.check_rate("dropout", dropout)
        _validation.check_bool("use_bias", use_bias)
        if num_heads > 1 and key_dim is None:
            raise ValueError(
                "`num_heads` above 1 needs `key_dim`, the width of each head. "
                f"Received: num_heads={num_heads}, key_dim=None"
            )
        if score == "general" and (query == "learned" or key_dim is not None):
            raise ValueError(
                '`score="general"` is for query="last" without `key_dim`: a learned query, or the '
                'projections of the heads, hold its weight already; take score="dot". '
                f"Received: query={query!r}, key_dim={key_dim}"
            )
        if use_bias and score != "additive" and key_dim is None and output_units is None:
            raise ValueError(
                '`use_bias=True` needs score="additive", `key_dim` or `output_units`: else there is none. '
                f"Received: use_bias=True, score={score!r}, key_dim=None, output_units=None"
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.query = query
        self.score = score
        self.output_units = output_units
        self.dropout = dropout
        self.use_bias = use_bias
        _weights.set_options(self, **_weights.pick(locals()))
        self.seed = seed
        self.supports_masking = True
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        channels = input_shape[-1]
        widths = (channels,) if self.key_dim is None else (self.num_heads, self.key_dim)
        is_last, is_additive, has_heads = (
            self.query == "last",
            self.score == "additive",
            self.key_dim is not None,
        )
        if not is_last and not is_additive:
            self.query_vectors = self._add_kernel("query_vectors", (self.num_heads, widths[-1]))
        if is_last and (is_additive or has_heads):
            self.query_kernel = self._add_kernel("query_kernel", (channels, *widths))
        if is_additive or has_heads or self.score == "general":
            self.key_kernel = self._add_kernel("key_kernel", (channels, *widths))
        if is_additive:
            self.bias = _weights.add_bias(self, "bias", widths)
            self.score_kernel = self._add_kernel("score_kernel", (self.num_heads, widths[-1]))
        if has_heads:
            self.value_kernel = self._add_kernel("value_kernel", (channels, *widths))
            self.merge_kernel = self._add_kernel("merge_kernel", (*widths, channels))
            self.merge_bias = _weights.add_bias(self, "merge_bias", (channels,))
        if self.output_units is not None:
            num_inputs = channels * (2 if is_last else 1)
            self.output_kernel = self._add_kernel("output_kernel", (num_inputs, self.output_units))
            self.output_bias = _weights.add_bias(self, "output_bias", (self.output_units,))
        self.built = True

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_shape(inputs.shape)
        _validation.check_mask("mask", mask, inputs.shape[:2])
        batch, length, channels = ops.shape(inputs)
        last = pooling.last_position(inputs, mask) if self.query == "last" else None  # (batch, 1, channels)
        if mask is not None:
            mask = _functional.reshape(_masks.as_bool(mask), (batch, 1, length))
        logits = self._logits(inputs, last)  # (batch, num_heads, length)
        output, scores = _functional.attend(
            logits, inputs, mask, lambda x: self._dropout_layer(x, training=training)
        )
        if self.key_dim is None:
            output = _functional.reshape(output, (batch, channels))
        else:
            output = self._merge_heads(output)
        if self.output_units is not None:
            parts = [output] if last is None else [output, _functional.reshape(last, (batch, channels))]
            output = ops.tanh(_functional.project_parts(parts, self.output_kernel, self.output_bias))
        return (output, scores) if return_attention_scores else output

    def _logits(self, sequence: Any, last: Any) -> Any:
        if self.score == "additive":
            hidden = ops.matmul(sequence, pooling.flatten_heads(self.key_kernel))
            if last is not None:
                hidden = _functional.add(hidden, ops.matmul(last, pooling.flatten_heads(self.query_kernel)))
            if self.bias is not None:
                hidden = ops.add(hidden, ops.reshape(self.bias, (-1,)))
            return pooling.additive_logits(ops.tanh(hidden), self.score_kernel)
        return pooling.product_logits(self._query_of_positions(last), sequence)

    def _query_of_positions(self, last: Any) -> Any:
        """The query times W_k^T, to multiply the positions as they are: one product instead of `length`."""
        if self.key_dim is None:
            query = ops.convert_to_tensor(self.query_vectors) if last is None else last
            return query if self.score == "dot" else ops.matmul(query, ops.transpose(self.key_kernel))
        key_kernel = ops.transpose(pooling.flatten_heads(self.key_kernel))  # (num_heads * key_dim, channels)
        if last is None:
            query = ops.reshape(self.query_vectors, (1, -1))
        else:
            query = ops.matmul(last, pooling.flatten_heads(self.query_kernel))
        query = ops.multiply(query, _functional.factor(1.0 / math.sqrt(self.key_dim), query))
        return ops.matmul(pooling.spread_heads(query, self.num_heads), key_kernel)

    def _merge_heads(self, context: Any) -> Any:
        """Projections of what the heads pooled, `(batch, num_heads, channels)` to `(batch, channels)`."""
        heads = ops.matmul(context, pooling.flatten_heads(self.value_kernel))
        heads = pooling.gather_heads(heads, self.num_heads)  # (batch, num_heads * key_dim)
        return _functional.project_parts(
            [heads], ops.reshape(self.merge_kernel, (heads.shape[-1], -1)), self.merge_bias
        )

    def _add_kernel(self, name: str, shape: tuple[int, ...]) -> Any:
        return _weights.add_kernel(self, name, shape)

    def _check_shape(self, shape: Any) -> None:
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                "`inputs` must have rank 3, (batch, length, channels), with a known number of channels. "
                f"Received: inputs.shape={tuple(shape)}"
            )

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        return None

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        self._check_shape(input_shape)
        return (input_shape[0], self.output_units or input_shape[-1])

    def compute_output_spec(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        shape = self.compute_output_shape(inputs.shape)
        _validation.check_mask("mask", mask, inputs.shape[:2])
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        scores_shape = (inputs.shape[0], self.num_heads, inputs.shape[1])
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "query": self.query,
            "score": self.score,
            "output_units": self.output_units,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }
