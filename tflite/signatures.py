"""`convert_signatures`: several Keras models, which may share layers, in one file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_attention.tflite import arguments
from keras_attention.tflite import child
from keras_attention.tflite import files
from keras_attention.tflite import leftovers
from keras_attention.tflite import merging
from keras_attention.tflite.conversion import convert
from keras_attention.tflite.progress import StageProgress
from keras_attention.tflite.report import Report

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SignaturesConversion:
    """Several models converted, verified and put into one file.

    Attributes:
        content: bytes of the .tflite file.
        path: where it was written, or None.
        reports: signature -> what was measured; sizes in it are those of that model alone.
    """

    content: bytes
    path: Path | None
    reports: dict[str, Report]


def convert_signatures(
    models: Mapping[str, keras.Model | str | Path],
    path: str | Path | None = None,
    *,
    calibration: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    verbose: int = 1,
    **options: Any,
) -> SignaturesConversion:
    """Convert each model as `convert` does and write one file with a signature for each.

    Weights that are stored alike are stored once, as those of layers that the models share in "float32",
    "float16" and "dynamic". The merged file is run against the single ones, and each signature must answer
    equally.

    Args:
        models: signature such as "encode" or "step" -> model.
        path: the .tflite file to write, whole or not at all. Nothing is written when None.
        calibration: signature -> calibration samples of its model.
        evaluation: signature -> evaluation samples of its model.
        verbose: 1 shows progress and the report's table of each; 0 is silent.
        **options: further arguments of `convert`, the same for all models.

    Returns:
        The `SignaturesConversion`: content, path and a report per signature.

    Raises:
        TypeError, ValueError: `models` or data is wrong, or an argument of `convert`.
        ConversionError, FidelityError: as `convert` raises them for one of the models.
    """
    _check(models, {"calibration": calibration, "evaluation": evaluation})
    target = arguments.check_path(path, None)
    converted = {
        name: convert(
            model,
            calibration=(calibration or {}).get(name),
            evaluation=(evaluation or {}).get(name),
            verbose=verbose,
            **options,
        )
        for name, model in models.items()
    }
    content = merging.merge({name: one.content for name, one in converted.items()})
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        (folder / "merged.tflite").write_bytes(content)
        for number, one in enumerate(converted.values()):
            (folder / f"{number}.tflite").write_bytes(one.content)
        job = {"task": "signatures", "signatures": list(models)}
        child.run_job(folder, job, progress)
    if target is not None:
        files.write_whole(target, content)
    return SignaturesConversion(content, target, {name: one.report for name, one in converted.items()})


def _check(models: Any, data: Mapping[str, Any]) -> None:
    if not isinstance(models, Mapping) or not models:
        raise TypeError(
            "`models` must map signatures to models, as in {'encode': encoder, 'step': decoder}. "
            f"Received: {type(models).__name__}"
        )
    for name in models:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                "The signatures in `models` must be names of letters, digits and underscores. "
                f"Received: {name!r}"
            )
    for argument, values in data.items():
        if values is None:
            continue
        if not isinstance(values, Mapping) or not set(values) <= set(models):
            received = list(values) if isinstance(values, Mapping) else type(values).__name__
            raise ValueError(
                f"`{argument}` must map signatures of `models` to samples. Allowed: {list(models)}. "
                f"Received: {received}"
            )
