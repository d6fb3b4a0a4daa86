"""The arguments of `convert`: what is allowed, and the checks that take no time."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import Literal
from typing import get_args

from keras_attention.tflite import files
from keras_attention.tflite.manifest import sidecar_path

Precision = Literal["float32", "float16", "dynamic", "int8", "int8_full", "int16x8", "auto"]
Target = Literal["cpu", "gpu", "npu", "microcontroller"]
IoDtype = Literal["float32", "int8", "uint8", "int16"]
CALIBRATED = frozenset({"int8", "int8_full", "int16x8", "auto"})
"""Precisions that take scales from calibration samples."""
_IO_DTYPES = {"int8_full": ("int8", "uint8"), "int16x8": ("float32", "int16"), "auto": ()}
AUTO_AGREEMENT = 0.99
"""Least agreement that "auto" accepts where the caller sets no floor."""
Task = Literal["classification", "regression"]


def check_arguments(
    precision: str,
    floors: Mapping[str, Any],
    task: str | None,
    input_shapes: Any,
    max_unrolled_steps: int,
    calibration: Any,
) -> None:
    """Raise on arguments that are wrong whatever the model is; each is named, with what is allowed."""
    if precision not in get_args(Precision):
        raise ValueError(f"`precision` must be one of {get_args(Precision)}. Received: {precision!r}")
    if task is not None and task not in get_args(Task):
        raise ValueError(f"`task` must be one of {get_args(Task)} or None. Received: {task!r}")
    for name, value in floors.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
            raise TypeError(f"`{name}` must be a number or None. Received: {value!r}")
        if value is not None and not math.isfinite(value):
            raise ValueError(f"`{name}` must be finite. Received: {value!r}")
    min_agreement = floors["min_agreement"]
    if min_agreement is not None and not 0.0 <= min_agreement <= 1.0:
        raise ValueError(f"`min_agreement` must be a share from 0 to 1. Received: {min_agreement!r}")
    if input_shapes is not None and not (
        isinstance(input_shapes, Mapping)
        and all(isinstance(shape, list | tuple) for shape in input_shapes.values())
    ):
        raise TypeError(
            "`input_shapes` must map input names to shapes without the batch axis, as in "
            f"{{'window': (128, 6)}}. Received: {input_shapes!r}"
        )
    if (
        isinstance(max_unrolled_steps, bool)
        or not isinstance(max_unrolled_steps, int)
        or max_unrolled_steps < 0
    ):
        raise ValueError(f"`max_unrolled_steps` must be an integer >= 0. Received: {max_unrolled_steps!r}")
    if precision in CALIBRATED and calibration is None:
        raise ValueError(
            f"`calibration` is needed for precision={precision!r}: pass 100 to 1,000 real samples as the app "
            "will see them. Without any, precision='dynamic' gives int8 weights. Received: calibration=None"
        )


def check_batch_size(batch_size: Any) -> None:
    """Raise unless `batch_size` is a fixed number of samples."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(
            "`batch_size` must be an integer >= 1, the number of samples that the file takes at a time. It "
            "can't be left open, for which docs/conversion.md gives the reasons; convert once per size. "
            f"Received: {batch_size!r}"
        )


def check_path(path: str | Path | None, source: Any, argument: str = "model") -> Path | None:
    """Return the file to write, or None; raise if it can't be written or is the file of `argument`."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path or None. Received: {path!r}")
    target = Path(path)
    if isinstance(source, str | Path) and target.resolve() == Path(source).resolve():
        raise ValueError(f"`path` would overwrite `{argument}`. Received: {str(path)!r} for both")
    files.check_writable(target)
    files.check_writable(sidecar_path(target))
    return target


def check_target(target: str, precision: str) -> None:
    """Raise on a target that is none, or that only "auto" could heed."""
    if target not in get_args(Target):
        raise ValueError(f"`target` must be one of {get_args(Target)}. Received: {target!r}")
    if target != "cpu" and precision != "auto":
        raise ValueError(
            f"`target` is what precision='auto' chooses for. Received: target={target!r} with precision="
            f"{precision!r}. Pass precision='auto', or leave `target` out."
        )


def least_agreement(
    precision: str, min_agreement: float | None, max_metric_drop: float | None
) -> float | None:
    """Return the floor of the agreement; "auto" has one where the caller sets none."""
    if precision == "auto" and min_agreement is None and max_metric_drop is None:
        return AUTO_AGREEMENT
    return min_agreement


def check_io_dtype(io_dtype: str | None, precision: str) -> None:
    """Raise on a type of inputs and outputs that files of the precision don't have."""
    allowed = _IO_DTYPES.get(precision, ("float32",))
    if io_dtype is not None and io_dtype not in allowed:
        choice = f"one of {allowed}" if allowed else "left out"
        raise ValueError(
            f"`io_dtype` must be {choice} with precision={precision!r}. Received: io_dtype={io_dtype!r}"
        )


def io_dtype_of(io_dtype: str | None, precision: str, target: str | None) -> str:
    """Return the type of a file's real inputs and outputs; a target without floats takes integers."""
    if io_dtype is not None:
        return io_dtype
    if precision == "int8_full":
        return "int8"
    return "int16" if precision == "int16x8" and target in ("npu", "microcontroller") else "float32"
