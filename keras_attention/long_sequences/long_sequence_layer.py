"""The base of the layers for long sequences: they never form the mask, or the scores, of all pairs."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from keras_attention import _functional
from keras_attention import _masks
from keras_attention import _validation
from keras_attention.attention.multi_head_layer import MultiHeadLayer
from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences._blocks import Heads


class LongSequenceLayer(MultiHeadLayer):
    """Base class; a layer says in `_attend_heads` how its heads attend at the cost that it promises.

    The scores of all pairs are formed only where they are asked for, in `_attend_pairs`.
    """

    def _attend_heads(self, heads: Heads) -> Any:
        """Context `(batch, query_length, num_heads, value_dim)`, zeros where no key is allowed."""
        raise NotImplementedError

    def _attend_pairs(self, heads: Heads, mask: Any) -> tuple[Any, Any]:
        """Context and the scores of all pairs; `mask` holds the masks of the call, or is `None`."""
        raise NotImplementedError

    def _attend_masked(
        self,
        query: Any,
        key: Any,
        value: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        query_mask, value_mask, key_mask = (
            None if masks[name] is None else _masks.as_bool(masks[name])
            for name in ("query_mask", "value_mask", "key_mask")
        )
        heads = Heads(
            query,
            _blocks.repeat_heads(key, self.num_heads),
            _blocks.repeat_heads(value, self.num_heads),
            query_mask,
            _masks.logical_and(value_mask, key_mask),
            masks["use_causal_mask"],
            1.0 / math.sqrt(self.key_dim),
            lambda x: self._dropout_layer(x, training=training),
        )
        if return_attention_scores:
            mask = _masks.merge_masks(ops.shape(query)[1], ops.shape(key)[1], 4, **masks)
            return self._attend_pairs(heads, mask)
        context = self._attend_heads(heads)
        if query_mask is not None:
            batch, length = ops.shape(query_mask)
            context = ops.where(_functional.reshape(query_mask, (batch, length, 1, 1)), context, 0.0)
        return context, None

    def _needs_equal_lengths(self, use_causal_mask: bool) -> bool:
        """Whether query i and key i must be the same position."""
        del use_causal_mask
        return True

    def _check_call(self, query_shape: Any, value_shape: Any, use_causal_mask: bool, **masks: Any) -> None:
        name = type(self).__name__
        if self._needs_equal_lengths(use_causal_mask) and _validation.differ(query_shape[1], value_shape[1]):
            condition = "" if self._needs_equal_lengths(False) else " under `use_causal_mask=True`"
            raise ValueError(
                f"`query` and `value` of `{name}` must have the same length{condition}, since position i is "
                "one place in both; `MultiHeadAttention` takes two sequences. "
                f"Received: query.shape={tuple(query_shape)}, value.shape={tuple(value_shape)}"
            )
        mask = masks["attention_mask"]
        if mask is not None:
            raise ValueError(
                f"`attention_mask` is not for `{name}`, which forms no matrix of all pairs. Mask positions "
                "by `query_mask`, `value_mask` or `key_mask`, or take `MultiHeadAttention`. "
                f"Received: attention_mask.shape={tuple(mask.shape)}"
            )
        super()._check_call(query_shape, value_shape, use_causal_mask, **masks)
