"""Golden pairs: inputs with the answers of Keras and of the file, as JSON values and back.

Pure NumPy. What is read may be hostile: nothing is decompressed beyond the size that the file's own
tensors have, and nothing is ever run.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_PAIRS = 8
RANGE_SHARE = 1e-3
"""Share of an output's range by which two machines may differ: their kernels round differently."""
ROUNDING = 1e-5
"""The same for rounding in float32, as a share of the largest value."""
SMALLEST = 1e-6
STEPS = 2
"""The same for quantized outputs, in steps."""
NOISE = 2.0
"""The same as a multiple of the file's largest error against Keras. Measured between XNNPACK and the
reference kernels on small int8 and dynamic files: up to 1.2 times."""
SIDES = ("inputs", "keras", "file")
_LEVEL = 9


def make_pairs(
    interface: Mapping[str, Sequence[Mapping[str, Any]]],
    samples: Sequence[np.ndarray],
    keras_answers: Sequence[np.ndarray],
    file_answers: Sequence[np.ndarray],
) -> list[dict[str, Any]]:
    """Return up to `MOST_PAIRS` pairs, spread evenly over the samples, always the same ones.

    A pair holds as many samples in a row as the file takes at a time: the same that were answered together,
    since kernels may round by place. Where there are too few, they begin again.

    Args:
        interface: as `graph.interface` returns it.
        samples: one array per input, in order, the first axis counting samples.
        keras_answers: one array per output, the same way.
        file_answers: the same of the file.
    """
    shape = interface["inputs"][0]["shape"]
    size = max(shape[0], 1) if shape else 1
    pairs = []
    for batch in _spread(max(len(samples[0]) // size, 1), MOST_PAIRS):
        number = batch * size
        numbers = np.arange(number, number + size) % len(samples[0])
        pair: dict[str, Any] = {"sample": number}
        for side, arrays in zip(SIDES, (samples, keras_answers, file_answers), strict=True):
            specs = interface["inputs" if side == "inputs" else "outputs"]
            pair[side] = {
                spec["name"]: encode_array(_stored(array[numbers], spec, side))
                for spec, array in zip(specs, arrays, strict=True)
            }
        pairs.append(pair)
    return pairs


def fitting(pairs: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return as many of the pairs as fit into so many bytes of JSON, evenly chosen."""
    for count in range(len(pairs), 0, -1):
        chosen = [pairs[index] for index in _spread(len(pairs), count)]
        if sum(len(json.dumps(pair)) for pair in chosen) <= limit:
            return chosen
    return []


def _spread(available: int, most: int) -> list[int]:
    return [int(index) for index in np.linspace(0, available - 1, min(available, most))]


def _stored(values: np.ndarray, spec: Mapping[str, Any], side: str) -> np.ndarray:
    """Return values in the type that is stored for the side."""
    dtype = np.dtype(_stored_type(spec, side))
    if spec["scale"] is not None and dtype.kind in "iu" and values.dtype.kind == "f":
        steps = np.round(values.astype(np.float64) / spec["scale"]) + spec["zero_point"]
        values = np.clip(steps, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.ascontiguousarray(values, dtype)


def _stored_type(spec: Mapping[str, Any], side: str) -> str:
    """Return the type of an array: Keras answers in float32 where the file answers in steps."""
    return "float32" if side == "keras" and spec["scale"] is not None else str(spec["dtype"])


def encode_array(values: np.ndarray) -> dict[str, Any]:
    """Return dtype, shape and the values: little-endian, zlib, base64."""
    little = values.astype(values.dtype.newbyteorder("<"))
    data = base64.b64encode(zlib.compress(little.tobytes(), _LEVEL)).decode()
    return {"dtype": values.dtype.name, "shape": list(values.shape), "data": data}


def decode_array(entry: Mapping[str, Any], where: str, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Return the array of an entry that must have this type and shape.

    Raises:
        ValueError: another type or shape, or data that are not that; `where` says which entry.
    """
    if (entry["dtype"], entry["shape"]) != (dtype, list(shape)):
        raise ValueError(
            f"{where} must be {dtype}{list(shape)} as in the file. Received: {entry['dtype']}{entry['shape']}"
        )
    kind = np.dtype(dtype).newbyteorder("<")
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(entry["data"], validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise ValueError(f"{where} is damaged, no zlib data in base64.") from error
    if len(data) != size or not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"{where} is damaged: its data are not the {size} bytes of its shape.")
    values = np.frombuffer(data, kind).reshape(tuple(shape)).astype(dtype)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{where} is damaged: it holds NaN or infinite values.")
    return values


def decode_side(
    pair: Mapping[str, Any], side: str, specs: Sequence[Mapping[str, Any]], shapes: Sequence[Sequence[int]]
) -> list[np.ndarray]:
    """Return one side of a pair ("inputs", "keras" or "file"), one array per tensor in the file's order.

    Raises:
        ValueError: an array is missing, or not of the file's type and shape.
    """
    arrays = []
    for spec, shape in zip(specs, shapes, strict=True):
        where = f"Golden pair of sample {pair['sample']}, {side}, {spec['name']!r}"
        if spec["name"] not in pair[side]:
            raise ValueError(f"{where} is missing.")
        arrays.append(decode_array(pair[side][spec["name"]], where, _stored_type(spec, side), shape))
    return arrays


def real_values(values: np.ndarray, spec: Mapping[str, Any]) -> np.ndarray:
    """Return answers of the file as real numbers: steps times scale where it is quantized."""
    if spec["scale"] is None or values.dtype.kind not in "iu":
        return values
    steps = values.astype(np.float64) - spec["zero_point"]
    return np.asarray(steps * spec["scale"], np.float32)


def deviation(
    stored: np.ndarray, answers: np.ndarray, keras_answers: np.ndarray, spec: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the largest difference between stored and replayed answers, and how much is allowed.

    Another processor's kernels round differently, and in a quantized file a value that falls on the
    other side of a step is an error as large as those that quantization makes anyway. So the file's
    own distance from Keras is the measure: twice its largest, besides a thousandth of the range (or two
    steps, where the output is quantized) and the rounding of float32. Class numbers must be equal.
    """
    known = stored.astype(np.float64)
    difference = np.abs(known - answers.astype(np.float64))
    largest = float(difference.max(initial=0.0)) if np.isfinite(difference).all() else float("inf")
    noise = NOISE * float(
        np.abs(real_values(stored, spec) - keras_answers.astype(np.float64)).max(initial=0.0)
    )
    if stored.dtype.kind != "f":
        return largest, 0.0 if spec["scale"] is None else STEPS + noise / abs(spec["scale"])
    magnitude = float(np.abs(known).max(initial=0.0))
    spread = float(np.ptp(known)) if known.size else 0.0
    return largest, RANGE_SHARE * spread + noise + ROUNDING * magnitude + SMALLEST
