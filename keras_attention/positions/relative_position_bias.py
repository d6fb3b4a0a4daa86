"""A learned bias for each distance between query and key, over a sequence or a 2-D window."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _validation
from keras_attention.positions import _functional
from keras_attention.positions.position_bias import PositionBias


@keras.saving.register_keras_serializable(package="keras_attention")
class RelativePositionBias(PositionBias):
    """A learned bias of each head for the distance from query to key, of T5 (1-D) or Swin (2-D windows).

    Give it to `MultiHeadAttention(position_bias=RelativePositionBias(num_heads))`, or call it on logits of
    your own. Use one layer for several attention layers to share the table, as T5 does.

    ```
    output[b, h, i, j] = logits[b, h, i, j] + table[bucket(j - i), h]                          1-D
    output[b, h, i, j] = logits[b, h, i, j] + table[(row_i - row_j, column_i - column_j), h]   2-D
    ```

    In 1-D, small distances have a bucket each, larger ones share buckets that grow exponentially, and all
    from `max_distance` on share the last. In 2-D, positions are the cells of the window, row by row.

    Differs from the papers: nothing; the logits are scaled by the attention layer, which T5 leaves out.

    Args:
        num_heads: Integer. Number of heads.
        num_buckets: Integer. Number of rows of the 1-D table. Defaults to `32`.
        max_distance: Integer. Distance from which all share a bucket. Defaults to `128`.
        bidirectional: Boolean. Whether keys after the query have buckets of their own, half of all; `False`
            is for causal attention. Defaults to `True`.
        window_size: Tuple `(height, width)` or `None`. Size of the 2-D window; the three arguments before are
            then unused. Defaults to `None`, for sequences.
        initializer: Initializer of the table. Defaults to `"truncated_normal"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        logits: Tensor of shape `(batch, num_heads, query_length, key_length)`.
        query_start: Integer or scalar tensor. Position of the first query among the keys. Defaults to `0`.

    Output shape:
        The shape of `logits`.

    Example:
    ```python
    import numpy as np
    from keras_attention import RelativePositionBias

    sequence = RelativePositionBias(num_heads=2)(np.zeros((1, 2, 16, 16)))
    window = RelativePositionBias(num_heads=2, window_size=(4, 4))(np.zeros((1, 2, 16, 16)))
    print(sequence.shape, window.shape)  # (1, 2, 16, 16) twice
    ```

    References:
        [T5](https://arxiv.org/abs/1910.10683), [Swin Transformer](https://arxiv.org/abs/2103.14030).
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        window_size: Any = None,
        initializer: Any = "truncated_normal",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        _validation.check_positive_int("num_buckets", num_buckets)
        _validation.check_positive_int("max_distance", max_distance)
        _validation.check_bool("bidirectional", bidirectional)
        window_size = _validation.int_tuple("window_size", window_size, positive=True)
        if window_size is not None and len(window_size) != 2:
            raise ValueError(f"`window_size` must be (height, width). Received: window_size={window_size}")
        per_side = 4 if bidirectional else 2
        if num_buckets % per_side or max_distance <= num_buckets // per_side:
            raise ValueError(
                f"`num_buckets` must be a multiple of {per_side} with `bidirectional={bidirectional}`, and "
                f"`max_distance` more than {num_buckets // per_side}, the number of distances with a bucket "
                f"each. Received: num_buckets={num_buckets}, max_distance={max_distance}"
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.window_size: Any = window_size
        self.initializer = keras.initializers.get(initializer)

    def build(self, logits_shape: Any = None) -> None:
        rows = self.num_buckets
        if self.window_size is not None:
            rows = math.prod(2 * size - 1 for size in self.window_size)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(rows, self.num_heads),
            initializer=_validation.clone_initializer(self.initializer),
        )
        super().build(logits_shape)

    def compute_window_bias(self, height: int, width: int) -> Any:
        """Return the bias `(1, num_heads, height * width, height * width)` of a window of this size.

        It may be smaller than `window_size`, as an image may be, and then reads a part of the same table.
        """
        if self.window_size is None or height > self.window_size[0] or width > self.window_size[1]:
            raise ValueError(
                "`height` and `width` must not exceed those of `window_size`. "
                f"Received: height={height}, width={width}, window_size={self.window_size}"
            )
        if not self.built:
            self.build()
        rows = _functional.window_index(height, width, self.window_size)
        return ops.cast(self._take(rows), self.compute_dtype)

    def _bias(self, query_length: Any, key_length: Any, query_start: Any) -> Any:
        if self.window_size is None:
            return self._take(self._sequence_rows(query_length, key_length, query_start))
        return self._take(self._window_rows(query_length, key_length, query_start))

    def _take(self, rows: Any) -> Any:
        # (num_heads, rows): gathered in the order in which it is added
        table = ops.transpose(ops.convert_to_tensor(self.embeddings))
        return ops.expand_dims(ops.take(table, rows, axis=1), 0)

    def _sequence_rows(self, query_length: Any, key_length: Any, query_start: Any) -> Any:
        buckets = _functional.relative_buckets(self.num_buckets, self.max_distance, self.bidirectional)
        query = _functional.index(query_length, query_start)
        key = _functional.index(key_length)
        limit = self.max_distance
        if isinstance(query, np.ndarray) and isinstance(key, np.ndarray):
            return buckets[np.clip(key - query[:, None], -limit, limit) + limit]
        distance = ops.subtract(ops.reshape(key, (1, -1)), ops.reshape(query, (-1, 1)))
        return ops.take(buckets, ops.add(ops.clip(distance, -limit, limit), limit))

    def _window_rows(self, query_length: Any, key_length: Any, query_start: Any) -> Any:
        height, width = self.window_size
        if _functional.is_static(key_length) and key_length != height * width:
            raise ValueError(
                f"`key_length` must be {height * width}, the cells of `window_size`={self.window_size}. "
                f"Received: key_length={key_length}"
            )
        rows = _functional.window_index(height, width)
        if not _functional.is_static(query_length, query_start):
            return ops.slice(ops.convert_to_tensor(rows), (query_start, 0), (query_length, height * width))
        if query_start + query_length > height * width:
            raise ValueError(
                f"There are {height * width} queries in a window of `window_size`={self.window_size}. "
                f"Received: query_length={query_length}, query_start={query_start}"
            )
        return rows[query_start : query_start + query_length]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "window_size": self.window_size,
            "initializer": keras.initializers.serialize(self.initializer),
        }
