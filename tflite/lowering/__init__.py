"""Lowering: the form of a Keras model that converts well, with the same weights.

Each pass lives in a file of its own and lists the attributes it wants replaced. `mobile_form` puts
them in place, on the very layers of the user's model, for the moment in which the model is traced,
and takes them back afterwards whatever happens. No clone is made, so that nested, shared, subclassed
and custom layers are reached alike, without `get_config`, and weights cannot get lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.lowering import addition
from keras_attention.tflite.lowering import constant_masks
from keras_attention.tflite.lowering import double_precision
from keras_attention.tflite.lowering import flash_attention
from keras_attention.tflite.lowering import grouped_attention
from keras_attention.tflite.lowering import long_attention
from keras_attention.tflite.lowering import long_sequences
from keras_attention.tflite.lowering import precision_policy
from keras_attention.tflite.lowering import recurrent
from keras_attention.tflite.lowering import stateful
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch

_PASSES = (
    precision_policy.patches,
    flash_attention.patches,
    grouped_attention.patches,
    long_attention.patches,
    constant_masks.patches,
    long_sequences.patches,
    recurrent.patches,
    stateful.patches,
    addition.patches,
)
_Pass = Callable[[list[Any], Lowering], Iterator[Patch]]
_LOCK = threading.RLock()


def all_layers(model: Any) -> list[Any]:
    """Return the model's layers of every depth, each once, the model itself first."""
    found = {id(layer): layer for layer in model._flatten_layers(include_self=True, recursive=True)}
    return list(found.values())


@contextlib.contextmanager
def _patched(model: Any, passes: Iterable[_Pass], lowering: Lowering) -> Iterator[None]:
    """Put the patches of the passes in place within the `with` block, and take them back after it."""
    with _LOCK, contextlib.ExitStack() as undo:
        layers = all_layers(model)
        for make_patches in passes:
            for patch in make_patches(layers, lowering):
                undo.callback(_restore, patch.target, patch.attribute, _current(patch))
                vars(patch.target)[patch.attribute] = patch.value
        yield


@contextlib.contextmanager
def runnable_form(model: Any) -> Iterator[None]:
    """Let a model that was trained for another backend's kernels run on this one."""
    passes = (flash_attention.patches,) if keras.backend.backend() == "tensorflow" else ()
    with _patched(model, passes, Lowering(0)):
        yield


@contextlib.contextmanager
def float32_form(model: Any) -> Iterator[Lowering]:
    """Let a model compute in float32 whatever its policy is, and else as it is; yield the record of it."""
    lowering = Lowering(0)
    is_tensorflow = keras.backend.backend() == "tensorflow"
    passes = (precision_policy.patches, *((flash_attention.patches,) if is_tensorflow else ()))
    with _patched(model, passes, lowering), precision_policy.float32_variables():
        yield lowering


@contextlib.contextmanager
def exact_form(model: Any) -> Iterator[None]:
    """Let a model compute in float64 within the `with` block, given float64 tensors; TensorFlow only."""
    passes = (double_precision.patches, flash_attention.patches)
    with _patched(model, passes, Lowering(0)), double_precision.variables():
        yield


@contextlib.contextmanager
def mobile_form(model: Any, max_unrolled_steps: int) -> Iterator[Lowering]:
    """Give the model its mobile form within the `with` block and yield the record of it.

    The block is meant for tracing. Another thread that calls the model meanwhile gets the same
    outputs up to rounding, in float32.
    """
    lowering = Lowering(max_unrolled_steps)
    with _patched(model, _PASSES, lowering), precision_policy.float32_variables():
        yield lowering


_ABSENT = object()


def _current(patch: Patch) -> Any:
    return vars(patch.target).get(patch.attribute, _ABSENT)


def _restore(target: Any, attribute: str, value: Any) -> None:
    if value is _ABSENT:
        vars(target).pop(attribute, None)
    else:
        vars(target)[attribute] = value
