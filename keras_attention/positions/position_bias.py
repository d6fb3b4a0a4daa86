"""The base of biases that depend on positions and are added to the attention logits."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation


class PositionBias(keras.layers.Layer):
    """Base class; a layer says in `_bias` what it adds for each head, query and key.

    Args:
        num_heads: Integer. Number of heads.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("num_heads", num_heads)
        self.num_heads = num_heads
        self.supports_masking = True

    def build(self, logits_shape: Any = None) -> None:
        if logits_shape is not None:
            self._check_logits(logits_shape)
        self.built = True

    def call(self, logits: Any, query_start: Any = 0) -> Any:
        query_length, key_length = ops.shape(logits)[2:]
        return _functional.add(logits, self.compute_bias(query_length, key_length, query_start))

    def compute_bias(self, query_length: Any, key_length: Any, query_start: Any = 0) -> Any:
        """Return the bias `(1, num_heads, query_length, key_length)`, which is added to the logits.

        Args:
            query_length: Number of queries, an integer or a scalar tensor.
            key_length: Number of keys, alike.
            query_start: Position of the first query among the keys, for queries that are a block of a
                sequence or a step of decoding; an integer or a scalar tensor.
        """
        if not self.built:
            self.build()
        # a constant becomes a tensor here: it folds into the graph
        return ops.cast(self._bias(query_length, key_length, query_start), self.compute_dtype)

    def _bias(self, query_length: Any, key_length: Any, query_start: Any) -> Any:
        raise NotImplementedError

    def _check_logits(self, shape: Any) -> None:
        if len(shape) != 4 or _validation.differ(shape[1], self.num_heads):
            raise ValueError(
                f"`logits` must have shape (batch, num_heads={self.num_heads}, query_length, key_length). "
                f"Received: logits.shape={tuple(shape)}"
            )

    def compute_output_shape(self, logits_shape: Any) -> tuple[Any, ...]:
        self._check_logits(logits_shape)
        return tuple(logits_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}
