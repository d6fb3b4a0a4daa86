"""The maths of the layers, as pure functions of tensors.

Everything here stays at rank 4 or below and avoids implicit tiling, so that TensorFlow Lite receives
FULLY_CONNECTED, BATCH_MATMUL, SOFTMAX and SELECT, and nothing that a mobile delegate has to hand back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

# Finite, so that a fully masked row gives no NaN; low enough to lose against every real logit.
MASKED_LOGIT = -0.5 * float(np.finfo("float32").max)
FLOAT16_MAX = float(np.finfo("float16").max)


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Reshapes `x`; a single dimension unknown while tracing becomes -1, which needs no SHAPE operator."""
    shape = list(shape)
    unknown = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    if len(unknown) == 1:
        shape[unknown[0]] = -1
    return ops.reshape(x, tuple(shape))


def product(sizes: Sequence[Any]) -> Any:
    """Product of dimensions, each an integer or, when unknown while tracing, a scalar tensor."""
    result: Any = 1
    for size in sizes:
        result = size * result
    return result


def swap_last_axes(x: Any) -> Any:
    """Transposes the last two axes."""
    ndim = len(x.shape)
    return ops.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def factor(number: Any, like: Any) -> Any:
    """A number or scalar tensor in the dtype of `like`; `ops.cast` would round a Python float to float32."""
    if isinstance(number, (int, float)):
        return ops.convert_to_tensor(number, like.dtype)
    return ops.cast(number, like.dtype)


def add(x: Any, y: Any) -> Any:
    """The sum of two tensors of one dtype, each of which may be broadcast.

    `ops.add` on TensorFlow takes a second tensor with a single axis longer than 1 for a bias of channels, and
    where sizes happen to be equal it lands on the wrong axis. The operator of the tensors does not guess.
    """
    return ops.convert_to_tensor(x) + ops.convert_to_tensor(y)


def softmax(logits: Any) -> Any:
    """Softmax over the last axis, also where it has a single entry, of which `ops.softmax` would warn."""
    if logits.shape[-1] == 1:
        # 1, and NaN where a softmax has it; a LOG_SOFTMAX would stay outside of the .tflite's delegate.
        return ops.exp(logits - logits)
    return ops.softmax(logits, axis=-1)


def mask_logits(logits: Any, mask: Any) -> Any:
    """The logits where the mask is True, and elsewhere a number that is lost to the softmax."""
    is_float16 = keras.backend.standardize_dtype(logits.dtype) == "float16"
    return ops.where(mask, logits, -FLOAT16_MAX if is_float16 else MASKED_LOGIT)


def masked_softmax(logits: Any, mask: Any = None) -> Any:
    """Softmax over the last axis of at least float32 precision; a row without any allowed key gives zeros.

    Args:
        logits: Tensor of shape `(..., query_length, key_length)`.
        mask: Boolean tensor that broadcasts to `logits`, True = attend, or a NumPy array for a constant mask.
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if dtype in ("float16", "bfloat16"):
        logits = ops.cast(logits, "float32")
    if dtype == "float16":
        # The product of two float16 tensors can overflow; inf - inf inside softmax would be NaN.
        logits = ops.clip(logits, -FLOAT16_MAX, FLOAT16_MAX)
    if mask is None:
        scores = softmax(logits)
    else:
        scores = softmax(mask_logits(logits, mask))
        every_row_attends = isinstance(mask, np.ndarray) and bool(mask.any(axis=-1).all())
        if not every_row_attends:
            scores = ops.where(mask, scores, 0.0)
    return ops.cast(scores, dtype) if dtype in ("float16", "bfloat16") else scores


def attend(
    logits: Any, value: Any, mask: Any = None, dropout: Callable[[Any], Any] | None = None
) -> tuple[Any, Any]:
    """Returns `(context, scores)`: softmax of the logits, then the mean of the values weighted by it."""
    scores = masked_softmax(logits, mask)
    weights = scores if dropout is None else dropout(scores)
    return grouped_matmul(weights, value), scores


def dot_product_logits(query: Any, key: Any, scale: Any, bias: Any = None) -> Any:
    """`scale * query @ key^T + bias`; the query is scaled first, which keeps float16 products small.

    Args:
        query: Tensor of shape `(batch, query_length, channels)`, or with `num_heads` second.
        key: Tensor of shape `(batch, key_length, channels)`, or with as many heads second, or a part of them.
        scale: Factor of the products.
        bias: Tensor or NumPy array that broadcasts to the logits, or `None`.
    """
    logits = grouped_matmul(ops.multiply(query, scale), swap_last_axes(key))
    return logits if bias is None else add(logits, ops.cast(bias, logits.dtype))


def grouped_matmul(x: Any, shared: Any) -> Any:
    """`x @ shared`, where consecutive heads of `x` may share one head of `shared`.

    The heads that share lie below one another as further rows of one product, so that nothing is repeated.

    Args:
        x: Tensor of shape `(batch, num_heads, length, n)`, or of rank 3 without heads.
        shared: Tensor of shape `(batch, num_shared_heads, n, m)`, or of rank 3 without heads.

    Returns:
        Tensor of shape `(batch, num_heads, length, m)`: head i of `x` times head
        `i // (num_heads // num_shared_heads)` of `shared`.
    """
    if len(x.shape) < 4 or x.shape[1] == shared.shape[1]:
        return ops.matmul(x, shared)
    batch, num_heads, length, width = ops.shape(x)
    num_shared = shared.shape[1]
    rows = reshape(x, (batch, num_shared, length * (num_heads // num_shared), width))
    return reshape(ops.matmul(rows, shared), (batch, num_heads, length, ops.shape(shared)[-1]))


def additive_logits(query: Any, key: Any, score_kernel: Any) -> Any:
    """`v^T tanh(query + key)` for every pair of positions.

    Args:
        query: Projected queries, `(batch, query_length, units)`.
        key: Projected keys, `(batch, key_length, units)`.
        score_kernel: `v` as a column, `(units, 1)`.

    Returns:
        Logits of shape `(batch, query_length, key_length)`.
    """
    batch, query_length, units = ops.shape(query)
    key_length = ops.shape(key)[1]
    if isinstance(query_length, int) and query_length == 1:  # one decoder step: nothing above rank 3
        hidden = ops.tanh(add(query, key))  # (batch, key_length, units)
    else:
        query = reshape(query, (batch, query_length, 1, units))
        key = reshape(key, (batch, 1, key_length, units))
        hidden = ops.tanh(add(query, key))  # (batch, query_length, key_length, units)
    return reshape(ops.matmul(hidden, score_kernel), (batch, query_length, key_length))


def project(x: Any, kernel: Any, bias: Any = None, num_input_axes: int = 1) -> Any:
    """Contracts the last `num_input_axes` axes of `x` with the first axes of `kernel`, as one matmul.

    Args:
        x: Tensor of shape `(batch, length, *input_sizes)`.
        kernel: Tensor of shape `(*input_sizes, *output_sizes)`.
        bias: Tensor of shape `output_sizes` or `None`.
        num_input_axes: Number of contracted axes. Defaults to 1.

    Returns:
        Tensor of shape `(batch, length, *output_sizes)`.
    """
    batch, length = ops.shape(x)[:2]
    input_sizes = tuple(kernel.shape[:num_input_axes])
    output_sizes = tuple(kernel.shape[num_input_axes:])
    num_inputs, num_outputs = math.prod(input_sizes), math.prod(output_sizes)
    if num_input_axes > 1:
        x = reshape(x, (batch, length, num_inputs))
    x = ops.matmul(x, ops.reshape(kernel, (num_inputs, num_outputs)))
    if bias is not None:
        x = ops.add(x, ops.reshape(bias, (num_outputs,)))
    return x if len(output_sizes) == 1 else reshape(x, (batch, length, *output_sizes))


def project_parts(parts: Sequence[Any], kernel: Any, bias: Any = None) -> Any:
    """`concat(parts) @ kernel + bias` without the concatenation: in int8 each part keeps its own range.

    Args:
        parts: Tensors of shape `(..., channels_i)`.
        kernel: Tensor of shape `(sum of channels_i, units)`.
        bias: Tensor of shape `(units,)` or `None`.
    """
    result, start = bias, 0
    for part in parts:
        stop = start + part.shape[-1]
        product = ops.matmul(part, kernel[start:stop])
        result = product if result is None else ops.add(product, result)
        start = stop
    return result


def fused_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    scale: float,
    flash_attention: bool | None,
    bias: Any = None,
) -> Any:
    """The backend's own kernel on `(batch, length, num_heads, head_dim)`, zeros for fully masked rows.

    Args:
        query: Tensor of shape `(batch, query_length, num_heads, head_dim)`.
        key: Tensor of shape `(batch, key_length, num_heads, head_dim)`, of as many heads or a part of them.
        value: Tensor of shape `(batch, key_length, num_heads, head_dim)`, alike.
        mask: Mask of rank 4 that broadcasts to the scores, or `None`.
        scale: Factor of the dot product.
        flash_attention: `True` demands the flash kernel, `None` leaves the choice to the backend.
        bias: Tensor of rank 4 that broadcasts to the logits and is added to them, or `None`.
    """
    attends = None
    if isinstance(mask, np.ndarray) and mask.any(axis=-1).all():
        mask = ops.convert_to_tensor(mask)
    elif mask is not None:
        # Kernels disagree on a row without keys (mean, NaN or zeros): give it all keys, then blank it.
        attends = ops.any(mask, axis=-1, keepdims=True)
        mask = ops.logical_or(mask, ops.logical_not(attends))
        attends = ops.transpose(attends, (0, 2, 1, 3))  # (batch, query_length, num_heads or 1, 1)
    if bias is not None:
        bias = ops.cast(bias, query.dtype)
        if mask is not None:  # a kernel takes one of the two
            is_float16 = keras.backend.standardize_dtype(query.dtype) == "float16"
            bias = ops.where(mask, bias, -0.5 * FLOAT16_MAX if is_float16 else MASKED_LOGIT)
            mask = None
    try:
        context = ops.dot_product_attention(
            query, key, value, bias=bias, mask=mask, scale=scale, flash_attention=flash_attention
        )
    except (RuntimeError, ValueError) as error:
        if not flash_attention:
            raise
        raise ValueError(
            "The backend has no flash kernel for this device, these shapes or this dtype; set "
            f"`flash_attention` to None. Received: flash_attention=True, query.shape={tuple(query.shape)}, "
            f"{keras.backend.standardize_dtype(query.dtype)}. The backend says: {error}"
        ) from error
    return context if attends is None else ops.where(attends, context, 0.0)
