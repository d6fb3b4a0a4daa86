"""Global context: what attention to the whole image finds, added to or multiplied with every place."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _functional
from keras_attention.images.image_gate import BottleneckGate

FUSIONS = ("multiply", "add")
EPSILON = 1e-6
"""Of the layer norm, as in timm."""


@keras.saving.register_keras_serializable(package="keras_attention")
class GlobalContext(BottleneckGate):
    """One look at the whole image, weighed by attention, which then changes every place alike.

    A non-local block that asks the same question in every place, as such blocks turn out to do, at the cost
    of a convolution of 1 x 1. For sequences too.

    ```
    scores  = softmax over all places of inputs W_k
    context = sum over all places of scores * inputs
    change  = relu(layer_norm(context W_h + b_h)) W_g + b_g
    output  = inputs * sigmoid(change)    fusion="multiply"
              inputs + change             fusion="add"
    ```

    Differs from the paper: it adds; the library timm multiplies, as all other gates do, which is the default
    here. The bias of the logits is left out, which the softmax ignores, and no kernel starts at zero: for
    that, `kernel_initializer` is the place.

    A mask is boolean, True = count this place: padding has a score of 0. A sample without any place has
    scores of 0 and a gate of 0, or with `fusion="add"` the change that belongs to a context of zeros. The
    mask goes on with the output.

    Args:
        ratio: Integer. The layer in the middle has `channels / ratio` units, at least `divisor`. Defaults
            to `16`.
        divisor: Integer. Their number is rounded to a multiple of it. Defaults to `8`.
        activation: Activation of the layer in the middle. Defaults to `"relu"`.
        gate_activation: Activation of the factor, such as `"hard_sigmoid"`;
            `fusion="add"` has none. Defaults to `"sigmoid"`.
        fusion: `"multiply"` or `"add"`. What happens to the inputs. Defaults to `"multiply"`.
        use_layer_norm: Boolean. Whether the layer in the middle is normalized. Defaults to `True`.
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
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. The layer computes the same in training.

    Output shape:
        The shape of `inputs` and, if asked for, the scores, that shape without
        channels.

    Example:
    ```python
    import keras
    from keras_attention import GlobalContext

    images = keras.Input((32, 32, 3))
    features = keras.layers.Conv2D(24, 3, activation="relu")(images)
    changed, scores = GlobalContext(ratio=4)(features, return_attention_scores=True)
    print(changed.shape, scores.shape)  # (None, 30, 30, 24) (None, 30, 30)
    ```

    Reference:
        [GCNet: Non-local Networks Meet Squeeze-Excitation Networks and Beyond](https://arxiv.org/abs/1904.11492)
    """

    def __init__(
        self,
        ratio: int = 16,
        divisor: int = 8,
        activation: Any = "relu",
        gate_activation: Any = "sigmoid",
        fusion: str = "multiply",
        use_layer_norm: bool = True,
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
        fusion = _validation.choice("fusion", fusion, FUSIONS)
        _validation.check_bool("use_layer_norm", use_layer_norm)
        self.fusion = fusion
        self.use_layer_norm = use_layer_norm
        self.layer_norm = None
        if use_layer_norm:
            self.layer_norm = keras.layers.LayerNormalization(
                epsilon=EPSILON, dtype=self._part_dtype(), name="layer_norm"
            )

    def build(self, input_shape: Any) -> None:
        self._check_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        channels = input_shape[-1]
        self.key_kernel = _weights.add_kernel(self, "key_kernel", (channels, 1))
        units = self._add_hidden(channels)
        if self.layer_norm is not None:
            self.layer_norm.build((input_shape[0], units))
        self.gate_kernel = _weights.add_kernel(self, "gate_kernel", (units, channels))
        self.gate_bias = _weights.add_bias(self, "gate_bias", (channels,))
        self.built = True

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        axes = _functional.spatial_axes(inputs)
        context, scores = _functional.pool_by_attention(inputs, self.key_kernel, mask)
        hidden = _functional.dense(context, self.hidden_kernel, self.hidden_bias)
        if self.layer_norm is not None:
            hidden = self.layer_norm(hidden)
        change = _functional.dense(self.activation(hidden), self.gate_kernel, self.gate_bias)
        if self.fusion == "add":
            change = ops.cast(_functional.over_places(change, len(axes)), inputs.dtype)
            return ops.add(inputs, change), (scores,)
        gate = _functional.blank(self.gate_activation(change), mask, axes)
        return _functional.multiply(inputs, _functional.over_places(gate, len(axes))), (scores,)

    def _gate_shapes(self, shape: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        return (shape[:-1],)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "fusion": self.fusion,
            "use_layer_norm": self.use_layer_norm,
        }
