"""Constant masks (causal, sliding window) added to the scores instead of selecting among them.

XNNPACK has no SELECT: a causal mask cuts the graph into pieces, and all scores are written out between
them. A number so low that a score is lost in it, added to the scores, leaves the same to the softmax.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import ops

from keras_attention import _functional
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace how this package's layers mask logits."""
    del layers, lowering
    stand_in = functools.partial(_mask_logits, _functional.mask_logits)
    yield Patch(_functional, "mask_logits", stand_in)


def is_addable(mask: Any) -> bool:
    """Tell whether a mask is constant and leaves every query something to attend to."""
    return isinstance(mask, np.ndarray) and bool(mask.any(axis=-1).all())


def add_mask(logits: Any, mask: np.ndarray) -> Any:
    """Add a mask that is addable to the scores; it broadcasts to them."""
    mask = mask.reshape((1,) * (len(logits.shape) - mask.ndim) + mask.shape)
    low = np.where(mask, 0.0, _functional.MASKED_LOGIT).astype(
        "float32"
    )  # the mobile form has no other floats
    return ops.add(logits, low)


def _mask_logits(original: Any, logits: Any, mask: Any) -> Any:
    return add_mask(logits, mask) if is_addable(mask) else original(logits, mask)
