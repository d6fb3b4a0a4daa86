"""Rules about the numbers that a .tflite file stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting.finding import Finding

LARGE = 1e4
"""As for Keras models: masks of this size set the range of an int8 tensor."""
LARGE_FACTOR = 6e4
FLOAT16_MAX = 65504.0
_WITH_PENALTY = ("ADD", "MUL", "SUB", "SELECT", "SELECT_V2", "FILL", "PADV2", "MINIMUM", "MAXIMUM")


def non_finite(graph: Any) -> Iterator[Finding]:
    """NaN and infinite constants."""
    for operator, values in _constants(graph):
        if np.isnan(values).any():
            yield Finding(
                "KA207",
                "error",
                _where(operator),
                f"{int(np.isnan(values).sum())} of {values.size} constants are NaN",
                "the trained weights hold them: load an earlier checkpoint and convert again",
            )
        elif np.isinf(values).any():
            yield Finding(
                "KA207",
                "warning",
                _where(operator),
                f"{int(np.isinf(values).sum())} of {values.size} constants are infinite: the stock "
                "quantizer ends its process on infinities, and a fully masked row gives NaN",
                "mask with a finite number, 30 to 50 below the scores",
            )


def large_negative(graph: Any) -> Iterator[Finding]:
    """Masks of -1e4 and below."""
    quantized = file_graph.is_quantized(graph)
    for operator in file_graph.operators(graph):
        if operator.name not in _WITH_PENALTY:
            if operator.name == "SOFTMAX":
                yield from _wide_scores(operator)
            continue
        for position, tensor in enumerate(operator.inputs):
            values = file_graph.float_constant(graph, tensor)
            if values is None:
                continue
            finite = values[np.isfinite(values)]
            if operator.name == "MUL" or (operator.name == "SUB" and position == 1):
                finite = np.where(finite >= LARGE_FACTOR, -finite, finite)
            lowest = float(finite.min(initial=0.0))
            if lowest <= -LARGE:
                yield Finding(
                    "KA208",
                    "warning" if quantized else "note",
                    _where(operator),
                    f"takes the constant {lowest:.4g}: in int8 it sets the range of the scores, and the "
                    "others become equal",
                    "mask with a number 30 to 50 below the scores, or keep scores and softmax in float",
                )
                break


def float16_overflow(graph: Any) -> Iterator[Finding]:
    """Constants above the largest float16 number."""
    for operator, values in _constants(graph):
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if largest > FLOAT16_MAX:
            yield Finding(
                "KA213",
                "warning",
                _where(operator),
                f"a constant of size {largest:.4g} is infinite in float16, as the GPU delegate computes",
                "use smaller numbers, or let the GPU delegate compute in float32 "
                "(setPrecisionLossAllowed(false))",
            )


def _wide_scores(operator: file_graph.Operator) -> Iterator[Finding]:
    limits = file_graph.quantized_range(operator.inputs[0])
    if limits is not None and limits[0] <= -LARGE:
        yield Finding(
            "KA208",
            "warning",
            _where(operator),
            f"its quantized input reaches down to {limits[0]:.4g}, as a mask was calibrated with the scores",
            "mask with a number 30 to 50 below the scores, or keep scores and softmax in float",
        )


def _constants(graph: Any) -> Iterator[tuple[file_graph.Operator, np.ndarray]]:
    """Yield each float constant once, with the first operator that reads it."""
    seen: set[int] = set()
    for operator in file_graph.operators(graph):
        for tensor in operator.inputs:
            if id(tensor) in seen or graphs.tensor_type(tensor) not in ("float32", "float16", "bfloat16"):
                continue
            seen.add(id(tensor))
            values = file_graph.float_constant(graph, tensor)
            if values is not None:
                yield operator, values


def _where(operator: file_graph.Operator) -> str:
    return next(place for place, _ in file_graph.places([operator]))
