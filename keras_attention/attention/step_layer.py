"""The base of layers whose query is a sequence or one step of a decoder."""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention import _masks
from keras_attention.attention import steps
from keras_attention.attention.attention_layer import AttentionLayer


class StepLayer(AttentionLayer):
    """Base class; a layer projects in `_project`, compares in `_attend`, and may add to it in `_combine`."""

    def _compute(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        is_step = len(query.shape) == 2
        if is_step:
            query, masks = steps.as_sequence(query, masks)
        lengths = (ops.shape(query)[1], ops.shape(key)[1])
        mask = _masks.merge_masks(*lengths, 3, **masks)
        projected = self._project(query, key)
        context, scores = self._attend(*projected, value, mask, training, return_attention_scores)
        output = self._combine(context, query)
        return steps.without_query_axis(output, scores) if is_step else (output, scores)

    def _project(self, query: Any, key: Any) -> tuple[Any, Any]:
        """What `_attend` takes as query and key, each of shape `(batch, length, units)`."""
        raise NotImplementedError

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """Context `(batch, query_length, value_channels)` and scores under one mask."""
        raise NotImplementedError

    def _combine(self, context: Any, query: Any) -> Any:
        """The output, from the context and the query that was not projected."""
        del query
        return context

    def _check_shapes(self, query_shape: Any, value_shape: Any, key_shape: Any) -> None:
        steps.check_shapes(query_shape, value_shape, key_shape)

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        steps.check_call(query_shape, value_shape, use_causal_mask, **masks)
        super()._check_call(query_shape, value_shape, use_causal_mask, **masks)
