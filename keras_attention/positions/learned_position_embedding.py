"""A learned vector for each position, added to a sequence."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _validation
from keras_attention.positions import _functional


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedPositionEmbedding(keras.layers.Layer):
    """Adds a learned vector for each position to a sequence.

    Stands behind the projection or embedding of the inputs, once per model. For windows of one length, where
    a position means something of its own; a sequence longer than in training has vectors without training.

    ```
    output[b, t] = inputs[b, t] + table[start_index + t]
    ```

    Differs from the papers: nothing. `keras_hub.layers.PositionEmbedding` returns the rows alone, this layer
    the sum; the arguments and the weight are the same. The mask of the inputs goes on.

    Args:
        sequence_length: Integer. Number of positions, the greatest length.
        initializer: Initializer of the table. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)`; a longer one is refused.
        start_index: Integer or scalar tensor. Position of the first step. A tensor cannot be checked against
            the length of the table. Defaults to `0`.
        positions: Tensor of shape `(length,)` or `(batch, length)`, used in place of `start_index`. Defaults
            to `None`.

    Output shape:
        The shape of `inputs`.

    Example:
    ```python
    import keras
    from keras_attention import LearnedPositionEmbedding

    inputs = keras.Input((64, 6))
    outputs = LearnedPositionEmbedding(sequence_length=64)(keras.layers.Dense(32)(inputs))
    print(outputs.shape)  # (None, 64, 32)
    ```

    Reference:
        [Convolutional Sequence to Sequence Learning](https://arxiv.org/abs/1705.03122),
        [BERT](https://arxiv.org/abs/1810.04805).
    """

    def __init__(self, sequence_length: int, initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("sequence_length", sequence_length)
        self.sequence_length = sequence_length
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, inputs_shape: Any) -> None:
        self._check_shape(inputs_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.sequence_length, inputs_shape[-1]),
            initializer=_validation.clone_initializer(self.initializer),
        )
        self.built = True

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        length, channels = ops.shape(inputs)[1:]
        table = ops.convert_to_tensor(self.embeddings)
        if positions is not None:
            rows = ops.take(table, positions, axis=0)
        elif _functional.is_static(length, start_index):
            self._check_shape(inputs.shape, start_index)
            rows = table[start_index : start_index + length]
        else:
            rows = ops.slice(table, (start_index, 0), (length, channels))
        return ops.add(inputs, rows)

    def _check_shape(self, shape: Any, start_index: int = 0) -> None:
        _validation.check_sequence("inputs", shape)
        if start_index < 0 or (shape[1] is not None and start_index + shape[1] > self.sequence_length):
            raise ValueError(
                "The sequence must lie within the table; make the layer with a greater `sequence_length`. "
                f"Received: inputs.shape={tuple(shape)}, start_index={start_index}, "
                f"sequence_length={self.sequence_length}"
            )

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "initializer": keras.initializers.serialize(self.initializer),
        }
