"""What the page must know of its models, as JSON values."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite.apps.description import Description
from keras_attention.tflite.apps.description import GoldenPair
from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.apps.description import Tensor

DTYPES = (
    "bool",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint16",
    "uint32",
    "uint8",
)
"""Types that tensors.js knows."""
TEXTS = ("description", "author", "license", "version")


def model(name: str, description: Description, file: str) -> dict[str, Any]:
    """Return the page's entry of a model.

    Args:
        name: how the page calls it.
        description: of the .tflite file.
        file: its path in the page's folder.

    Raises:
        ValueError: the page can't run the file.
    """
    for signature in description.signatures:
        for tensor in (*signature.inputs, *signature.outputs):
            _check(tensor, description.file_name)
    return {
        "name": name,
        "file": file,
        "size_bytes": description.size_bytes,
        "precision": description.precision,
        "sampling_rate_hz": description.sampling_rate_hz,
        "texts": {key: description.entries[key] for key in TEXTS if key in description.entries},
        "remarks": list(description.remarks),
        "signatures": [
            _signature(signature, described=description.precision is not None)
            for signature in description.signatures
        ],
        "source": description.source,
        "pairs": [_pair(pair) for pair in description.pairs],
    }


def _check(tensor: Tensor, file_name: str) -> None:
    if tensor.dtype not in DTYPES:
        raise ValueError(
            f"The page can't run {file_name!r}: {tensor.name!r} has the type {tensor.dtype}. Known: {DTYPES}"
        )
    if min(tensor.shape, default=1) < 1:
        raise ValueError(
            f"The page can't run {file_name!r}: the shape of {tensor.name!r} isn't fixed. "
            f"Received: {tensor.shape}"
        )


def _signature(signature: Signature, *, described: bool) -> dict[str, Any]:
    return {
        "key": signature.key,
        "batch": _batch(signature, described=described),
        "inputs": [_tensor(tensor) for tensor in signature.inputs],
        "outputs": [_tensor(tensor) for tensor in signature.outputs],
    }


def _batch(signature: Signature, *, described: bool) -> int:
    """Return how many samples a signature takes at a time: the first axis, where all tensors have the same.

    A file of others may be a matrix of rows and columns, without an axis for samples.
    """
    tensors = (*signature.inputs, *signature.outputs)
    first = {tensor.shape[:1] for tensor in tensors}
    if len(first) != 1 or first == {()} or not (described or any(len(t.shape) > 2 for t in tensors)):
        return 1
    return tensors[0].shape[0]


def _tensor(tensor: Tensor) -> dict[str, Any]:
    scaling = tensor.normalization
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "task": tensor.task,
        "names": list(tensor.names),
        "units": list(tensor.units),
        "kind": tensor.kind,
        "normalization": None if scaling is None else {"mean": list(scaling.mean), "std": list(scaling.std)},
        "pixel_range": None if tensor.pixel_range is None else list(tensor.pixel_range),
        "below": tensor.below,
    }


def _pair(pair: GoldenPair) -> dict[str, Any]:
    return {
        "sample": pair.sample,
        "inputs": _arrays(pair.inputs),
        "outputs": _arrays(pair.outputs),
        "allowed": dict(pair.allowed),
    }


def _arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {
        name: base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
        for name, array in arrays.items()
    }
