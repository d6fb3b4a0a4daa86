"""What the shape and the type of a tensor mean for the code around it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.apps.description import Tensor

MOST_NAMES = 4_000
_MOST_BYTES = 60_000
"""What a class of Java may take to set up its constants; its format has 64 kB for that."""
_TYPES = ("float32", "int8", "uint8", "int16", "int32", "uint32", "int64", "bool")
_QUANTIZED = ("int8", "uint8", "int16", "int32")


def check(tensor: Tensor) -> None:
    """Raise if there is no code for such a tensor."""
    if tensor.dtype not in _TYPES:
        raise ValueError(f"{tensor.name!r} is of type {tensor.dtype}; apps can be written for {_TYPES}.")
    if tensor.scale and tensor.dtype not in _QUANTIZED:
        raise ValueError(
            f"{tensor.name!r} has steps of type {tensor.dtype}; apps know those of {_QUANTIZED}."
        )
    if any(length < 1 for length in tensor.shape):
        raise ValueError(
            f"The shape of {tensor.name!r} is not fixed: {tensor.shape}. Convert with fixed lengths, as "
            "keras_attention.tflite.convert does."
        )
    if len(names(tensor)) > MOST_NAMES:
        raise ValueError(f"{tensor.name!r} has more than {MOST_NAMES} names, too many for one class.")
    if len(set(tensor.names)) < len(tensor.names):
        raise ValueError(
            f"Two entries of {tensor.name!r} have the same name, so an app can't tell them apart."
        )


def check_together(signatures: Sequence[Signature]) -> None:
    """Raise if the constants of all tensors are too many for one class, by what compilers make of them."""
    tensors = [tensor for signature in signatures for tensor in (*signature.inputs, *signature.outputs)]
    numbers = sum(2 * len(tensor.normalization.mean) for tensor in tensors if tensor.normalization)
    count = sum(len(names(tensor)) for tensor in tensors)
    if 60 * len(signatures) + 90 * len(tensors) + 9 * (count + numbers) > _MOST_BYTES:
        raise ValueError(
            f"{len(signatures)} signatures with {len(tensors)} tensors, {count} names of features and "
            f"labels, and {numbers} numbers of normalizations are too many for one class. Leave out labels "
            "or features in the manifest, or normalize within the model."
        )


def size(tensor: Tensor) -> int:
    """Return the number of entries."""
    return int(np.prod(tensor.shape, dtype=np.int64))


def is_float(tensor: Tensor) -> bool:
    """Whether its values are real numbers for the app: floats, or steps of a scale."""
    return tensor.dtype == "float32" or bool(tensor.scale)


def is_window(tensor: Tensor) -> bool:
    """Whether it is one window of real numbers, time by features."""
    return tensor.kind == "window" and is_float(tensor) and tensor.shape[0] == 1


def is_image(tensor: Tensor) -> bool:
    """Whether it is one image."""
    return tensor.kind == "image" and tensor.shape[0] == 1


def takes_pixels(tensor: Tensor) -> bool:
    """Whether it is one image that 8-bit pixels can fill: what 0 and 255 become is known."""
    return is_image(tensor) and tensor.pixel_range is not None


def is_classes(tensor: Tensor) -> bool:
    """Whether it is one score for each class."""
    entries = size(tensor)
    fits = entries == tensor.shape[-1] and (entries > 1 or bool(tensor.names))
    return tensor.kind == "classes" and is_float(tensor) and fits


def is_label(tensor: Tensor) -> bool:
    """Whether it is the number of one class."""
    return tensor.kind == "classes" and not is_float(tensor) and size(tensor) == 1


def is_pair_of_classes(tensor: Tensor) -> bool:
    """Whether one unit decides between two labels: the second from 0.5."""
    return is_classes(tensor) and size(tensor) == 1 and len(tensor.names) == 2


def names(tensor: Tensor) -> tuple[str, ...]:
    """Return the features or labels, numbers where a window or scores have none."""
    if tensor.names or not (is_window(tensor) or is_classes(tensor)):
        return () if is_image(tensor) else tensor.names
    return tuple(str(number) for number in range(tensor.shape[-1]))


def columns(tensor: Tensor, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return an input's values by feature; all under the empty name where they have none."""
    known = names(tensor)
    if not known:
        return {"": values.ravel()}
    return {name: values[..., place].ravel() for place, name in enumerate(known)}
