"""Squeeze-and-excitation: a gate per channel, from the means of all channels."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _functional
from keras_attention.images.image_gate import BottleneckGate


@keras.saving.register_keras_serializable(package="keras_attention")
class SqueezeExcite(BottleneckGate):
    """A gate for each channel, from the means of all channels over the image.

    The cheapest attention of a CNN: it stands at the end of a block, before the residual sum. For sequences
    too, such as windows of sensors.

    ```
    z      = mean over all places of inputs, with `use_max_pool` half of it and half the maximum
    gate   = sigmoid(relu(z W_h + b_h) W_g + b_g)
    output = inputs * gate
    ```

    With `use_bottleneck=False` the effective variant, `gate = sigmoid(z W_g + b_g)`: one full matrix loses no
    channel, at `channels^2` weights. Its authors take `gate_activation="hard_sigmoid"`.

    Differs from the papers: the width in the middle is rounded as in mobile networks, so that few channels
    don't leave one or two units; `use_max_pool` is an addition of the library timm.

    A mask is boolean, True = count this place: padding enters neither mean nor maximum, and a sample
    without any place has a gate of 0. It goes on with the output.

    Args:
        ratio: Integer. The layer in the middle has `channels / ratio` units, at least `divisor`. Defaults
            to `16`.
        divisor: Integer. Their number is rounded to a multiple of it. Defaults to `8`.
        activation: Activation of the layer in the middle. Defaults to `"relu"`.
        gate_activation: Activation of the gate, such as `"hard_sigmoid"`. Defaults to `"sigmoid"`.
        use_bottleneck: Boolean. Whether there is a layer in the middle. Defaults to `True`.
        use_max_pool: Boolean. Whether the maxima count as much as the means. Defaults to `False`.
        use_bias: Boolean. Whether the two layers have biases. Defaults to `True`.
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
    from keras_attention import SqueezeExcite

    images = keras.Input((32, 32, 3))
    features = keras.layers.Conv2D(24, 3, activation="relu")(images)
    weighed, gate = SqueezeExcite(ratio=4)(features, return_attention_scores=True)
    print(weighed.shape, gate.shape)  # (None, 30, 30, 24) (None, 24)
    ```

    References:
        [Squeeze-and-Excitation Networks](https://arxiv.org/abs/1709.01507),
        [CenterMask](https://arxiv.org/abs/1911.06667) (`use_bottleneck=False`).
    """

    def __init__(
        self,
        ratio: int = 16,
        divisor: int = 8,
        activation: Any = "relu",
        gate_activation: Any = "sigmoid",
        use_bottleneck: bool = True,
        use_max_pool: bool = False,
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
        _validation.check_bool("use_bottleneck", use_bottleneck)
        _validation.check_bool("use_max_pool", use_max_pool)
        self.use_bottleneck = use_bottleneck
        self.use_max_pool = use_max_pool

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        channels = input_shape[-1]
        units = self._add_hidden(channels) if self.use_bottleneck else channels
        self.gate_kernel = _weights.add_kernel(self, "gate_kernel", (units, channels))
        self.gate_bias = _weights.add_bias(self, "gate_bias", (channels,))
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        axes = _functional.spatial_axes(inputs)
        pooled = _functional.mean(inputs, axes, mask)
        if self.use_max_pool:
            pooled = ops.multiply(ops.add(pooled, _functional.maximum(inputs, axes, mask)), 0.5)
        hidden = self._hidden(pooled) if self.use_bottleneck else pooled
        gate = self.gate_activation(_functional.dense(hidden, self.gate_kernel, self.gate_bias))
        gate = _functional.blank(gate, mask, axes)
        return _functional.multiply(inputs, _functional.over_places(gate, len(axes))), (gate,)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "use_bottleneck": self.use_bottleneck,
            "use_max_pool": self.use_max_pool,
        }
