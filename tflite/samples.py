"""The user's calibration and evaluation data: taken in, checked, and brought into one form.

Every message names the argument, what was received, what is allowed and what to do.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite.data.arrays import even_choice
from keras_attention.tflite.data.arrays import is_array
from keras_attention.tflite.data.arrays import is_nested_numbers
from keras_attention.tflite.data.arrays import to_numpy
from keras_attention.tflite.data.elements import Specs
from keras_attention.tflite.data.gathered import Gathered
from keras_attention.tflite.data.gathered import cut_remark
from keras_attention.tflite.data.gathered import most_samples
from keras_attention.tflite.data.inputs import as_array
from keras_attention.tflite.data.inputs import check_input
from keras_attention.tflite.data.iterables import collect
from keras_attention.tflite.data.iterables import elements_of
from keras_attention.tflite.data.iterables import is_stream
from keras_attention.tflite.data.paths import read_path
from keras_attention.tflite.model_signature import ModelSignature


@dataclass(frozen=True)
class Samples:
    """Checked samples.

    Attributes:
        inputs: input name -> array, the first axis counts samples, in the file's shapes and types.
        targets: what the model should answer, or None.
        remarks: what the user should know about how they were taken in.
    """

    inputs: dict[str, np.ndarray]
    targets: np.ndarray | None = None
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def take(self, most: int) -> Samples:
        """Return at most `most` samples, evenly spread, always the same ones."""
        if len(self) <= most:
            return self
        chosen = even_choice(len(self), most)
        targets = None if self.targets is None else self.targets[chosen]
        return Samples({name: values[chosen] for name, values in self.inputs.items()}, targets, self.remarks)


def gather(argument: str, data: Any, specs: Specs) -> Gathered:
    """Take arrays out of whatever holds the samples; generators are read here, once.

    Args:
        argument: the name that errors speak of, "calibration" or "evaluation", which also says how many
            samples are kept.
        data: arrays, an iterable, a function that returns one, or a path: docs/calibration.md has the list.
        specs: the model's inputs, sizes may be open; None for a subclassed model, which has no list of them.

    Raises:
        TypeError, ValueError, OSError: naming the argument and the cure.
    """
    if isinstance(data, Gathered):
        return data
    if callable(data) and not is_array(data) and not is_stream(data):
        data = _called(argument, data)
    if isinstance(data, str | os.PathLike):
        return read_path(argument, Path(data), specs)
    if is_stream(data) and not _is_pair_of_arrays(data):
        return collect(argument, elements_of(data), specs)
    inputs, targets = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if isinstance(inputs, str | os.PathLike) or is_stream(inputs):
        raise TypeError(
            f"`{argument}` is a tuple whose first entry is no array. Received: {type(inputs).__name__}. A "
            "generator or data set holds its targets itself: let it yield (inputs, targets)."
        )
    return Gathered(_plain(argument, inputs), targets)


def _called(argument: str, function: Callable[..., Any]) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise TypeError(
            f"`{argument}` must be a function without arguments that returns a generator or data set. "
            f"Received: {function!r}, {error}. Wrap it: {argument}=lambda: function(...)."
        ) from error
    return function()


def _is_pair_of_arrays(data: Any) -> bool:
    """Whether a tuple is (list or dict of arrays, targets), not a tuple of elements."""
    if not isinstance(data, tuple) or len(data) != 2:
        return False
    return data[1] is None or is_array(data[1]) or is_nested_numbers(data[1])


def _plain(argument: str, inputs: Any) -> Any:
    """Return tensors of any library as arrays, in the same form."""
    if isinstance(inputs, Mapping):
        return {name: _plain(argument, value) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return [_plain(argument, value) if is_array(value) else value for value in inputs]
    if not is_array(inputs):
        return inputs
    try:
        return to_numpy(inputs)
    except Exception as error:  # arrays of other libraries raise their own kinds
        kind = type(inputs).__name__
        raise TypeError(f"`{argument}` must hold arrays of numbers. Received: {kind}. {error}") from error


def check_samples(argument: str, data: Any, signature: ModelSignature, *, spread: bool) -> Samples:
    """Return the data as `Samples`.

    Args:
        argument: the name that errors speak of, "calibration" or "evaluation".
        data: what `gather` takes or returns.
        signature: the model's inputs.
        spread: whether a float input that never changes is refused, as calibration must.

    Raises:
        TypeError, ValueError: naming the argument, the input and the cure.
    """
    gathered = gather(argument, data, signature.inputs)
    named = _by_name(argument, gathered.inputs, signature)
    arrays = {spec.name: as_array(argument, named[spec.name], spec) for spec in signature.inputs}
    counts = {name: len(values) for name, values in arrays.items()}
    count = max(counts.values())
    targets = None if gathered.targets is None else to_numpy(gathered.targets)
    if targets is not None and len(set(counts.values())) == 1 and targets.shape[:1] != (count,):
        raise ValueError(
            f"`{argument}` holds {count} samples, but its targets have shape {targets.shape}. "
            "Pass a tuple (inputs, targets) with one target per sample; several inputs go in a list or dict."
        )
    remarks = gathered.remarks
    if len(set(counts.values())) == 1 and count > (most := most_samples(argument)):
        chosen = even_choice(count, most)  # before anything is copied
        arrays = {name: values[chosen] for name, values in arrays.items()}
        targets = None if targets is None else targets[chosen]
        remarks = (*remarks, cut_remark(argument, most, count))
    remarks += tuple(
        f"`{argument}`, input {spec.name!r}: uint8 is taken as values of 0 to 255, as it is. If these are "
        "codes of quantized values, pass the values."
        for spec in signature.inputs
        if arrays[spec.name].dtype == np.uint8 and spec.dtype == "float32" and len(spec.shape) < 3
    )
    checked = {spec.name: check_input(argument, arrays[spec.name], spec, spread) for spec in signature.inputs}
    if len(set(counts.values())) > 1:
        raise ValueError(f"`{argument}` has different numbers of samples per input. Received: {counts}")
    return Samples(checked, targets, remarks)


def _by_name(argument: str, inputs: Any, signature: ModelSignature) -> dict[str, Any]:
    names = signature.names()
    if isinstance(inputs, Mapping):
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            raise ValueError(
                f"`{argument}` must name the model's inputs {names}. Received: {list(inputs)}"
                f"{_hint(missing, unknown)}"
            )
        return dict(inputs)
    if isinstance(inputs, list | tuple) and not (
        len(names) == 1 and inputs and not hasattr(inputs[0], "shape")
    ):
        if len(names) == 1 and all(np.shape(sample) == signature.inputs[0].shape for sample in inputs):
            return {names[0]: np.stack([np.asarray(sample) for sample in inputs])}
        if len(inputs) != len(names):
            raise ValueError(
                f"`{argument}` must hold one array for each of the {len(names)} inputs {names}. "
                f"Received: {len(inputs)} arrays"
            )
        return dict(zip(names, inputs, strict=True))
    if len(names) != 1:
        raise ValueError(
            f"`{argument}` must be a list or dict of arrays, since the model has the inputs {names}. "
            f"Received: {type(inputs).__name__}"
        )
    return {names[0]: inputs}


def _hint(missing: list[str], unknown: list[str]) -> str:
    return f". Rename {unknown[0]!r} to {missing[0]!r}" if len(missing) == len(unknown) == 1 else ""
