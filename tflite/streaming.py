"""Samples of stateful models: the states that go with them, and the comparison over samples in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import fidelity
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.samples import Samples

STREAM = 256
"""Samples in a row over which file and Keras each carry their own state."""


def with_zero_states(samples: Samples, signature: ModelSignature) -> Samples:
    """Return the samples with states of zeros, as each is answered on its own."""
    zeros = {
        spec.name: np.zeros((len(samples), *(size or 1 for size in spec.shape)), spec.dtype)
        for spec in signature.states
    }
    return Samples({**samples.inputs, **zeros}, samples.targets)


def with_carried_states(model: Any, samples: Samples | None, signature: ModelSignature) -> Samples | None:
    """Return the samples with the states that Keras has before each, if it is fed one after the other.

    The ranges of states are found on these: states of zeros would show the quantizer too narrow a range.
    """
    if samples is None or not signature.states:
        return samples
    after = fidelity.predict(model, signature, samples, carry=True)[-len(signature.states) :]
    before = {
        spec.name: np.concatenate([np.zeros_like(values[:1]), values[:-1]])
        for spec, values in zip(signature.states, after, strict=True)
    }
    return Samples({**samples.inputs, **before}, samples.targets)


def compare(
    model: Any,
    signature: ModelSignature,
    samples: Samples,
    folders: tuple[Path, Path],
    measured: dict[str, Any],
    changes: dict[str, str],
    task: str | None,
    names: Sequence[str],
) -> dict[str, Any]:
    """Compare over samples in a row as well, and return the worse of each number.

    Args:
        model: the Keras model.
        signature: of the model.
        samples: to compare on.
        folders: of the outputs of the float32 file, and of the final one, over the first `STREAM` samples.
        measured: the numbers of samples answered one by one, as `fidelity.compare` returns them.
        changes: what lowering changed.
        task: as `convert` takes it.
        names: of the outputs and states, in order.

    Raises:
        ConversionError: the float32 file carries its state in another way than Keras.
    """
    first = Samples({name: values[:STREAM] for name, values in samples.inputs.items()})
    reference = fidelity.predict(model, signature, first, carry=True)
    float_form, final = (
        fidelity.load_outputs(folder / f"{kind}_stream.npz")
        for folder, kind in zip(folders, ("float32", "model"), strict=True)
    )
    states = len(signature.states)
    fidelity.check_float_form(reference, float_form, model, changes, lambda: None, names, states)
    row = fidelity.compare(reference, final, None, task, names, states)
    return {
        **measured,
        "agreement": min(measured["agreement"], row["agreement"]),
        "sqnr_db": min(measured["sqnr_db"], row["sqnr_db"]),
        "max_abs_error": max(measured["max_abs_error"], row["max_abs_error"]),
        "by_output": tuple(
            _worse(one, other) for one, other in zip(measured["by_output"], row["by_output"], strict=True)
        ),
    }


def _worse(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the lower numbers of one output; integers have no SQNR."""
    ratios = [row["sqnr_db"] for row in (one, other) if row["sqnr_db"] is not None]
    return {
        "output": one["output"],
        "agreement": min(one["agreement"], other["agreement"]),
        "sqnr_db": min(ratios, default=None),
    }
