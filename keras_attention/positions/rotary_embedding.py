"""Rotary position embedding: queries and keys turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _functional as functional
from keras_attention import _validation
from keras_attention.positions import _functional


@keras.saving.register_keras_serializable(package="keras_attention")
class RotaryEmbedding(keras.layers.Layer):
    """Rotary position embedding: turns pairs of features by an angle proportional to the position.

    For queries and keys, not values: their products then depend on the distance alone. Give it to
    `MultiHeadAttention(rotary=RotaryEmbedding())`, or call it on projected queries and keys of your own.
    Computes what `keras_hub.layers.RotaryEmbedding` does. Of known lengths, the sines and cosines are
    constants of the .tflite file.

    ```
    angle = position / scaling_factor * max_wavelength^(-2 i / features)            i = 0 ... features/2 - 1
    first half:   x_i cos(angle) - x_(i + features/2) sin(angle)
    second half:  x_(i + features/2) cos(angle) + x_i sin(angle)
    ```

    Differs from the paper: pairs a feature with the one half the width away, as most programs do, and not
    with its neighbour. The mask of the inputs goes on.

    Args:
        max_wavelength: Number. Longest wavelength, divided by 2 pi. Defaults to `10000`.
        scaling_factor: Number. Positions are divided by it, to stretch a model over longer sequences.
            Defaults to `1.0`.
        sequence_axis: Integer. Axis of the positions. Defaults to `1`.
        feature_axis: Integer. Axis of the features, an even number of them. Defaults to `-1`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, num_heads, head_dim)`, `(batch, length, channels)` or with
            the axes elsewhere.
        start_index: Integer or scalar tensor. Position of the first step. Defaults to `0`.
        positions: Tensor of shape `(length,)` or `(batch, length)`, used in place of `start_index`. Defaults
            to `None`.

    Output shape:
        The shape of `inputs`.

    Example:
    ```python
    import numpy as np
    from keras_attention import RotaryEmbedding

    rotary = RotaryEmbedding()
    queries = rotary(np.ones((2, 16, 4, 8)))  # (batch, length, num_heads, head_dim)
    step = rotary(np.ones((2, 1, 4, 8)), start_index=15)  # the last of them alone
    print(np.abs(queries[:, 15:] - step).max())  # 0
    ```

    Reference:
        [RoFormer](https://arxiv.org/abs/2104.09864).
    """

    def __init__(
        self,
        max_wavelength: float = 10000,
        scaling_factor: float = 1.0,
        sequence_axis: int = 1,
        feature_axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_number("max_wavelength", max_wavelength)
        _validation.check_positive_number("scaling_factor", scaling_factor)
        _validation.check_int("sequence_axis", sequence_axis)
        _validation.check_int("feature_axis", feature_axis)
        self.max_wavelength = max_wavelength
        self.scaling_factor = scaling_factor
        self.sequence_axis = sequence_axis
        self.feature_axis = feature_axis
        self.supports_masking = True

    def build(self, inputs_shape: Any) -> None:
        self._axes(inputs_shape)
        self.built = True

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        sequence_axis, feature_axis = self._axes(inputs.shape)
        sizes = ops.shape(inputs)
        features = inputs.shape[feature_axis]
        frequencies = float(self.max_wavelength) ** -(np.arange(0, features, 2) / features)
        angle = _functional.angles(
            sizes[sequence_axis], frequencies / self.scaling_factor, start_index, positions
        )
        shape = [1] * len(sizes)
        shape[sequence_axis], shape[feature_axis] = sizes[sequence_axis], features
        cos, sin = (
            self._table(table, shape, sequence_axis > feature_axis)
            for table in _functional.rotary_tables(angle)
        )
        return _functional.rotate(inputs, cos, sin, feature_axis)

    def _table(self, table: Any, shape: list[Any], is_transposed: bool) -> Any:
        """Turns `(batch or 1, length, features)` into a tensor that broadcasts to the inputs."""
        batch = ops.shape(table)[0]
        if isinstance(table, np.ndarray):
            table = np.swapaxes(table, 1, 2) if is_transposed else table
            return ops.cast(table.reshape((batch, *shape[1:])), self.compute_dtype)
        table = functional.swap_last_axes(table) if is_transposed else table
        return ops.cast(functional.reshape(table, (batch, *shape[1:])), self.compute_dtype)

    def _axes(self, shape: Any) -> tuple[int, int]:
        """Both axes counted from the front, checked."""
        ndim = len(shape)
        received = (
            f"Received: inputs.shape={tuple(shape)}, sequence_axis={self.sequence_axis}, "
            f"feature_axis={self.feature_axis}"
        )
        axes = [axis + ndim if axis < 0 else axis for axis in (self.sequence_axis, self.feature_axis)]
        if axes[0] == axes[1] or not all(0 < axis < ndim for axis in axes):
            raise ValueError(
                "`sequence_axis` and `feature_axis` must be two axes of the inputs behind the batch. "
                + received
            )
        features = shape[axes[1]]
        if features is None or features % 2:
            raise ValueError(f"The number of features must be known and even: they turn in pairs. {received}")
        return axes[0], axes[1]

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        self._axes(inputs_shape)
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "scaling_factor": self.scaling_factor,
            "sequence_axis": self.sequence_axis,
            "feature_axis": self.feature_axis,
        }
