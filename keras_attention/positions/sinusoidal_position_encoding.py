"""Sines and cosines of the position, added to a sequence."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _validation
from keras_attention.positions import _functional


@keras.saving.register_keras_serializable(package="keras_attention")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Adds sines and cosines of the position to a sequence, with wavelengths from 2 pi to `max_wavelength`.

    Stands behind the projection or embedding of the inputs, once per model. Has no weights and no largest
    length. Of known lengths, the encoding is a constant of the .tflite file.

    ```
    output[b, t, i] = inputs[b, t, i] + sin(t * max_wavelength^(-i / channels))         i even
    output[b, t, i] = inputs[b, t, i] + cos(t * max_wavelength^(-(i - 1) / channels))   i odd
    ```

    Differs from the paper: nothing. `keras_hub.layers.SinePositionEncoding` returns the encoding alone, this
    layer the sum. The mask of the inputs goes on.

    Args:
        max_wavelength: Number. Longest wavelength, divided by 2 pi. Defaults to `10000`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)`.
        start_index: Integer or scalar tensor. Position of the first step. Defaults to `0`.
        positions: Tensor of shape `(length,)` or `(batch, length)`, used in place of `start_index`. Defaults
            to `None`.

    Output shape:
        The shape of `inputs`.

    Example:
    ```python
    import keras
    from keras_attention import SinusoidalPositionEncoding

    inputs = keras.Input((64, 6))
    outputs = SinusoidalPositionEncoding()(keras.layers.Dense(32)(inputs))
    print(outputs.shape)  # (None, 64, 32)
    ```

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762).
    """

    def __init__(self, max_wavelength: float = 10000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_number("max_wavelength", max_wavelength)
        self.max_wavelength = max_wavelength
        self.supports_masking = True

    def build(self, inputs_shape: Any) -> None:
        _validation.check_sequence("inputs", inputs_shape)
        self.built = True

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        table = _functional.sinusoidal_table(
            ops.shape(inputs)[1], inputs.shape[-1], self.max_wavelength, start_index, positions
        )
        return ops.add(inputs, ops.cast(table, self.compute_dtype))

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        _validation.check_sequence("inputs", inputs_shape)
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
