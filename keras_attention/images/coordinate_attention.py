"""Coordinate attention: a gate per channel for each row and each column."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _weights
from keras_attention.images import _functional
from keras_attention.images.image_gate import BottleneckGate


@keras.saving.register_keras_serializable(package="keras_attention")
class CoordinateAttention(BottleneckGate):
    """A gate per channel for each row of an image and one for each column.

    A channel gate that knows where: mobile networks gain more from it than from `SqueezeExcite`, for strips
    of means instead of one.

    ```
    z       = [mean over width; mean over height] of inputs, height + width vectors
    hidden  = relu(batch_norm(z W + b))
    rows    = sigmoid(hidden[:height] W_y + b_y)
    columns = sigmoid(hidden[height:] W_x + b_x)
    output  = inputs * rows * columns
    ```

    Differs from the paper: its activation is `"hard_swish"`, which the int8 delegate lacks; the default is
    that of all other gates. Its ratio is 32.

    A mask is boolean, True = count this place: padding does not enter the means, and a row or column without
    any place has a gate of 0. It goes on with the output.

    Args:
        ratio: Integer. The layer in the middle has `channels / ratio` units, at least `divisor`. Defaults
            to `16`.
        divisor: Integer. Their number is rounded to a multiple of it. Defaults to `8`.
        activation: Activation of the layer in the middle. Defaults to `"relu"`.
        gate_activation: Activation of the gate, such as `"hard_sigmoid"`. Defaults to `"sigmoid"`.
        use_batch_norm: Boolean. Whether the layer in the middle is normalized over the batch. Defaults
            to `True`.
        use_bias: Boolean. Whether the layers have biases; batch norm brings that of the first. Defaults to
            `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        data_format: `"channels_last"` or `None`, Keras' own setting. `"channels_first"` is refused. Defaults
            to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.
        mask: Boolean tensor of shape `(batch, height, width)`. Defaults to the mask attached to them.
        return_attention_scores: Boolean. Whether to return `(output, rows, columns)`. Defaults to `False`.
        training: Boolean. Whether batch norm takes the statistics of the batch.

    Output shape:
        The shape of `inputs` and, if asked for, the gates of the rows
        `(batch, height, channels)` and of the columns `(batch, width, channels)`.

    Example:
    ```python
    import keras
    from keras_attention import CoordinateAttention

    images = keras.Input((32, 48, 3))
    features = keras.layers.Conv2D(24, 3, padding="same", activation="relu")(images)
    weighed, rows, columns = CoordinateAttention(ratio=4)(features, return_attention_scores=True)
    print(weighed.shape, rows.shape, columns.shape)  # (None, 32, 48, 24) (None, 32, 24) (None, 48, 24)
    ```

    Reference:
        [Coordinate Attention for Efficient Mobile Network Design](https://arxiv.org/abs/2103.02907)
    """

    _num_spatial_axes = (2,)

    def __init__(
        self,
        ratio: int = 16,
        divisor: int = 8,
        activation: Any = "relu",
        gate_activation: Any = "sigmoid",
        use_batch_norm: bool = True,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        weight_options = _weights.pick(locals())
        super().__init__(
            ratio, divisor, activation, gate_activation, use_bias, weight_options, data_format, **kwargs
        )
        self._set_batch_norm(use_batch_norm)

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        channels = input_shape[-1]
        units = self._add_hidden(channels, has_bias=not self.use_batch_norm)
        self._build_batch_norm((input_shape[0], None, units))
        self.row_kernel = _weights.add_kernel(self, "row_kernel", (units, channels))
        self.row_bias = _weights.add_bias(self, "row_bias", (channels,))
        self.column_kernel = _weights.add_kernel(self, "column_kernel", (units, channels))
        self.column_bias = _weights.add_bias(self, "column_bias", (channels,))
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        height = ops.shape(inputs)[1]
        strips = ops.concatenate([_functional.mean(inputs, axes, mask) for axes in ((2,), (1,))], axis=1)
        counts = None if mask is None else ops.concatenate([ops.any(mask, axis) for axis in (2, 1)], axis=1)
        hidden = _functional.dense(strips, self.hidden_kernel, self.hidden_bias)
        hidden = self.activation(self._normalize(hidden, counts, training))
        rows = _functional.dense(hidden[:, :height], self.row_kernel, self.row_bias)
        columns = _functional.dense(hidden[:, height:], self.column_kernel, self.column_bias)
        rows = _functional.blank(self.gate_activation(rows), mask, (2,))
        columns = _functional.blank(self.gate_activation(columns), mask, (1,))
        output = _functional.multiply(inputs, ops.expand_dims(rows, 2))
        return _functional.multiply(output, ops.expand_dims(columns, 1)), (rows, columns)

    def _gate_shapes(self, shape: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        batch, height, width, channels = shape
        return (batch, height, channels), (batch, width, channels)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "use_batch_norm": self.use_batch_norm}
