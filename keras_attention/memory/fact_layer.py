"""The base of layers that answer a question from facts, in several rounds of attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights


class FactLayer(keras.layers.Layer):
    """Base class; a layer writes `build` and, in `_read`, its rounds.

    Args:
        units: Integer. Width of the state.
        dropout: Float in [0, 1). Share of the attention scores dropped in training.
        use_bias: Boolean. Whether the layer has biases.
        seed: Integer or `None`. Seed of the dropout.
        weight_options: The six options of `_weights`.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        units: int,
        dropout: float,
        use_bias: bool,
        seed: int | None,
        weight_options: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("units", units)
        _validation.check_rate("dropout", dropout)
        _validation.check_bool("use_bias", use_bias)
        self.units = units
        self.dropout = dropout
        self.use_bias = use_bias
        self.seed = seed
        _weights.set_options(self, **weight_options)
        self.supports_masking = True
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def call(
        self,
        query: Any,
        value: Any,
        value_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_call(query.shape, value.shape, value_mask)
        if value_mask is not None:
            batch, num_facts = ops.shape(value)[:2]
            value_mask = _functional.reshape(_masks.as_bool(value_mask), (batch, 1, num_facts))
        output, scores = self._read(query, value, value_mask, training)
        if not return_attention_scores:
            return output
        return output, scores[0] if len(scores) == 1 else ops.concatenate(scores, axis=1)

    def _read(self, query: Any, value: Any, mask: Any, training: bool | None) -> tuple[Any, list[Any]]:
        """The state after the last round, `(batch, units)`, and the scores of each, `(batch, 1, num_facts)`.

        `mask` has the shape `(batch, 1, num_facts)`, or is `None`.
        """
        raise NotImplementedError

    @property
    def _num_rounds(self) -> int:
        raise NotImplementedError

    def _add_kernel(self, name: str, num_inputs: int, num_outputs: int) -> Any:
        return _weights.add_kernel(self, name, (num_inputs, num_outputs))

    def _check_shapes(self, query_shape: Any, value_shape: Any) -> None:
        if len(query_shape) != 2 or len(value_shape) != 3:
            raise ValueError(
                "`query` must have rank 2, (batch, channels), and `value` rank 3, (batch, num_facts, "
                "fact_channels). "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        _validation.check_shapes(query_shape, value_shape, None)

    def _check_call(self, query_shape: Any, value_shape: Any, value_mask: Any) -> None:
        self._check_shapes(query_shape, value_shape)
        _validation.check_mask("value_mask", value_mask, value_shape[:2])

    def compute_mask(self, query: Any, query_mask: Any = None) -> None:
        return None

    def compute_output_shape(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        self._check_shapes(query_shape, value_shape)
        return (query_shape[0], self.units)

    def compute_output_spec(
        self,
        query: Any,
        value: Any,
        value_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_call(query.shape, value.shape, value_mask)
        output = keras.KerasTensor((query.shape[0], self.units), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        scores_shape = (query.shape[0], self._num_rounds, value.shape[1])
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }
