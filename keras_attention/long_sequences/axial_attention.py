"""Attention over the rows and columns of a grid."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.multi_head_attention import MultiHeadAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class AxialAttention(keras.layers.Layer):
    """Multi-head self-attention along the rows of a grid, then along its columns.

    For images, spectrograms and other 2-D grids: after both steps each place has met every other, at the cost
    of `height * width * (height + width)` pairs instead of `(height * width)^2`.

    ```
    rows[y, x]   = attention of inputs[y, x] to inputs[y, 0 ... width - 1]
    output[y, x] = attention of rows[y, x] to rows[0 ... height - 1, x]
    ```

    Both steps are a `MultiHeadAttention` with projections of its own: `row_attention` and `column_attention`.
    Called by themselves with `return_attention_scores=True`, they give the scores of one axis; no one tensor
    holds the scores of both, so the layer has no such argument.

    Differs from the paper: the two steps follow each other within one layer, without a residual sum, a norm
    or a feed-forward layer between them; there is no masked form for generating images pixel by pixel.

    A mask is boolean, True = attend. A place that is masked attends to nothing and is attended to by nothing.

    Args:
        num_heads: Integer. Number of heads of each step.
        key_dim: Integer. Width of each head for queries and keys.
        value_dim: Integer or `None`. Width of each head for values. Defaults to `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether the projections have biases. Defaults to `True`.
        output_shape: Integer, tuple or `None`. Feature shape of the output. Defaults to the input's width,
            which that of the row step always is.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the output of each projection. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads. Defaults to `False`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.
        mask: Boolean tensor of shape `(batch, height, width)`. Defaults to the mask attached to the inputs.
        training: Boolean. Whether dropout is active.

    Output shape:
        `(batch, height, width, channels)`.

    Example:
    ```python
    import keras
    from keras_attention import AxialAttention

    images = keras.Input((32, 48, 16))
    layer = AxialAttention(num_heads=4, key_dim=4)
    print(layer(images).shape)  # (None, 32, 48, 16)
    _, scores = layer.row_attention(images, images, return_attention_scores=True)
    print(scores.shape)  # (None, 32, 4, 48, 48)
    ```

    Reference:
        [Axial Attention in Multidimensional Transformers](https://arxiv.org/abs/1912.12180)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
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
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        # Not `self.output_shape`: Keras gives that name another meaning in `Model.summary()`.
        self._output_shape = _validation.int_tuple("output_shape", output_shape, positive=True)
        # Not `self.activity_regularizer`: it is for the projections.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.use_gate = use_gate
        self.seed = seed
        _weights.set_options(self, **_weights.pick(locals()))
        self.supports_masking = True
        self.row_attention = self._make_attention("row_attention", 2, None)
        self.column_attention = self._make_attention("column_attention", 1, output_shape)

    def _make_attention(self, name: str, axis: int, output_shape: Any) -> MultiHeadAttention:
        options = {option: getattr(self, option) for option in _weights.NAMES}
        options = {o: _validation.clone_initializer(value) for o, value in options.items()}
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            self.dropout,
            self.use_bias,
            output_shape,
            attention_axes=axis,
            activity_regularizer=self._activity_regularizer,
            use_gate=self.use_gate,
            seed=self.seed,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    def build(self, inputs_shape: Any) -> None:
        self._check_shape(inputs_shape)
        self.row_attention.build(inputs_shape, inputs_shape)
        self.column_attention.build(inputs_shape, inputs_shape)
        self.built = True

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        masks = {"query_mask": mask, "value_mask": mask}
        rows = self.row_attention(inputs, inputs, training=training, **masks)
        output = self.column_attention(rows, rows, training=training, **masks)
        _masks.attach(output, mask)
        return output

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask

    def _check_shape(self, shape: Any) -> None:
        if len(shape) != 4:
            raise ValueError(
                "`inputs` must have rank 4, (batch, height, width, channels); a sequence becomes a grid by "
                f"`keras.layers.Reshape`. Received: inputs.shape={tuple(shape)}"
            )

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        self._check_shape(inputs_shape)
        return (*inputs_shape[:-1], *(self._output_shape or (inputs_shape[-1],)))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_shape,
            "activity_regularizer": keras.regularizers.serialize(self._activity_regularizer),
            "use_gate": self.use_gate,
            "seed": self.seed,
            **_weights.get_options(self),
        }
