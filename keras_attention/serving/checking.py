"""What `export_onnx` looks at before and after the work: arguments, the model, names."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.serving.comparison import Answers
from keras_attention.tflite import files
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.lowering import stateful
from keras_attention.tflite.model_signature import ModelSignature

OPSETS = (15, 18)
"""Oldest and newest operator set that the converter writes with all operators that layers need."""
_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def check_arguments(batch_size: Any, opset: Any, max_error: Any) -> None:
    """Raise on the arguments that are wrong whatever the model is."""
    if batch_size is not None and not (_is_integer(batch_size) and batch_size >= 1):
        raise ValueError(f"`batch_size` must be an integer >= 1 or None. Received: {batch_size!r}")
    oldest, newest = OPSETS
    if not (_is_integer(opset) and oldest <= opset <= newest):
        raise ValueError(f"`opset` must be an integer from {oldest} to {newest}. Received: {opset!r}")
    is_number = isinstance(max_error, int | float | np.floating) and not isinstance(max_error, bool)
    if not (is_number and math.isfinite(max_error) and max_error > 0):
        raise ValueError(f"`max_error` must be a finite number above 0. Received: {max_error!r}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_path(path: Any, model: Any, overwrite: bool) -> Path | None:
    """Return the file to write, or None; raise if it can't be written."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path or None. Received: {path!r}")
    target = Path(path)
    if isinstance(model, str | Path) and target.resolve() == Path(model).resolve():
        raise ValueError(f"`path` would overwrite `model`. Received: {str(path)!r} for both")
    files.check_writable(target)
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{str(target)!r} exists already. Pass overwrite=True (--overwrite) to replace it, or another "
            "path."
        )
    return target


def check_states(model: Any) -> None:
    """Raise on a layer that remembers, naming it."""
    for layer in stateful.layers_of(model):
        raise ConversionError(
            f"Layer {layer.path!r} is stateful: it remembers the batch before, and a server's file remembers "
            "nothing. Build the model with stateful=False, or let it take and return its states as tensors "
            "(return_state=True, initial_state=...)."
        )


def check_types(signature: ModelSignature) -> None:
    """Raise on inputs that are no numbers."""
    for spec in signature.inputs:
        if spec.dtype not in _DTYPES:
            raise ConversionError(
                f"Input {spec.name!r} takes {spec.dtype}, which the file can't. Allowed: {list(_DTYPES)}. "
                "Let the client do what turns it into numbers, and export the part of the model behind it."
            )


def check_output_names(reference: Answers, signature: ModelSignature) -> None:
    """Raise on names that ONNX can't have."""
    for name in reference.names:
        if not name or name in signature.names():
            raise ConversionError(
                f"An output has the name {name!r}, and in an ONNX file every tensor needs one of its own "
                f"beside the inputs {signature.names()}. Rename the output layer, or the key of the dict."
            )
    if "" in signature.names():
        raise ConversionError("An input has the empty name, which ONNX doesn't know. Name it.")


def check_interface(interface: Any, signature: ModelSignature, reference: Answers) -> None:
    """Raise unless the runtime reads the names out of the file that Keras has, in its order."""
    for side, specs in (("inputs", signature.inputs), ("outputs", reference.specs())):
        found = [value["name"] for value in interface[side]]
        if found != [spec.name for spec in specs]:
            raise ConversionError(
                f"The file's {side} are {found}, and not those of Keras, {[spec.name for spec in specs]}: an "
                "input that the answers don't depend on was left out. Take it out of the model."
            )
