"""The golden asset: what the file is and the golden pairs, by name, for the check at an app's start.

The code that it checks has orders and scales of its own; here everything is found by names, and raw values
stand before normalization and quantization, so that the whole way of the app is compared.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from keras_attention.tflite.apps.android import arithmetic
from keras_attention.tflite.apps.android import resampling
from keras_attention.tflite.apps.android import shapes
from keras_attention.tflite.apps.description import Description
from keras_attention.tflite.apps.description import GoldenPair
from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.apps.description import Tensor

_MAGIC = 0x4B414746
_VERSION = 2
MOST_BYTES = 512_000
"""More golden pairs than fit are left out: an asset is part of what each user downloads."""


def content(description: Description) -> tuple[bytes, int]:
    """Return the bytes of the asset, and how many pairs are in it."""
    signature = description.signatures[0]
    head = [struct.pack(">II", _MAGIC, _VERSION), _text(description.sha256)]
    head.append(struct.pack(">d", float(description.sampling_rate_hz or 0.0)))
    head.append(struct.pack(">i", int(description.window_length or 0)))
    for tensors in (signature.inputs, signature.outputs):
        head.append(struct.pack(">i", len(tensors)))
        head += [_tensor(tensor) for tensor in tensors]
    head += _arithmetic(description.signatures)
    kept = list(description.pairs)
    pairs = [_pair(pair, signature.inputs, signature.outputs) for pair in kept]
    room = MOST_BYTES - sum(map(len, head))
    while sum(map(len, pairs)) > room and len(pairs) > 1:
        places = [int(place) for place in np.linspace(0, len(pairs) - 1, len(pairs) - 1)]
        pairs, kept = [pairs[place] for place in places], [kept[place] for place in places]
    tail = _series(kept, signature.inputs, description.sampling_rate_hz)
    return b"".join([*head, struct.pack(">i", len(pairs)), *pairs, *tail]), len(pairs)


def _arithmetic(signatures: Sequence[Signature]) -> list[bytes]:
    """Return for each input its place, raw values or pixels, and what the file must get for them."""
    parts = []
    for number, signature in enumerate(signatures):
        for tensor in signature.inputs:
            if shapes.is_float(tensor):
                raw, stored = arithmetic.rows(tensor)
                parts.append(struct.pack(">ii?", number, tensor.index, False))
                parts += [_numbers(raw), _numbers(stored)]
            if shapes.takes_pixels(tensor):
                raw, stored = arithmetic.pixels(tensor)
                parts.append(struct.pack(">ii?", number, tensor.index, True))
                parts += [_numbers(raw), _numbers(stored)]
    return [struct.pack(">i", len(parts) // 3), *parts]


def _series(pairs: Sequence[GoldenPair], inputs: Sequence[Tensor], rate: float | None) -> list[bytes]:
    """Return for each window input what an app must cut from the rows of the first golden pairs."""
    if rate is None or not pairs:
        return [struct.pack(">i", 0)]
    parts = []
    for tensor in filter(shapes.is_window, inputs):
        rows = [raw_values(pair.inputs[tensor.name], tensor)[0] for pair in pairs[: resampling.MOST_PAIRS]]
        known = resampling.series(np.concatenate(rows), shapes.names(tensor), tensor.shape[1], rate)
        windows = [struct.pack(">qq", *window) for window in zip(known.times, known.sums, strict=True)]
        head = struct.pack(">iii", known.hop, len(rows), len(windows))
        parts.append(b"".join([_text(tensor.name), head, *windows]))
    return [struct.pack(">i", len(parts)), *parts]


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "replace")
    return struct.pack(">i", len(encoded)) + encoded


def _numbers(values: np.ndarray) -> bytes:
    return struct.pack(">i", values.size) + np.ascontiguousarray(values, ">f8").tobytes()


def _tensor(tensor: Tensor) -> bytes:
    names = shapes.names(tensor)
    return b"".join(
        [
            _text(tensor.name),
            _text(tensor.dtype),
            struct.pack(f">{len(tensor.shape) + 1}i", len(tensor.shape), *tensor.shape),
            struct.pack(">di", tensor.scale or 0.0, tensor.zero_point or 0),
            struct.pack(">ddi", *(tensor.pixel_range or (0.0, 0.0)), tensor.below or 0),
            struct.pack(">i", len(names)),
            *map(_text, names),
        ]
    )


def _pair(pair: GoldenPair, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bytes:
    parts = [struct.pack(">i", pair.sample)]
    for tensor in inputs:
        raw = raw_values(pair.inputs[tensor.name], tensor)
        columns = sorted(shapes.columns(tensor, raw).items())
        parts.append(struct.pack(">i", len(columns)))
        for name, values in columns:
            parts += [_text(name), _numbers(values)]
        parts.append(struct.pack(">?", arithmetic.as_bytes(tensor, pair.inputs[tensor.name], raw)))
    for tensor in outputs:
        stored = pair.outputs[tensor.name]
        real = real_values(stored, tensor)
        if shapes.is_pair_of_classes(tensor):
            real = np.concatenate([np.float32(1) - real.ravel(), real.ravel()])
        scale = tensor.scale or 1.0
        parts += [struct.pack(">d", pair.allowed[tensor.name] * scale), _numbers(real)]
    return b"".join(parts)


def real_values(stored: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return stored values as the app's code makes real numbers of them."""
    if not tensor.scale:
        return stored
    return np.asarray((stored.astype(np.float64) - (tensor.zero_point or 0)) * tensor.scale, np.float32)


def raw_values(stored: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return values that the app's normalization and quantization turn into the stored ones."""
    real = real_values(stored, tensor)
    if tensor.normalization is None:
        return real
    scaled = real.astype(np.float64) * np.asarray(tensor.normalization.std)
    return np.asarray(scaled + np.asarray(tensor.normalization.mean), np.float32)
