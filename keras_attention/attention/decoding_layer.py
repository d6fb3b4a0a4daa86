"""The base of layers with heads that decode step by step, with a cache of keys and values."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _masks
from keras_attention import _validation
from keras_attention.attention import key_value_cache
from keras_attention.attention.multi_head_layer import MultiHeadLayer


class DecodingLayer(MultiHeadLayer):
    """Base class; a layer says in `_attend_heads` and `_bias` how heads attend to a cache."""

    sliding_window: int | None

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
        cache: Any = None,
        cache_index: Any = None,
    ) -> Any:
        masks = {
            "query_mask": query_mask,
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        if cache is None and cache_index is None:
            return super().call(
                query,
                value,
                key,
                **masks,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            )
        self._check_cached_call(query, value, key, masks, cache, cache_index)
        key = value if key is None else key
        output, scores, cache = self._decode(query, value, key, masks, training, cache, cache_index)
        _masks.attach(output, query_mask)
        return (output, scores, cache) if return_attention_scores else (output, cache)

    def make_cache(self, batch: int, max_length: int) -> tuple[Any, Any]:
        """Returns an empty cache of keys and values for sequences of at most `max_length` tokens."""
        _validation.check_positive_int("batch", batch)
        _validation.check_positive_int("max_length", max_length)
        keys, values = self._cache_shapes
        sizes = batch, keys[1], max_length
        return (
            ops.zeros((*sizes, keys[-1]), self.compute_dtype),
            ops.zeros((*sizes, values[-1]), self.compute_dtype),
        )

    @property
    def _cache_shapes(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        heads = None, self._num_shared_heads, None
        return (*heads, self.key_dim), (*heads, self.value_dim)

    def _decode(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        cache: Any,
        cache_index: Any,
    ) -> tuple[Any, Any, tuple[Any, Any]]:
        """Attention of the new tokens to the cache and to themselves: output, scores and the new cache."""
        start = key_value_cache.as_start(cache_index)
        where: dict[str, Any] = {"start_index": start}
        if key_value_cache.is_per_sequence(start):
            where = {"positions": key_value_cache.positions(start, ops.shape(query)[1])}
        rows, new_keys, new_values = self._project(query, key, value, **where)
        keys = key_value_cache.write(cache[0], new_keys, start)
        values = key_value_cache.write(cache[1], new_values, start)
        lengths = ops.shape(query)[1], ops.shape(keys)[2]
        bias = self._cache_bias(*lengths, start)
        mask = _masks.merge_masks(
            *lengths,
            4,
            **masks,
            use_causal_mask=True,
            sliding_window=self.sliding_window,
            query_start=start,
        )
        rows = ops.transpose(rows, (0, 2, 1, 3))
        context, scores = self._attend_heads(rows, keys, values, mask, training, bias)
        return self._merge_heads(query, ops.transpose(context, (0, 2, 1, 3))), scores, (keys, values)

    def _cache_bias(self, query_length: Any, key_length: Any, start: Any) -> Any:
        if not key_value_cache.is_per_sequence(start):
            return self._bias(query_length, key_length, start)
        if self._bias(query_length, key_length) is None:
            return None
        biases = ops.vectorized_map(lambda one: self._bias(query_length, key_length, one), start)
        return ops.squeeze(biases, axis=1) if len(biases.shape) == 5 else biases

    def _attend_heads(
        self, query: Any, key: Any, value: Any, mask: Any, training: bool | None, bias: Any
    ) -> tuple[Any, Any]:
        """Context and scores of `(batch, heads, length, head_dim)`, always by way of the scores."""
        raise NotImplementedError

    def _bias(self, query_length: Any, key_length: Any, query_start: Any = 0) -> Any:
        """What is added to the logits of the queries from `query_start` on; `None` for nothing."""
        raise NotImplementedError

    def _check_cached_call(
        self, query: Any, value: Any, key: Any, masks: dict[str, Any], cache: Any, cache_index: Any
    ) -> None:
        shapes = [query.shape, value.shape, None if key is None else key.shape]
        key_value_cache.check(shapes, cache, cache_index, self._cache_shapes)
        keys_shape = (query.shape[0], cache[0].shape[2])
        scores_shape = (query.shape[0], self.num_heads, query.shape[1], keys_shape[1])
        _validation.check_masks(query.shape[:-1], keys_shape, scores_shape, 1, **masks)

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
        cache: Any = None,
        cache_index: Any = None,
    ) -> Any:
        masks = {
            "query_mask": query_mask,
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        if cache is None and cache_index is None:
            return super().compute_output_spec(
                query,
                value,
                key,
                **masks,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            )
        shape = self.compute_output_shape(query.shape, value.shape, None if key is None else key.shape)
        self._check_cached_call(query, value, key, masks, cache, cache_index)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        new_cache = tuple(keras.KerasTensor(x.shape, dtype=x.dtype) for x in cache)
        if not return_attention_scores:
            return output, new_cache
        scores_shape = (query.shape[0], self.num_heads, query.shape[1], cache[0].shape[2])
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype), new_cache
