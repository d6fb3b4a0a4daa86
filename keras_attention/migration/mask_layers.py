"""Small layers that give moved models the masks that their old layers saw. They hold no weights."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _masks


@keras.saving.register_keras_serializable(package="keras_attention")
class SetMask(keras.layers.Layer):
    """Returns its input with another mask attached to it, or with none.

    Needed where the old layer did not look at the mask of its input, which ours would honour.
    """

    removes_masks = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # or Keras warns that the mask is lost, which is what this layer is for

    def call(self, inputs: Any, new_mask: Any = None) -> Any:
        outputs = ops.copy(inputs)
        _masks.attach(outputs, new_mask)
        return outputs

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return None

    def compute_output_shape(self, inputs_shape: Any, new_mask_shape: Any = None) -> Any:
        return inputs_shape

    def compute_output_spec(self, inputs: Any, new_mask: Any = None) -> Any:
        outputs = keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
        _masks.attach(outputs, new_mask)
        return outputs

    def get_config(self) -> dict[str, Any]:
        return super().get_config()  # says that there are no further arguments


@keras.saving.register_keras_serializable(package="keras_attention")
class PairMask(keras.layers.Layer):
    """Which positions of a sequence see which: a window that need not be symmetric, and padding.

    Position i sees i - `before` ... i + `after`. A pair is padding if both of its positions are, as in
    keras-self-attention: words do see padding there, only padding does not see padding.

    Args:
        before: Integer or `None`. Number of positions seen before each one; `None` means all.
        after: Integer or `None`. Number of positions seen after each one; `None` means all.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, before: int | None = None, after: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.before = before
        self.after = after
        self.supports_masking = True

    def call(self, inputs: Any, padding: Any = None) -> Any:
        """`(1 or batch, length, length)` from a sequence and, if there is one, its mask `(batch, length)`."""
        length = ops.shape(inputs)[1]
        index = ops.arange(length, dtype="int32")
        # Twelve bits fewer than int32 has: the sums below cannot overflow.
        before = 2**19 if self.before is None else self.before
        after = 2**19 if self.after is None else self.after
        distance = ops.reshape(index, (1, 1, -1)) - ops.reshape(index, (1, -1, 1))
        mask = ops.logical_and(distance >= -before, distance <= after)
        if padding is not None:
            padding = _masks.as_bool(padding)
            either = ops.logical_or(
                ops.reshape(padding, (-1, length, 1)), ops.reshape(padding, (-1, 1, length))
            )
            mask = ops.logical_and(mask, either)
        return mask

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return None

    def compute_output_spec(self, inputs: Any, padding: Any = None) -> Any:
        batch = 1 if padding is None else inputs.shape[0]
        return keras.KerasTensor((batch, inputs.shape[1], inputs.shape[1]), dtype="bool")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "before": self.before, "after": self.after}
