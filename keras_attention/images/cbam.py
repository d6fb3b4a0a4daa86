"""CBAM: channel attention, then spatial attention."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images.channel_attention import ChannelAttention
from keras_attention.images.image_gate import BottleneckGate
from keras_attention.images.spatial_attention import SpatialAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class CBAM(BottleneckGate):
    """A gate for each channel, then one for each place: `ChannelAttention` and `SpatialAttention` in a row.

    It says which features count and where, at the end of a block, before the residual sum. The map of places
    is a picture of where the model looks. For sequences too.

    ```
    x      = inputs * sigmoid(mlp(mean over places) + mlp(maximum over places))
    output = x * sigmoid(batch_norm(convolution of [mean over channels; maximum over channels] of x))
    ```

    The two layers are the attributes `channel_attention` and `spatial_attention`.

    Differs from the paper: the width in the middle is rounded as in `SqueezeExcite`.

    A mask is boolean, True = count this place: padding enters neither means nor maxima, counts as zeros in
    the convolution, and has a gate of 0. It goes on with the output.

    Args:
        ratio: Integer. The layer in the middle has `channels / ratio` units, at least `divisor`. Defaults
            to `16`.
        divisor: Integer. Their number is rounded to a multiple of it. Defaults to `8`.
        activation: Activation of the layer in the middle. Defaults to `"relu"`.
        gate_activation: Activation of the gates, such as `"hard_sigmoid"`. Defaults to `"sigmoid"`.
        kernel_size: Odd integer. Height and width of the convolution. Defaults to `7`.
        use_batch_norm: Boolean. Whether the map is normalized over the batch. Defaults to `True`.
        use_bias: Boolean. Whether the layers have biases. Defaults to `True`.
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
        inputs: Tensor of shape `(batch, height, width, channels)` or `(batch, length, channels)`.
        mask: Boolean tensor of the shape of `inputs` without channels. Defaults to the mask attached to them.
        return_attention_scores: Boolean. Whether to return `(output, channel_gate, spatial_gate)`.
            Defaults to `False`.
        training: Boolean. Whether batch norm takes the statistics of the batch.

    Output shape:
        The shape of `inputs` and, if asked for, the gates `(batch, channels)` and
        `(batch, height, width)` or `(batch, length)`.

    Example:
    ```python
    import keras
    from keras_attention import CBAM

    images = keras.Input((32, 32, 3))
    features = keras.layers.Conv2D(24, 3, activation="relu")(images)
    weighed, channels, places = CBAM(ratio=4)(features, return_attention_scores=True)
    print(weighed.shape, channels.shape, places.shape)  # (None, 30, 30, 24) (None, 24) (None, 30, 30)
    ```

    Reference:
        [CBAM: Convolutional Block Attention Module](https://arxiv.org/abs/1807.06521)
    """

    def __init__(
        self,
        ratio: int = 16,
        divisor: int = 8,
        activation: Any = "relu",
        gate_activation: Any = "sigmoid",
        kernel_size: int = 7,
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
        self.kernel_size = kernel_size
        self.use_batch_norm = use_batch_norm
        options = {"gate_activation": gate_activation, "use_bias": use_bias, "data_format": data_format}
        options |= {"dtype": self.dtype_policy}
        weights = [{n: _validation.clone_initializer(getattr(self, n)) for n in _weights.NAMES} for _ in "12"]
        self.channel_attention = ChannelAttention(
            ratio, divisor, activation, name="channel_attention", **options, **weights[0]
        )
        self.spatial_attention = SpatialAttention(
            kernel_size, use_batch_norm=use_batch_norm, name="spatial_attention", **options, **weights[1]
        )

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        self.channel_attention.build(input_shape)
        self.spatial_attention.build(input_shape)
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        options = {"mask": mask, "return_attention_scores": True, "training": training}
        x, channel_gate = self.channel_attention(inputs, **options)
        output, spatial_gate = self.spatial_attention(x, **options)
        return output, (channel_gate, spatial_gate)

    def _gate_shapes(self, shape: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        return (shape[0], shape[-1]), shape[:-1]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "use_batch_norm": self.use_batch_norm,
        }
