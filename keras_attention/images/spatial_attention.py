"""The spatial attention of CBAM: a gate per place, from its mean and maximum over the channels."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _weights
from keras_attention.images import _functional
from keras_attention.images.image_gate import ImageGate
from keras_attention.images.image_gate import check_kernel_size


@keras.saving.register_keras_serializable(package="keras_attention")
class SpatialAttention(ImageGate):
    """A gate for each place, from means and maxima over the channels around it: the second half of `CBAM`.

    Its map shows where the model looks. For sequences too, with a kernel along the steps.

    ```
    maps   = [mean over channels; maximum over channels] of inputs
    gate   = sigmoid(batch_norm(convolution of kernel_size of maps))
    output = inputs * gate
    ```

    Differs from the paper: nothing; the batch norm, which the formula of the paper leaves out, is in the code
    of its authors. It is computed before the sigmoid in the file, folded into the convolution.

    A mask is boolean, True = count this place: what is masked enters the convolution as the zeros beyond the
    border do, and has a gate of 0. It goes on with the output.

    Args:
        kernel_size: Odd integer. Height and width of the convolution. Defaults to `7`.
        gate_activation: Activation of the gate, such as `"hard_sigmoid"`. Defaults to `"sigmoid"`.
        use_batch_norm: Boolean. Whether the map is normalized over the batch. Defaults to `True`.
        use_bias: Boolean. Whether the convolution has a bias, which batch norm brings along. Defaults to
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
        inputs: Tensor of shape `(batch, height, width, channels)` or `(batch, length, channels)`.
        mask: Boolean tensor of the shape of `inputs` without channels. Defaults to the mask attached to them.
        return_attention_scores: Boolean. Whether to return `(output, gate)`. Defaults to `False`.
        training: Boolean. Whether batch norm takes the statistics of the batch.

    Output shape:
        The shape of `inputs` and, if asked for, the gate, that shape without
        channels.

    Example:
    ```python
    import keras
    from keras_attention import SpatialAttention

    images = keras.Input((32, 32, 3))
    features = keras.layers.Conv2D(24, 3, activation="relu")(images)
    weighed, where = SpatialAttention()(features, return_attention_scores=True)
    print(weighed.shape, where.shape)  # (None, 30, 30, 24) (None, 30, 30)
    ```

    Reference:
        [CBAM: Convolutional Block Attention Module](https://arxiv.org/abs/1807.06521)
    """

    def __init__(
        self,
        kernel_size: int = 7,
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
        super().__init__(gate_activation, use_bias, weight_options, data_format, **kwargs)
        check_kernel_size(kernel_size)
        self.kernel_size = kernel_size
        self._set_batch_norm(use_batch_norm)

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        num_axes = len(input_shape) - 2
        self.kernel = _weights.add_kernel(self, "kernel", (*(self.kernel_size,) * num_axes, 2, 1))
        self.bias = None if self.use_batch_norm else _weights.add_bias(self, "bias", (1,))
        self._build_batch_norm((*input_shape[:-1], 1))
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        means = ops.mean(_functional.wide(inputs), -1, keepdims=True)
        maxima = _functional.wide(ops.max(inputs, -1, keepdims=True))
        maps = _functional.blank(ops.concatenate([means, maxima], -1), mask)
        logits = _functional.convolve(maps, self.kernel, self.bias)
        gate = self.gate_activation(self._normalize(logits, mask, training))
        gate = _functional.blank(gate, mask)
        return _functional.multiply(inputs, gate), (ops.squeeze(gate, -1),)

    def _gate_shapes(self, shape: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        return (shape[:-1],)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "use_batch_norm": self.use_batch_norm,
        }
