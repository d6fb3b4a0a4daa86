"""Neighbouring patches as one."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _windows


@keras.saving.register_keras_serializable(package="keras_attention")
class PatchMerging(keras.layers.Layer):
    """Makes one cell of each two by two of a grid, with twice the channels.

    Stands between the stages of a Swin Transformer, where a CNN has a pooling layer.

    ```
    output[y, x] = norm([inputs[2y, 2x], inputs[2y, 2x + 1], inputs[2y + 1, 2x], inputs[2y + 1, 2x + 1]]) W
    ```

    Differs from the paper: nothing; the four neighbours stand row by row, as in `tf.nn.space_to_depth`, and
    not column by column as in the published code, which matters to kernels carried over only. A grid of odd
    height or width is filled up with zeros below and to the right, as there.

    A mask of cells ends here; give the blocks behind it another.

    Args:
        output_dim: Integer or `None`. Channels of the output. Defaults to twice those of the inputs.
        epsilon: Number. Added to the variance in the norm. Defaults to `1e-5`.
        use_bias: Boolean. Whether the projection has a bias. Defaults to `False`.
        kernel_initializer: Initializer of the kernel. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the bias. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernel. Defaults to `None`.
        bias_regularizer: Regularizer of the bias. Defaults to `None`.
        kernel_constraint: Constraint of the kernel. Defaults to `None`.
        bias_constraint: Constraint of the bias. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.

    Output shape:
        `(batch, ceil(height / 2), ceil(width / 2), output_dim)`.

    Example:
    ```python
    import keras
    from keras_attention import PatchMerging

    print(PatchMerging()(keras.Input((8, 8, 32))).shape)  # (None, 4, 4, 64)
    ```

    Reference:
        [Swin Transformer](https://arxiv.org/abs/2103.14030)
    """

    def __init__(
        self,
        output_dim: int | None = None,
        epsilon: float = 1e-5,
        use_bias: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("output_dim", output_dim, optional=True)
        _validation.check_positive_number("epsilon", epsilon)
        _validation.check_bool("use_bias", use_bias)
        self.output_dim = output_dim
        self.epsilon = epsilon
        self.use_bias = use_bias
        _weights.set_options(self, **_weights.pick(locals()))
        self.supports_masking = True

    def build(self, inputs_shape: Any) -> None:
        _windows.check_images(inputs_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: inputs_shape[-1]})
        merged = (inputs_shape[0], None, 4 * inputs_shape[-1])
        self._norm = keras.layers.LayerNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name="norm"
        )
        self._norm.build(merged)
        self._projection = keras.layers.Dense(
            self._width(inputs_shape),
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name="projection",
            **{option: _validation.clone_initializer(getattr(self, option)) for option in _weights.NAMES},
        )
        self._projection.build(merged)
        self.built = True

    def call(self, inputs: Any) -> Any:
        batch, *sizes, channels = ops.shape(inputs)
        rows, columns = (_windows.divide(size, 2) for size in sizes)
        x = _windows.pad(inputs, (2 * rows, 2 * columns))
        x = _windows.cut(x, (2, 2))
        x = _functional.reshape(x, (batch, rows * columns, 4 * channels))
        x = self._projection(self._norm(x))
        return _functional.reshape(x, (batch, rows, columns, x.shape[-1]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        return None

    def _width(self, inputs_shape: Any) -> int:
        return self.output_dim or 2 * int(inputs_shape[-1])

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        _windows.check_images(inputs_shape)
        sizes = (_windows.divide(size, 2) for size in inputs_shape[1:3])
        return (inputs_shape[0], *sizes, self._width(inputs_shape))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "epsilon": self.epsilon,
            "use_bias": self.use_bias,
            **_weights.get_options(self),
        }
