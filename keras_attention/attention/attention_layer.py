"""The base of all layers that take a query, values and keys: one signature, one set of masks and shapes."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _lost_masks
from keras_attention import _masks
from keras_attention import _validation


class AttentionLayer(keras.layers.Layer):
    """Base class; a layer says what it computes in `_compute`, and its shapes in three small methods.

    Subclasses write `build`, `_compute`, `_check_shapes`, `_output_shape_of` and `_scores_shape_of`; the last
    two see shapes that `_check_shapes` let pass.
    """

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        masks = {
            "query_mask": query_mask,
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        self._check_call(query.shape, value.shape, use_causal_mask, **masks)
        masks["use_causal_mask"] = use_causal_mask
        key = value if key is None else key
        output, scores = self._compute(query, value, key, masks, training, return_attention_scores)
        _masks.attach(output, query_mask)
        return (output, scores) if return_attention_scores else output

    def _compute(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """Return output and scores; without `return_attention_scores`, the scores may be `None`.

        `masks` holds the keyword arguments of `_masks.merge_masks`, `use_causal_mask` among them.
        """
        raise NotImplementedError

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        """Raise unless the layer takes inputs of these shapes."""
        if len(query_shape) != 3 or len(value_shape) != 3:
            raise ValueError(
                "`query` and `value` must have rank 3, (batch, length, channels). "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        _validation.check_shapes(query_shape, value_shape, key_shape)

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        """Raise unless the masks fit the inputs."""
        scores_shape = self._scores_shape_of(query_shape, value_shape)
        _validation.check_masks(query_shape[:-1], value_shape[:-1], scores_shape, 1, **masks)

    def _output_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return (*query_shape[:-1], value_shape[-1])

    def _scores_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return (*query_shape[:-1], value_shape[-2])

    def compute_mask(self, query: Any, query_mask: Any = None) -> Any:
        return query_mask

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple[Any, ...]:
        self._check_shapes(query_shape, value_shape, key_shape)
        return self._output_shape_of(query_shape, value_shape)

    def compute_output_spec(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        shape = self.compute_output_shape(query.shape, value.shape, None if key is None else key.shape)
        self._check_call(
            query.shape,
            value.shape,
            use_causal_mask,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
        )
        if value_mask is None and key_mask is None and attention_mask is None:
            _lost_masks.warn(self, value, "value_mask")
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        scores_shape = self._scores_shape_of(query.shape, value.shape)
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)
