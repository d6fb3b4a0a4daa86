"""The arguments of `convert`: what is allowed, and the checks that take no time."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any
from typing import Literal
from typing import get_args

from keras_attention.tflite import files
from keras_attention.tflite.choosing import INTEGER_TARGETS
from keras_attention.tflite.choosing import LADDERS
from keras_attention.tflite.fidelity import Floors
from keras_attention.tflite.manifest import sidecar_path

Precision = Literal["float32", "float16", "dynamic", "int8", "int8_full", "int16x8", "auto"]
Target = Literal["cpu", "gpu", "npu", "microcontroller"]
MICRO = "microcontroller"
IoDtype = Literal["float32", "int8", "uint8", "int16"]
CALIBRATED = frozenset({"int8", "int8_full", "int16x8", "auto"})
"""Precisions that take scales from calibration samples."""
_IO_DTYPES = {"int8_full": ("int8", "uint8"), "int16x8": ("float32", "int16"), "auto": ()}
AUTO_AGREEMENT = 0.99
"""Least agreement that "auto" accepts where the caller sets no floor."""
Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Wanted:
    """What the caller of `convert` or `quantize` wants of the file; the fields are named as the arguments."""

    precision: str
    target: str
    floors: Floors
    task: str | None
    io_dtype: str | None
    sensitivity: bool

    def io_dtype_of(self, precision: str) -> str:
        """Return the type of a file's real inputs and outputs; a target without floats takes integers."""
        if self.io_dtype is not None:
            return self.io_dtype
        if precision == "int8_full":
            return "int8"
        return "int16" if precision == "int16x8" and self.target in INTEGER_TARGETS else "float32"

    @property
    def needs_convolutions(self) -> bool:
        """Whether products are written as convolutions, which microcontrollers round as LiteRT does."""
        return self.target == MICRO

    def measures_layers(self, precision: str) -> bool:
        """Tell whether the noise of each layer is measured in a file."""
        return (self.sensitivity or self.precision == "auto") and precision in CALIBRATED


def check(wanted: Wanted, calibration: Any) -> Wanted:
    """Raise on what is wrong whatever the model is; return what is wanted, with the floor that "auto" has."""
    precision, floors = wanted.precision, wanted.floors
    if precision not in get_args(Precision):
        raise ValueError(f"`precision` must be one of {get_args(Precision)}. Received: {precision!r}")
    if wanted.task is not None and wanted.task not in get_args(Task):
        raise ValueError(f"`task` must be one of {get_args(Task)} or None. Received: {wanted.task!r}")
    for name, values in _floor_values(floors).items():
        for value in values:
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"`{name}` must be a number or None. Received: {value!r}")
            if not math.isfinite(value):
                raise ValueError(f"`{name}` must be finite. Received: {value!r}")
            if name == "min_agreement" and not 0.0 <= float(value) <= 1.0:
                raise ValueError(f"`min_agreement` must be a share from 0 to 1. Received: {value!r}")
    if precision in CALIBRATED and calibration is None:
        raise ValueError(
            f"`calibration` is needed for precision={precision!r}: pass 100 to 1,000 real samples as the app "
            "will see them. Without any, precision='dynamic' gives int8 weights. Received: calibration=None"
        )
    _check_target(wanted.target, precision)
    _check_io_dtype(wanted.io_dtype, precision)
    if precision != "auto" or floors.min_agreement is not None or floors.max_metric_drop is not None:
        return wanted
    return replace(wanted, floors=replace(floors, min_agreement=AUTO_AGREEMENT))


def _floor_values(floors: Floors) -> dict[str, list[Any]]:
    """Return the numbers of each floor: none, one, or in "min_agreement" one for each output named."""
    found = {}
    for name, value in vars(floors).items():
        if name == "min_agreement" and isinstance(value, Mapping):
            if not value:
                raise ValueError("`min_agreement` must name an output, as in {'classes': 0.99}. Received: {}")
            found[name] = list(value.values())
        else:
            found[name] = [] if value is None else [value]
    return found


def check_sizes(input_shapes: Any, max_unrolled_steps: Any, batch_size: Any) -> None:
    """Raise on the arguments of `convert` alone that are wrong whatever the model is."""
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
        or not isinstance(max_unrolled_steps, numbers.Integral)
        or max_unrolled_steps < 0
    ):
        raise ValueError(f"`max_unrolled_steps` must be an integer >= 0. Received: {max_unrolled_steps!r}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, numbers.Integral) or batch_size < 1:
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


def _check_target(target: str, precision: str) -> None:
    """Raise on a target that is none, or that the precision can't heed."""
    if target not in get_args(Target):
        raise ValueError(f"`target` must be one of {get_args(Target)}. Received: {target!r}")
    if target in ("gpu", "npu") and precision != "auto":
        raise ValueError(
            f"`target` is what precision='auto' chooses for. Received: target={target!r} with precision="
            f"{precision!r}. Pass precision='auto', or leave `target` out."
        )
    if target == MICRO and precision not in ("auto", *LADDERS[MICRO]):
        raise ValueError(
            f"target={target!r} goes with precision {', '.join(map(repr, ('auto', *LADDERS[MICRO])))}. "
            f"Received: {precision!r}. Pass one of these, or leave `target` out."
        )


def _check_io_dtype(io_dtype: str | None, precision: str) -> None:
    """Raise on a type of inputs and outputs that files of the precision don't have."""
    allowed = _IO_DTYPES.get(precision, ("float32",))
    if io_dtype is not None and io_dtype not in allowed:
        choice = f"one of {allowed}" if allowed else "left out"
        raise ValueError(
            f"`io_dtype` must be {choice} with precision={precision!r}. Received: io_dtype={io_dtype!r}"
        )
