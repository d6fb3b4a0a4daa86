"""All rules for Keras models, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from keras_attention.tflite.linting import model_behaviour
from keras_attention.tflite.linting import model_masks
from keras_attention.tflite.linting import model_saving
from keras_attention.tflite.linting import model_shapes
from keras_attention.tflite.linting import model_weights
from keras_attention.tflite.linting.finding import Finding

_RULES: tuple[Callable[[Any], Iterator[Finding]], ...] = (
    model_shapes.open_inputs,
    model_shapes.unrolled_size,
    model_masks.lost,
    model_masks.large_negative,
    model_behaviour.stateful,
    model_saving.config_round_trip,
    model_saving.unregistered,
    model_saving.lambdas,
    model_weights.non_finite,
    model_behaviour.quantized_by_keras,
    model_behaviour.float_ids,
    model_behaviour.half_precision,
    model_behaviour.random_at_inference,
    model_weights.outlier_channels,
    model_weights.dead_batch_normalization,
    model_weights.float16_overflow,
    model_shapes.high_rank,
    model_behaviour.lacking_operators,
)


def check_model(model: Any) -> list[Finding]:
    """Return what all rules find in a built model, each finding once."""
    return list(dict.fromkeys(finding for rule in _RULES for finding in rule(model)))
