"""What a program around a .tflite file must know of it, as `describing.describe` finds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import normalizations


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a file.

    Attributes:
        name: as in the signature.
        index: place among the signature's inputs or outputs.
        dtype: such as "float32" or "int8".
        shape: with the batch axis.
        scale: real value = scale * (stored - zero_point); None where not quantized.
        zero_point: the same.
        task: of an output: "classification", "regression" or "labels"; None where the file doesn't say.
        names: of the last axis' entries: features of an input, labels of an output; may be empty. One unit
            that decides between two classes has two, the first for below 0.5.
        units: of the features, such as "g" or "rad/s"; may be empty.
        kind: an input is an "image", a "window", "tokens" or other "values"; an output "classes" (scores of
            classes, or the class number), "attention" or other "values".
        normalization: what the app does to raw values before this input; None where nothing.
        pixel_range: of an image: what an 8-bit picture's 0 and 255 become, before the normalization; None
            where nobody says so, and for other inputs.
        below: of an input whose numbers choose rows of a table, as tokens do: 0 <= number < below; None where
            the graph doesn't show it, and for outputs.
    """

    name: str
    index: int
    dtype: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None
    task: str | None
    names: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    normalization: normalizations.Normalization | None = None
    pixel_range: tuple[float, float] | None = None
    below: int | None = None


@dataclass(frozen=True)
class Signature:
    """One way to call a file.

    Attributes:
        key: its name, such as "serve"; empty where the file has none.
        inputs: in the file's order.
        outputs: the same.
    """

    key: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class GoldenPair:
    """An input of the first signature with the answers to it.

    Attributes:
        sample: its number among the samples.
        inputs: input name -> stored values, batch axis included.
        outputs: output name -> the file's answer, in stored values.
        keras: output name -> Keras' answer, real values.
        allowed: output name -> by how much an answer of another processor may differ, in stored values.
    """

    sample: int
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    keras: dict[str, np.ndarray]
    allowed: dict[str, float]


@dataclass(frozen=True)
class Description:
    """A .tflite file as a program around it needs it.

    Attributes:
        path: the file.
        size_bytes: its size.
        sha256: of its bytes, hexadecimal.
        precision: as given to `convert`; None for a file without manifest.
        signatures: at least one.
        entries: what the manifest says to the app; empty without.
        pairs: golden pairs; may be none.
        source: whose samples they are: "evaluation", "calibration", or "random"; None without a manifest.
        remarks: what the user should know, one sentence each.
    """

    path: Path
    size_bytes: int
    sha256: str
    precision: str | None
    signatures: tuple[Signature, ...]
    entries: dict[str, Any]
    pairs: tuple[GoldenPair, ...]
    source: str | None
    remarks: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Name of the file, without folders."""
        return self.path.name

    @property
    def sampling_rate_hz(self) -> float | None:
        """Samples per second of a window, where the manifest says so."""
        return self.entries.get("sampling_rate_hz")

    @property
    def window_length(self) -> int | None:
        """Samples per window, where the manifest says so."""
        return self.entries.get("window_length")
