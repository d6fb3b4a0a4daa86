"""Efficient channel attention: a gate per channel, from its own mean and those of its neighbours."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _functional
from keras_attention.images.image_gate import ImageGate
from keras_attention.images.image_gate import check_kernel_size


@keras.saving.register_keras_serializable(package="keras_attention")
class EfficientChannelAttention(ImageGate):
    """A gate for each channel, from the means of the channel and its neighbours.

    A handful of weights where `SqueezeExcite` has thousands, and about as good in its paper: for the smallest
    models. For sequences too.

    ```
    z       = mean over all places of inputs
    gate[c] = sigmoid(sum_i kernel[i] z[c + i - (kernel_size - 1) / 2])
    output  = inputs * gate
    ```

    `kernel_size=None` takes the odd number at or above `|log2(channels) + beta| / gamma`, rounded down.

    Differs from the paper: nothing. The library timm never takes a kernel of 1, which up to 4 channels is
    adaptive; pass `kernel_size=3` for that.

    A mask is boolean, True = count this place: padding does not enter the mean, and a sample without any
    place has a gate of 0. It goes on with the output.

    Args:
        kernel_size: Odd integer or `None`. Number of means that a gate sees; `None` is adaptive. Defaults to
            `None`.
        gamma: Number above 0. Divisor of the adaptive size. Defaults to `2`.
        beta: Number. Addend of the adaptive size. Defaults to `1`.
        gate_activation: Activation of the gate, such as `"hard_sigmoid"`. Defaults to `"sigmoid"`.
        use_bias: Boolean. Whether one number is added to all gates' logits. Defaults to `False`.
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
        return_attention_scores: Boolean. Whether to return `(output, gate)`. Defaults to `False`.
        training: Boolean. The layer computes the same in training.

    Output shape:
        The shape of `inputs` and, if asked for, the gate `(batch, channels)`.

    Example:
    ```python
    import keras
    from keras_attention import EfficientChannelAttention

    images = keras.Input((32, 32, 3))
    features = keras.layers.Conv2D(24, 3, activation="relu")(images)
    layer = EfficientChannelAttention()
    print(layer(features).shape, layer.count_params())  # (None, 30, 30, 24) 3
    ```

    Reference:
        [ECA-Net](https://arxiv.org/abs/1910.03151)
    """

    def __init__(
        self,
        kernel_size: int | None = None,
        gamma: float = 2,
        beta: float = 1,
        gate_activation: Any = "sigmoid",
        use_bias: bool = False,
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
        super().__init__(gate_activation, use_bias, weight_options, data_format, **kwargs)
        check_kernel_size(kernel_size, optional=True)
        _validation.check_positive_number("gamma", gamma)
        _validation.check_number("beta", beta)
        self.kernel_size = kernel_size
        self.gamma = gamma
        self.beta = beta

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        size = self.kernel_size
        if size is None:
            size = _functional.adaptive_kernel_size(input_shape[-1], self.gamma, self.beta)
        self.kernel = _weights.add_kernel(self, "kernel", (size,))
        self.bias = _weights.add_bias(self, "bias", (1,))
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        axes = _functional.spatial_axes(inputs)
        pooled = _functional.mean(inputs, axes, mask)
        gate = self.gate_activation(_functional.convolve_channels(pooled, self.kernel, self.bias))
        gate = _functional.blank(gate, mask, axes)
        return _functional.multiply(inputs, _functional.over_places(gate, len(axes))), (gate,)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "gamma": self.gamma,
            "beta": self.beta,
        }
