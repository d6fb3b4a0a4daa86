"""Layers for long sequences without SELECT, which XNNPACK lacks: masks are added, divisors are bounded."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import ops

from keras_attention.long_sequences import _blocks
from keras_attention.long_sequences import _kernels
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Replace two functions of this package's layers."""
    del layers, lowering
    yield Patch(_blocks, "hide", functools.partial(_hide, _blocks.hide))
    yield Patch(_kernels, "divide", _divide)


def _hide(original: Any, logits: Any, mask: Any) -> Any:
    """Hide logits; a sum with a number so low is lost in it, and the sum of two such numbers is finite."""
    if not isinstance(mask, np.ndarray) or mask.all():
        return original(logits, mask)
    return ops.add(logits, np.where(mask, 0.0, _blocks.HIDDEN_LOGIT).astype("float32"))


def _divide(sums: Any, totals: Any) -> Any:
    """Divide; where no key counts the sums are zero, whatever the divisor. Nobody asks for gradients here."""
    return ops.divide(sums, ops.maximum(totals, _kernels.LEAST_SUM))
