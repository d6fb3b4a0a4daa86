"""Attention with linear biases: each head prefers near keys by a fixed slope."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import _validation
from keras_attention.positions import _functional
from keras_attention.positions.position_bias import PositionBias


@keras.saving.register_keras_serializable(package="keras_attention")
class ALiBi(PositionBias):
    """Attention with linear biases: a penalty that grows with the distance, by a slope per head.

    Has no weights and no largest length: models trained on short sequences keep working on longer ones. Give
    it to `MultiHeadAttention(position_bias=ALiBi(num_heads))`, or call it on logits of your own. It takes the
    place of positions added to the inputs.

    ```
    output[b, h, i, j] = logits[b, h, i, j] - slope_h |i - j|
    slope_h = 2^(-max_bias h / num_heads)                           h = 1 ... num_heads
    ```

    Differs from the paper: it is defined for keys after the query too, so that it serves attention in both
    directions. `keras_hub.layers.AlibiBias` adds `slope_h (j - key_length + 1)`, which under a causal mask
    gives the same scores, and without one prefers the last keys. For a number of heads that is no power of
    two, the slopes are those of the paper's program and of keras-hub (every other slope of the next power
    fills up), not those of the formula.

    Args:
        num_heads: Integer. Number of heads.
        max_bias: Number. Negative exponent of two of the last head's slope. Defaults to `8`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        logits: Tensor of shape `(batch, num_heads, query_length, key_length)`.
        query_start: Integer or scalar tensor. Position of the first query among the keys. Defaults to `0`.

    Output shape:
        The shape of `logits`.

    Example:
    ```python
    import numpy as np
    from keras_attention import ALiBi

    logits = ALiBi(num_heads=4)(np.zeros((1, 4, 16, 16)))
    print(logits[0, 0, 15, 15], logits[0, 0, 15, 11])  # 0 and -4 / 4 = -1
    ```

    Reference:
        [Train Short, Test Long](https://arxiv.org/abs/2108.12409).
    """

    def __init__(self, num_heads: int, max_bias: float = 8, **kwargs: Any) -> None:
        super().__init__(num_heads, **kwargs)
        _validation.check_positive_number("max_bias", max_bias)
        self.max_bias = max_bias

    def _bias(self, query_length: Any, key_length: Any, query_start: Any) -> Any:
        slopes = _functional.alibi_slopes(self.num_heads, self.max_bias).reshape((1, -1, 1, 1))
        query = _functional.index(query_length, query_start, "float32")
        key = _functional.index(key_length, 0, "float32")
        if isinstance(query, np.ndarray) and isinstance(key, np.ndarray):
            return -slopes * np.abs(query.reshape((-1, 1)) - key)
        distance = ops.abs(ops.subtract(ops.reshape(query, (1, 1, -1, 1)), ops.reshape(key, (1, 1, 1, -1))))
        return ops.multiply(distance, -slopes)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_bias": self.max_bias}
