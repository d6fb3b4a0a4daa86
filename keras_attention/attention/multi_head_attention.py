"""Multi-head attention, a drop-in for `keras.layers.MultiHeadAttention`."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention import _blockwise
from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _sublayers
from keras_attention import _validation
from keras_attention import _weights
from keras_attention._layout import Layout
from keras_attention.attention.decoding_layer import DecodingLayer


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(DecodingLayer):
    """Multi-head scaled dot-product attention with learned projections.

    A drop-in for `keras.layers.MultiHeadAttention`: the same arguments, weights and weight order, so that
    `set_weights`, `load_weights` and `from_config` carry a trained built-in over. With fewer key heads it is
    grouped-query or multi-query attention. Computes at rank 4 or below, which is what mobile delegates want.

    ```
    q_i, k_j, v_j = query W_q,i,  key W_k,j,  value W_v,j        j = i // (num_heads / num_key_value_heads)
    q_i, k_j      = rotate(norm(q_i)), rotate(norm(k_j))         use_query_key_norm, rotary
    head_i        = softmax(q_i k_j^T / sqrt(key_dim) + bias_i) v_j
    output        = concat(head_1, ..., head_n) W_o
    ```

    Differs from the paper: nothing; `use_gate=True` multiplies head_i by `sigmoid(query W_g,i)`.
    Differs from the built-in: an explicit `query_mask` is honoured; a query position that may attend to
    nothing gets zero scores and zero heads (the output is the bias of W_o) on every path; symbolic scores of
    cross-attention have the right shape; causal masks and windows follow the attended axis.

    Masks are boolean, True = attend, and are AND-ed. An explicit mask takes the place of the one attached to
    its tensor.

    With `cache` and `cache_index`, `query` and `value` are the next tokens of a sequence, one or several.
    Their keys and values are written behind those of the positions before, and each token attends to all of
    these and to itself. No key is computed twice; the output is that of causal attention over the whole
    sequence. Masks of keys then have the shape `(batch, max_length)`: a cache remembers no masks.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether the projections have biases. Defaults to `True`.
        output_shape: Integer, tuple or `None`. Feature shape of the output. Defaults to the query's width.
        attention_axes: Integer, tuple or `None`. Axes attended over, for inputs of rank above 3. `None` means
            all but batch and channels. Defaults to `None`.
        sliding_window: Integer or `None`. Each position attends to positions less than this far away.
            Defaults to `None`.
        flash_attention: Boolean or `None`. `True` demands the backend's flash kernel (JAX, PyTorch), `False`
            avoids fused attention, `None` goes by the backend and `keras.config`. Defaults to `None`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the output of each projection. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads. Defaults to `False`.
        num_key_value_heads: Integer or `None`. Number of heads of keys and values, each shared by
            `num_heads / num_key_value_heads` consecutive query heads; 1 is multi-query attention. `None`
            means `num_heads`. Defaults to `None`.
        use_query_key_norm: Boolean. Whether each head's queries and keys go through an RMS normalization with
            learned scales, which keeps the logits of large models bounded. Defaults to `False`.
        rotary: Layer or `None`. `RotaryEmbedding`, which turns queries and keys by their positions. Defaults
            to `None`.
        position_bias: Layer or `None`. `ALiBi` or `RelativePositionBias`, which is added to the logits; any
            layer with `compute_bias(query_length, key_length, query_start)`. Defaults to `None`.
        block_size: Integer or `None`. Queries that attend at once: exact attention, in training too, in
            memory that grows with the length and not with its square. Scores that are asked for are formed in
            full, and a `position_bias` with weights is refused beside it. Defaults to `None`, all at once.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, query_length, channels)`, or with several axes for the length.
        value: Tensor of shape `(batch, key_length, value_channels)`.
        key: Tensor of shape `(batch, key_length, key_channels)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, query_length)`.
        value_mask: Boolean tensor of shape `(batch, key_length)`.
        key_mask: Boolean tensor of shape `(batch, key_length)`.
        attention_mask: Boolean tensor that broadcasts to the scores; batch and heads may be left out.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.
        cache: Pair of tensors `(batch, num_key_value_heads, max_length, key_dim)` and `(..., value_dim)` from
            `make_cache(batch, max_length)` or the call before. Defaults to `None`.
        cache_index: Integer, or integer tensor of shape `()`, `(1,)` or `(batch,)`. Number of positions in
            the cache, which must have room for the new tokens.

    Output shape:
        Output `(batch, query_length, channels)` and, if asked for, scores
        `(batch, num_heads, query_length, key_length)`. With `cache`, last of all, the new pair; the scores
        are over `max_length` keys.

    Example:
    ```python
    import keras
    from keras_attention import MultiHeadAttention

    inputs = keras.Input((16, 32))
    outputs, scores = MultiHeadAttention(num_heads=4, key_dim=8)(inputs, inputs, return_attention_scores=True)
    print(outputs.shape, scores.shape)  # (None, 16, 32) (None, 4, 16, 16)
    ```

    References:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
        [Gated Attention for Large Language Models](https://arxiv.org/abs/2505.06708) (`use_gate`),
        [GQA](https://arxiv.org/abs/2305.13245) (`num_key_value_heads`),
        [Scaling Vision Transformers](https://arxiv.org/abs/2302.05442) (`use_query_key_norm`).
    """

    _layer_arguments = ("rotary", "position_bias")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        num_key_value_heads: int | None = None,
        use_query_key_norm: bool = False,
        rotary: Any = None,
        position_bias: Any = None,
        block_size: int | None = None,
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
            num_key_value_heads=num_key_value_heads,
            use_query_key_norm=use_query_key_norm,
            rotary=rotary,
            **kwargs,
        )
        _validation.check_positive_int("sliding_window", sliding_window, optional=True)
        if flash_attention is not None:
            _validation.check_bool("flash_attention", flash_attention)
        if flash_attention and dropout > 0:
            raise ValueError(
                "`flash_attention=True` has no dropout; set `dropout` to 0 or `flash_attention` to None. "
                f"Received: flash_attention=True, dropout={dropout}"
            )
        if position_bias is not None:
            _validation.check_layer("position_bias", position_bias, "compute_bias")
            if getattr(position_bias, "num_heads", num_heads) != num_heads:
                raise ValueError(
                    "`position_bias` must have as many heads as the layer. Received: num_heads="
                    f"{num_heads}, position_bias of num_heads={position_bias.num_heads}"
                )
        self.position_bias = position_bias
        _validation.check_positive_int("block_size", block_size, optional=True)
        if flash_attention and block_size is not None:
            raise ValueError(
                "`block_size` and `flash_attention=True` are two ways to the same end; set one of them to "
                f"None. Received: block_size={block_size}, flash_attention=True"
            )
        self.attention_axes = _validation.int_tuple("attention_axes", attention_axes)
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.block_size = block_size

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.position_bias is not None and not self.position_bias.built:
            self.position_bias.build((None, self.num_heads, None, None))
        if self.block_size is not None and self.position_bias is not None and self.position_bias.weights:
            raise ValueError(
                "`block_size` takes a `position_bias` without weights, such as `ALiBi`: the gradient of a "
                "learned one needs all pairs of positions at once. Use `ALiBi` or `rotary`, or set "
                f"`block_size` to None. Received: block_size={self.block_size}, "
                f"position_bias={self.position_bias.name!r} with weights"
            )

    def _compute(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        layout = self._layout(len(query.shape))
        query_sizes, key_sizes = ops.shape(query), ops.shape(value)
        flat_value = layout.flatten(value)  # (batch, key_length, value_channels)
        output, scores = super()._compute(
            layout.flatten(query),  # (batch, query_length, channels)
            flat_value,
            flat_value if key is value else layout.flatten(key),
            layout.flatten_masks(masks, query_sizes, key_sizes),
            training,
            return_attention_scores,
        )
        output = layout.restore(output, query_sizes)
        if return_attention_scores:
            scores = layout.restore_scores(scores, query_sizes, key_sizes)
        return output, scores

    def _attend_masked(
        self,
        query: Any,
        key: Any,
        value: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        masks = {**masks, "sliding_window": self.sliding_window}
        if self.block_size is not None and not return_attention_scores:
            return self._attend_in_blocks(query, key, value, masks, training), None
        return super()._attend_masked(query, key, value, masks, training, return_attention_scores)

    def _attend_in_blocks(
        self, query: Any, key: Any, value: Any, masks: dict[str, Any], training: bool | None
    ) -> Any:
        """The context, from the scores of `block_size` queries at a time."""
        drops = bool(training) and self.dropout > 0
        blocks = _blockwise.Blocks(
            self.block_size or 0,
            1.0 / math.sqrt(self.key_dim),
            masks["use_causal_mask"],
            masks["sliding_window"],
            self.dropout if drops else 0.0,
            self._dropout_layer.seed_generator.next() if drops else None,
            None if self.position_bias is None else self._bias,
        )
        given = {**masks, "use_causal_mask": False, "sliding_window": None, "query_mask": None}
        mask = _masks.merge_masks(ops.shape(query)[1], ops.shape(key)[1], 4, **given)
        context = _blockwise.attend(query, key, value, mask, blocks)
        query_mask = masks["query_mask"]
        if query_mask is None:
            return context
        sizes = (*ops.shape(query_mask), 1, 1)
        return ops.where(_functional.reshape(_masks.as_bool(query_mask), sizes), context, 0.0)

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
        bias_rows: Any = None,
    ) -> tuple[Any, Any]:
        """Attention of `(batch, length, num_heads, head_dim)`, by the backend's kernel if it has one.

        Whoever passes some queries of a sequence passes `bias_rows` too, their rows of `_bias`.
        """
        bias = bias_rows
        if bias is None:
            bias = self._bias(ops.shape(query)[1], ops.shape(key)[1])
        scale = 1.0 / math.sqrt(self.key_dim)
        flash = self.flash_attention
        flash = keras.config.is_flash_attention_enabled() if flash is None else flash
        if self._use_fused(flash, return_attention_scores):
            return _functional.fused_attention(query, key, value, mask, scale, flash, bias), None
        query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
        context, scores = self._attend_heads(query, key, value, mask, training, bias)
        return ops.transpose(context, (0, 2, 1, 3)), scores

    def _attend_heads(
        self, query: Any, key: Any, value: Any, mask: Any, training: bool | None, bias: Any
    ) -> tuple[Any, Any]:
        """Attention of `(batch, heads, length, head_dim)`, by way of the scores."""
        scale = _functional.factor(1.0 / math.sqrt(self.key_dim), query)
        logits = _functional.dot_product_logits(query, key, scale, bias)
        return _functional.attend(logits, value, mask, lambda x: self._dropout_layer(x, training=training))

    def _bias(self, query_length: Any, key_length: Any, query_start: Any = 0) -> Any:
        """Rows of the position bias, which broadcast to the logits: queries from `query_start` on."""
        if self.position_bias is None:
            return None
        return self.position_bias.compute_bias(query_length, key_length, query_start)

    def _use_fused(self, flash: bool | None, return_attention_scores: bool) -> bool:
        backend = keras.config.backend()
        if self.flash_attention and backend == "tensorflow":
            raise ValueError(
                "`flash_attention=True` needs the JAX or PyTorch backend; to run the model on TensorFlow, as "
                "a conversion does, set `layer.flash_attention = None`. Received: flash_attention=True"
            )
        if self.flash_attention and return_attention_scores:
            raise ValueError(
                "`return_attention_scores=True` is impossible with `flash_attention=True`, which forms no "
                "scores; set `layer.flash_attention = None`. Received: return_attention_scores=True"
            )
        if self.flash_attention:
            return True
        if self.flash_attention is False or return_attention_scores or self.dropout > 0:
            return False
        # JAX only with its flash kernel: the other saves nothing, and its gradients are NaN for huge logits.
        return backend == "torch" or (backend == "jax" and bool(flash) and self.key_dim == self.value_dim)

    def _layout(self, ndim: int) -> Layout:
        return Layout(self.attention_axes, ndim)

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        if len(query_shape) < 3 or len(value_shape) != len(query_shape):
            raise ValueError(
                "`query` and `value` must have the same rank, at least 3: (batch, length, channels). "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        _validation.check_shapes(query_shape, value_shape, key_shape)
        self._layout(len(query_shape)).check(query_shape, value_shape)

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        layout = self._layout(len(query_shape))
        if len(layout.axes) > 1 and (use_causal_mask or self.sliding_window is not None):
            raise ValueError(
                "`use_causal_mask` and `sliding_window` need a single attention axis; choose it with "
                f"`attention_axes`, or pass an `attention_mask`. Received: attention axes {layout.axes}, "
                f"use_causal_mask={use_causal_mask}, sliding_window={self.sliding_window}"
            )
        if len(layout.axes) > 1 and self.rotary is not None:
            raise ValueError(
                "`rotary` needs a single attention axis, along which it counts positions; choose it with "
                f"`attention_axes`. Received: attention axes {layout.axes}, rotary={self.rotary.name!r}"
            )
        scores_shape = self._scores_shape_of(query_shape, value_shape)
        _validation.check_masks(query_shape[:-1], value_shape[:-1], scores_shape, len(layout.axes), **masks)

    def _scores_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return self._layout(len(query_shape)).scores_sizes(query_shape, value_shape, self.num_heads)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "attention_axes": self.attention_axes,
            "sliding_window": self.sliding_window,
            "flash_attention": self.flash_attention,
            "position_bias": _sublayers.serialize(self.position_bias),
            "block_size": self.block_size,
        }
