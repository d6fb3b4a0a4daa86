"""What one element of a stream means: a sample or a batch, of one or more inputs, with or without targets."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite.data.arrays import is_nested_numbers
from keras_attention.tflite.data.arrays import to_numpy
from keras_attention.tflite.model_signature import TensorSpec

Specs = Sequence[TensorSpec] | None
"""The model's inputs, or None for a subclassed model, which has no list of them."""


@dataclass(frozen=True)
class Batch:
    """Some samples; the first axis of each array counts them.

    Attributes:
        inputs: input name -> array. Where the model has no list of inputs, the key is the name in a dict,
            the position in a list, or None for a single array.
        targets: one per sample, or None.
        weighted: whether sample weights came along, which nothing here uses.
    """

    inputs: dict[Hashable, np.ndarray]
    targets: np.ndarray | None
    weighted: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))


def read_batch(where: str, element: Any, specs: Specs) -> Batch:
    """Return an element of a stream as a batch.

    An element is an array; a list of one array per input; a dict by input name; or one of these with
    targets: `(inputs, targets)`, `(inputs, targets, weights)`, or the flat list of inputs and targets that a
    torch DataLoader gives. Of the rank of an input it is one sample, of one rank more a batch.

    Raises:
        TypeError, ValueError: the element is none of these, or has another shape than the model's inputs.
    """
    inputs, targets, weighted = _split(element, specs)
    arrays = {key: _array(where, key, value) for key, value in _keyed(where, inputs, specs).items()}
    if not arrays:
        raise ValueError(f"{where} holds no array. Received: {element!r}")
    is_sample = specs is not None and _is_sample(where, arrays, specs)
    target = None if targets is None else _target(where, targets)
    if is_sample:
        arrays = {key: array[None] for key, array in arrays.items()}
        target = None if target is None else target[None]
    counts = {key: array.shape[0] if array.ndim else None for key, array in arrays.items()}
    if target is not None:
        counts["targets"] = target.shape[0] if target.ndim else None
    if len(set(counts.values())) > 1 or None in counts.values():
        raise ValueError(
            f"{where} must hold as many samples of each input, and as many targets. Received: {counts}"
        )
    return Batch(arrays, target, weighted)


def _split(element: Any, specs: Specs) -> tuple[Any, Any, bool]:
    """Return inputs, targets, and whether sample weights came along."""
    if not isinstance(element, list | tuple) or is_nested_numbers(element):
        return element, None, False
    if specs is None:
        if isinstance(element, tuple) and len(element) in (2, 3):
            return element[0], element[1], len(element) == 3
        return element, None, False
    holds_all = isinstance(element[0], Mapping | list | tuple) if element else False
    if len(element) in (2, 3) and (holds_all or len(specs) == 1):
        return element[0], element[1], len(element) == 3
    if len(element) == len(specs) + 1:
        return element[:-1], element[-1], False
    return element, None, False


def _keyed(where: str, inputs: Any, specs: Specs) -> dict[Hashable, Any]:
    is_list = isinstance(inputs, list | tuple) and not is_nested_numbers(inputs)
    if specs is None:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        return dict(enumerate(inputs)) if is_list else {None: inputs}
    names = [spec.name for spec in specs]
    if isinstance(inputs, Mapping):
        if set(inputs) != set(names):
            raise ValueError(f"{where} must name the model's inputs {names}. Received: {list(inputs)}")
        return {name: inputs[name] for name in names}
    values = list(inputs) if is_list else [inputs]
    if len(values) != len(names):
        raise ValueError(
            f"{where} must hold one array for each of the inputs {names}, as a list or a dict, or a tuple "
            f"(inputs, targets). Received: {len(values)} arrays"
        )
    return dict(zip(names, values, strict=True))


def _array(where: str, key: Hashable, value: Any) -> np.ndarray:
    try:
        array = to_numpy(value)
    except Exception as error:  # each library raises its own kind
        raise TypeError(
            f"{where}, input {key!r}: must be an array of numbers. Received: {type(value).__name__}. {error}"
        ) from error
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{where}, input {key!r}: must be an array of numbers. Received: dtype={array.dtype}, "
            f"type={type(value).__name__}"
        )
    return array


def _target(where: str, value: Any) -> np.ndarray:
    if isinstance(value, Mapping | list | tuple) and not is_nested_numbers(value):
        raise TypeError(
            f"{where}: the targets must be one array. Received: {type(value).__name__}. With several outputs "
            "leave the targets out."
        )
    return to_numpy(value)


def _is_sample(where: str, arrays: Mapping[Hashable, np.ndarray], specs: Sequence[TensorSpec]) -> bool:
    """Whether arrays are one sample, rank by rank; raise if they are neither that nor a batch."""
    kinds = set()
    for spec in specs:
        shape = arrays[spec.name].shape
        extra = len(shape) - len(spec.shape)
        own = shape[max(extra, 0) :]
        fits = all(wanted in (None, size) for wanted, size in zip(spec.shape, own, strict=False))
        if extra not in (0, 1) or not fits:
            raise ValueError(
                f"{where}, input {spec.name!r}: must be one sample of shape {spec.shape}, or a batch of them "
                f"with one axis before. Received: shape={shape}"
            )
        kinds.add(extra)
    if len(kinds) > 1:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"{where} mixes single samples and batches. Received: {shapes}")
    return kinds == {0}
