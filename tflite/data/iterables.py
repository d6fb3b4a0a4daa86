"""Samples from what can only be gone through: generators, data sets, loaders, functions that return one."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite.data.arrays import is_array
from keras_attention.tflite.data.arrays import is_nested_numbers
from keras_attention.tflite.data.elements import Batch
from keras_attention.tflite.data.elements import Specs
from keras_attention.tflite.data.elements import read_batch
from keras_attention.tflite.data.gathered import READ_FACTOR
from keras_attention.tflite.data.gathered import Gathered
from keras_attention.tflite.data.gathered import cut_remark
from keras_attention.tflite.data.gathered import most_samples

_FRESH = (
    "Pass a fresh generator, or a function that returns one, as in "
    "calibration=lambda: (window for window in windows)."
)


def is_stream(data: Any) -> bool:
    """Whether the data must be gone through, element by element, to get at arrays."""
    if isinstance(data, list | tuple):
        # A list of arrays has long meant one array per input, or the samples of one; these are elements.
        if not len(data):
            return True
        first = data[0]
        return isinstance(first, Mapping) or (
            isinstance(first, list | tuple) and len(first) > 0 and not is_nested_numbers(first)
        )
    if isinstance(data, Mapping | str | bytes) or is_array(data):
        return False
    return isinstance(data, Iterable) or (hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def elements_of(data: Any) -> Iterator[Any]:
    """Return an iterator over a stream, also over one that knows only `__getitem__` and `__len__`."""
    if isinstance(data, Iterable):
        return iter(data)
    return (data[index] for index in range(len(data)))


def collect(argument: str, elements: Iterator[Any], specs: Specs) -> Gathered:
    """Return samples of a stream, at most `most_samples(argument)` of them, evenly spread.

    Reads at most `READ_FACTOR` times as many (and the rest of the batch that reaches this number).

    Raises:
        TypeError, ValueError: no element came, or one doesn't fit the model; it is named by position.
    """
    most = most_samples(argument)
    choice = _EvenChoice(argument, most)
    endless = False
    for index in itertools.count():
        if choice.read >= READ_FACTOR * most:
            endless = True
            break
        try:
            element = next(elements)
        except StopIteration:
            break
        choice.add(read_batch(f"`{argument}`, element {index}", element, specs))
    if choice.read == 0:
        fresh = _FRESH.replace("calibration=", f"{argument}=")
        raise ValueError(
            f"`{argument}` yields no sample: it is empty, or something has read it to its end before. {fresh}"
        )
    remarks = []
    if endless:
        remarks.append(
            f"`{argument}` went on after {choice.read:,} samples, where reading stops: {len(choice):,} of "
            "these, evenly spread, are used."
        )
    elif len(choice) < choice.read:
        remarks.append(cut_remark(argument, len(choice), choice.read))
    if choice.weighted:
        remarks.append(f"`{argument}` holds sample weights, which are not used: each sample counts the same.")
    inputs, targets = choice.stacked()
    return Gathered(inputs, targets, tuple(remarks))


class _EvenChoice:
    """Keeps every n-th sample of a stream; n doubles whenever more than `most` would be kept."""

    def __init__(self, argument: str, most: int) -> None:
        self.read = 0
        self.weighted = False
        self._argument = argument
        self._most = most
        self._stride = 1
        self._keys: list[Hashable] = []
        self._has_targets = False
        self._rows: list[list[np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, batch: Batch) -> None:
        arrays = list(batch.inputs.values())
        has_targets = batch.targets is not None
        if not self.read:
            self._keys, self._has_targets = list(batch.inputs), has_targets
        if (list(batch.inputs), has_targets) != (self._keys, self._has_targets):
            raise ValueError(
                f"`{self._argument}` must yield elements of one kind: with the same inputs, and all with "
                f"targets or none. Received after {self.read} samples: {list(batch.inputs)}, "
                f"{'with' if has_targets else 'without'} targets"
            )
        if batch.targets is not None:
            arrays.append(batch.targets)
        self.weighted = self.weighted or batch.weighted
        position = -(-self.read // self._stride) * self._stride
        while position < self.read + len(batch):
            # Copies, so that neither a whole batch stays alive nor a buffer that the generator fills again.
            self._rows.append([np.array(array[position - self.read]) for array in arrays])
            if len(self._rows) > self._most:
                del self._rows[1::2]
                self._stride *= 2
            position = (position // self._stride + 1) * self._stride
        self.read += len(batch)

    def stacked(self) -> tuple[Any, np.ndarray | None]:
        """Return the inputs in the form of the elements, and the targets."""
        columns = [self._stack(index) for index in range(len(self._rows[0]))]
        targets = columns.pop() if self._has_targets else None
        if self._keys == [None]:
            return columns[0], targets
        if self._keys == list(range(len(columns))):
            return columns, targets
        return dict(zip(self._keys, columns, strict=True)), targets

    def _stack(self, index: int) -> np.ndarray:
        rows = [row[index] for row in self._rows]
        shapes = sorted({row.shape for row in rows})
        if len(shapes) > 1:
            raise ValueError(
                f"`{self._argument}` must yield samples, and targets, of one shape. Received: {shapes[:5]}"
            )
        return np.stack(rows)
