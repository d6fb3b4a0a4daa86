"""The array of one input: of numbers, finite, in the shape and type of the file."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite.data.arrays import to_numpy
from keras_attention.tflite.model_signature import TensorSpec

_FILE_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
"""Types that an input of a file can have."""


def as_array(argument: str, data: Any, spec: TensorSpec) -> np.ndarray:
    """Return the data as an array of numbers whose first axis may count samples."""
    where = f"`{argument}`, input {spec.name!r}"
    try:
        values = to_numpy(data)
    except Exception as error:  # arrays of other libraries raise their own kinds
        kind = type(data).__name__
        raise TypeError(f"{where}: must be an array of numbers. Received: {kind}. {error}") from error
    if spec.dtype not in _FILE_DTYPES:
        raise TypeError(
            f"Input {spec.name!r} of the model takes {spec.dtype}, which a file can't take. Convert the part "
            "of the model behind its text or lookup layers."
        )
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"{where}: must be numbers that convert to {spec.dtype}. Received: dtype={values.dtype}, "
            f"type={type(data).__name__}. Pass an array of numbers; objects convert by .astype('float32')."
        )
    if values.ndim == 0:
        raise ValueError(f"{where}: must be an array whose first axis counts samples. Received: {data!r}")
    return values


def check_input(argument: str, values: np.ndarray, spec: TensorSpec, spread: bool) -> np.ndarray:
    """Return an array in the shape and type of an input; `spread` refuses one value throughout.

    Raises:
        TypeError, ValueError: naming the argument, the input and the cure.
    """
    where = f"`{argument}`, input {spec.name!r}"
    if values.shape[:1] == (0,):
        raise ValueError(f"{where}: holds no sample. Received: shape={values.shape}. Pass at least one.")
    if values.shape[1:] != spec.shape:
        raise ValueError(
            f"{where}: each sample must have shape {spec.shape}, so the array (samples, "
            f"{', '.join(map(str, spec.shape))}). Received: shape={values.shape}"
            f"{_shape_cure(values.shape, spec.shape)}"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
        raise ValueError(
            f"{where}: holds NaN or infinite values, first in sample {bad}. Remove or repair them."
        )
    converted = _convert(where, values, spec.dtype)
    if spread and converted.dtype.kind == "f" and converted.size > 1 and converted.min() == converted.max():
        raise ValueError(
            f"{where}: every value is {float(converted.flat[0]):g}. Calibration finds the range of data: "
            "pass recordings as the app will see them, not placeholders."
        )
    return converted


def _shape_cure(received: tuple[int, ...], wanted: tuple[int | None, ...]) -> str:
    if received == wanted:
        return ". One sample without the axis that counts samples: pass array[None]."
    return "."


def _convert(where: str, values: np.ndarray, dtype: str) -> np.ndarray:
    """Convert without changing a value, rounding of floats aside."""
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        if values.dtype.kind in "iub" and values.dtype.itemsize == 1 and values.dtype == np.int8:
            raise TypeError(
                f"{where}: must be {dtype}. Received: int8. Pass the values before any quantization; "
                "ranges are found from them."
            )
        with np.errstate(over="ignore"):
            floats = np.ascontiguousarray(values, wanted)
        if not np.isfinite(floats).all():
            raise ValueError(
                f"{where}: holds values beyond the range of {dtype}. Received: values from {values.min():g} "
                f"to {values.max():g}. Scale the data as the model expects it."
            )
        return floats
    converted = values.astype(wanted)
    if not np.array_equal(converted, values):
        raise TypeError(
            f"{where}: must hold values that {dtype} can represent. Received: dtype={values.dtype} with "
            f"values from {values.min():g} to {values.max():g}"
        )
    return np.ascontiguousarray(converted)
