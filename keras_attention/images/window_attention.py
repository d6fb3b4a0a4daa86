"""Attention within the windows of an image."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.multi_head_attention import MultiHeadAttention
from keras_attention.images import _windows
from keras_attention.images._windows import Windows
from keras_attention.positions.relative_position_bias import RelativePositionBias


@keras.saving.register_keras_serializable(package="keras_attention")
class WindowAttention(keras.layers.Layer):
    """Multi-head self-attention within windows of an image, which may be shifted.

    For images, spectrograms and other 2-D grids of which what is near matters most: each cell meets the cells
    of its own window, at the cost of `height * width * window_height * window_width` pairs instead of
    `(height * width)^2`. Layers with and without a shift, in turn, carry what they find from window to
    window.

    ```
    rolled[y, x]    = inputs[(y + shift) mod height, (x + shift) mod width]
    scores[i, j]    = softmax over j of  rolled_i W_q · rolled_j W_k / sqrt(key_dim) + table[i - j]
                      for i and j of one window of rolled that are of one window of the image too
    output          = (scores · rolled W_v) W_o, rolled back
    ```

    Differs from the paper: where the window does not divide the image, the cells that fill up the last
    windows, below and to the right, are masked; the published code attends to them as to zeros. A window
    that is larger than the image is made as small as it, and isn't shifted, as in the published code; the
    table of positions keeps its size.

    A mask is boolean, True = attend. A cell that is masked attends to nothing and is attended to by nothing.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        window_size: Integer or `(height, width)`. Size of the windows. Defaults to `7`.
        shift_size: Integer or `(rows, columns)`. How far the windows are shifted, less than their size; half
            of it in every other layer. Defaults to `0`.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether the projections have biases. Defaults to `True`.
        output_shape: Integer or `None`. Width of the output. Defaults to that of the inputs.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the output of each projection. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads. Defaults to `False`.
        num_key_value_heads: Integer or `None`. Number of heads of keys and values, which divides `num_heads`.
            Defaults to `None`, as many.
        use_query_key_norm: Boolean. Whether each head's queries and keys go through an RMS normalization.
            Defaults to `False`.
        use_position_bias: Boolean. Whether a learned number for the way from query to key is added to the
            logits, by a `RelativePositionBias`. Defaults to `True`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.
        mask: Boolean tensor of shape `(batch, height, width)`. Defaults to the mask attached to the inputs.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.

    Output shape:
        `(batch, height, width, channels)` and, if asked for, scores
        `(batch, num_windows * num_heads, cells, cells)`, window by window, row by row, of the rolled image;
        of rank 4, so that mobile takes them.

    Example:
    ```python
    import keras
    from keras_attention import WindowAttention

    images = keras.Input((32, 32, 48))
    x = WindowAttention(num_heads=4, key_dim=12, window_size=8)(images)
    x, scores = WindowAttention(4, 12, window_size=8, shift_size=4)(x, return_attention_scores=True)
    print(x.shape, scores.shape)  # (None, 32, 32, 48) (None, 64, 64, 64)
    ```

    Reference:
        [Swin Transformer](https://arxiv.org/abs/2103.14030)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window_size: Any = 7,
        shift_size: Any = 0,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | None = None,
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
        use_position_bias: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window_size = _windows.size_pair("window_size", window_size)
        self.shift_size = _windows.shift_pair(shift_size, self.window_size)
        _validation.check_positive_int("output_shape", output_shape, optional=True)
        _validation.check_bool("use_position_bias", use_position_bias)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        # Not `self.output_shape`: Keras gives that name another meaning in `Model.summary()`.
        self._output_width = output_shape
        # Not `self.activity_regularizer`: it is for the projections.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.use_gate = use_gate
        self.num_key_value_heads = num_key_value_heads
        self.use_query_key_norm = use_query_key_norm
        self.use_position_bias = use_position_bias
        self.seed = seed
        _weights.set_options(self, **_weights.pick(locals()))
        self.supports_masking = True
        self._attention = _Heads(
            num_heads,
            key_dim,
            value_dim,
            dropout,
            use_bias,
            output_shape,
            activity_regularizer=self._activity_regularizer,
            use_gate=use_gate,
            num_key_value_heads=num_key_value_heads,
            use_query_key_norm=use_query_key_norm,
            seed=seed,
            dtype=self.dtype_policy,
            name="attention",
            **{name: _validation.clone_initializer(getattr(self, name)) for name in _weights.NAMES},
        )
        self._position_bias: Any = None
        if use_position_bias:
            self._position_bias = RelativePositionBias(
                num_heads, window_size=self.window_size, dtype=self.dtype_policy, name="position_bias"
            )

    def build(self, inputs_shape: Any) -> None:
        _windows.check_images(inputs_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: inputs_shape[-1]})
        tokens_shape = (None, None, inputs_shape[-1])
        self._attention.build(tokens_shape, tokens_shape)
        if self._position_bias is not None:
            self._position_bias.build()
        self.built = True

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        _validation.check_mask("mask", mask, inputs.shape[:-1])
        batch, *sizes, _ = ops.shape(inputs)
        windows = Windows.of(sizes, self.window_size, self.shift_size)
        regions, cells = windows.regions, None
        if mask is not None:
            cells = windows.split(ops.expand_dims(_masks.as_bool(mask), -1))[..., 0]
        bias = None
        if self._position_bias is not None:
            bias = self._position_bias.compute_window_bias(*windows.window)
        output, scores = self._attention.attend_windows(windows.split(inputs), regions, cells, bias, training)
        output = windows.join(output, batch)
        _masks.attach(output, mask)
        if not return_attention_scores:
            return output
        heads, num_cells = self.num_heads * _functional.product(windows.counts), scores.shape[-1]
        scores = _functional.reshape(scores, (batch, heads, num_cells, num_cells))
        if windows.is_padded:
            inside = ops.repeat(ops.convert_to_tensor(regions >= 0), self.num_heads, axis=0)
            inside = _functional.reshape(inside, (1, heads, num_cells, 1))
            scores = ops.where(inside, scores, 0.0)
        return output, scores

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        _windows.check_images(inputs_shape)
        return (*inputs_shape[:-1], self._output_width or inputs_shape[-1])

    def compute_output_spec(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        output = keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)
        _validation.check_mask("mask", mask, inputs.shape[:-1])
        if not return_attention_scores:
            return output
        heads, cells = _windows.scores_sizes(inputs.shape[1:3], self.window_size, self.num_heads)
        scores_shape = (inputs.shape[0], heads, cells, cells)
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "window_size": self.window_size,
            "shift_size": self.shift_size,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_width,
            "activity_regularizer": keras.regularizers.serialize(self._activity_regularizer),
            "use_gate": self.use_gate,
            "num_key_value_heads": self.num_key_value_heads,
            "use_query_key_norm": self.use_query_key_norm,
            "use_position_bias": self.use_position_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }


class _Heads(MultiHeadAttention):
    """Multi-head attention of windows `(batch * windows, cells, channels)`."""

    def attend_windows(
        self, windows: Any, regions: Any, mask: Any, bias: Any, training: bool | None
    ) -> tuple[Any, Any]:
        """Output and scores.

        Args:
            windows: Tensor of shape `(batch * windows, cells, channels)`.
            regions: Region of each cell, `(windows, cells)`, outside of which it sees nothing, or `None`.
            mask: Boolean tensor of shape `(batch * windows, cells)` or `None`.
            bias: Tensor of shape `(1, num_heads, cells, cells)` or `None`.
            training: Whether dropout is active.
        """
        heads = self._project(windows, windows, windows)
        query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in heads)
        scale = _functional.factor(1.0 / math.sqrt(self.key_dim), query)
        logits = _functional.dot_product_logits(query, key, scale, bias)
        if mask is not None:
            cells = windows.shape[1]
            mask = _masks.merge_masks(cells, cells, 4, query_mask=mask, value_mask=mask)
        if regions is not None and mask is not None:
            mask = _windows.over_windows(ops.logical_and, mask, _windows.pairs_within(regions))
        elif regions is not None:
            logits = _windows.over_windows(_functional.mask_logits, logits, _windows.pairs_within(regions))
        context, scores = _functional.attend(
            logits, value, mask, lambda x: self._dropout_layer(x, training=training)
        )
        return self._merge_heads(windows, ops.transpose(context, (0, 2, 1, 3))), scores
