"""Keras' answers beside those of a server's file, and the bound that holds between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_attention.tflite import fidelity
from keras_attention.tflite import metrics
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.lowering import float32_form
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.model_signature import output_names
from keras_attention.tflite.samples import Samples

_BATCH = 64
_ERROR_LENGTH = 600


@dataclass(frozen=True)
class OutputError:
    """How far one output of the file is from Keras'.

    Attributes:
        max_error: largest absolute difference; of an integer output, the share of values that differ.
        allowed: the bound on it.
        sqnr_db: signal-to-noise ratio; 200 stands for no difference at all.
    """

    max_error: float
    allowed: float
    sqnr_db: float


@dataclass(frozen=True)
class Answers:
    """Keras' answers to some samples, computed in float32.

    Attributes:
        arrays: one per output, in the order of `keras.tree.flatten`.
        names: of the outputs.
    """

    arrays: list[np.ndarray]
    names: list[str]

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the outputs as the file has them."""
        pairs = zip(self.names, self.arrays, strict=True)
        return tuple(TensorSpec(name, array.shape[1:], str(array.dtype)) for name, array in pairs)


def ask_keras(model: Any, signature: ModelSignature, samples: Samples) -> Answers:
    """Return Keras' answers, in float32 also where the model's policy is another.

    Raises:
        ConversionError: the model fails on the samples, or its answers can't be compared.
    """
    batches: list[list[np.ndarray]] = []
    names: list[str] = []
    size = signature.batch_size if signature.batch_size > 1 else _BATCH
    with float32_form(model):
        for start in range(0, len(samples), size):
            arrays = [samples.inputs[name][start : start + size] for name in signature.names()]
            outputs = _call(model, signature, arrays)
            names = output_names(model, outputs)
            batches.append([keras.ops.convert_to_numpy(leaf) for leaf in keras.tree.flatten(outputs)])
            _check_batch(model, names, batches[-1], len(arrays[0]))
    joined = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return Answers(fidelity.finite_answers(joined, f"Model {model.name!r}"), names)


def _call(model: Any, signature: ModelSignature, arrays: Sequence[np.ndarray]) -> Any:
    # Called as it is: a function that Keras compiled earlier would keep the policy it was compiled with.
    try:
        return model(signature.pack([keras.ops.convert_to_tensor(array) for array in arrays]), training=False)
    except Exception as error:  # whatever the user's model raises on the user's samples
        raise ConversionError(
            f"Model {model.name!r} itself fails on the samples to compare on; integer inputs out of an "
            f"Embedding's range are a usual cause. {type(error).__name__}: {str(error)[:_ERROR_LENGTH]}"
        ) from error


def _check_batch(model: Any, names: Sequence[str], outputs: Sequence[np.ndarray], count: int) -> None:
    for name, output in zip(names, outputs, strict=True):
        if output.shape[:1] != (count,):
            raise ConversionError(
                f"Output {name!r} of model {model.name!r} has shape {output.shape} for {count} samples. Its "
                "first axis must count samples, since the file takes them in batches."
            )


def compare(
    reference: Answers, runs: Sequence[Sequence[np.ndarray]], max_error: float
) -> dict[str, OutputError]:
    """Return the error of each output, the worst of all runs of the file counting.

    Args:
        reference: Keras' answers.
        runs: the file's answers, once per batch size, to all samples or the first of them.
        max_error: bound on the absolute difference of a float output whose answers lie within -1 to 1; it
            grows with the largest answer, as the steps of float32 do.
    """
    errors = {}
    for index, (name, wanted) in enumerate(zip(reference.names, reference.arrays, strict=True)):
        found = [run[index] for run in runs]
        if wanted.dtype.kind != "f":
            share = max(float(np.mean(wanted[: len(array)] != array)) for array in found)
            allowed = 1.0 - fidelity.LABEL_FLOOR
        else:
            share = max(metrics.max_abs_error(wanted[: len(array)], array) for array in found)
            allowed = max_error * max(1.0, float(np.abs(wanted).max(initial=0.0)))
        ratio = min(metrics.sqnr_db(wanted[: len(array)], array) for array in found)
        errors[name] = OutputError(share, allowed, ratio)
    return errors


def check(errors: dict[str, OutputError], what: str) -> None:
    """Raise where an output is further from Keras' than is allowed.

    Raises:
        ConversionError: with the numbers of each such output.
    """
    wrong = {name: error for name, error in errors.items() if not error.max_error <= error.allowed}
    if wrong:
        numbers = "; ".join(
            f"{name!r} by {error.max_error:.3g}, where {error.allowed:.3g} is allowed "
            f"(SQNR {error.sqnr_db:.0f} dB)"
            for name, error in wrong.items()
        )
        raise ConversionError(
            f"{what} answers otherwise than Keras: {numbers}. Nothing was written. A layer that answers at "
            "random, or a number near the limits of float32, are usual causes; raise `max_error` only if you "
            "know why the answers differ."
        )
