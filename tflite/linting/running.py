"""`check`: every rule over a Keras model or a .tflite file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from typing import Literal

from keras_attention.tflite import foreign
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.linting import registry
from keras_attention.tflite.linting.finding import Finding

Target = Literal["edgetpu", "microcontroller"]
_MARK = b"TFL3"


def check(
    model_or_path: Any,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    target: Target | None = None,
) -> tuple[Finding, ...]:
    """Look for what goes wrong on a phone, before or after a conversion.

    Args:
        model_or_path: a built keras.Model, the path of a .keras file, which is loaded in safe mode, or the
            path of a .tflite file of any origin, which is read in a child process.
        select: codes or their beginnings, such as ["KA103", "KA2"]; only these are reported. Defaults to all.
        ignore: the same, for what is not reported.
        target: "edgetpu" or "microcontroller", for a .tflite file: its rules take the place of those about
            phones. Defaults to phones.

    Returns:
        The findings, in the order of their codes; empty where all is well.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: the file can't be read; the message says why.
        TypeError, ValueError: an argument is wrong, or the model has no weights yet.

    Example:
    ```python
    import keras
    from keras_attention import tflite

    steps = keras.Input((None, 3), name="steps")
    for finding in tflite.check(keras.Model(steps, keras.layers.LSTM(5)(steps))):
        print(finding.code, finding.where, finding.message, finding.cure)
    ```
    """
    codes = registry.chosen_codes(select, ignore)
    if target is not None:
        findings = _check_for(model_or_path, target)
    elif isinstance(model_or_path, str | Path):
        findings = _check_path(Path(model_or_path))
    else:
        findings = _check_model(model_or_path)
    return tuple(finding for finding in findings if finding.code in codes)


def _check_for(path: Any, target: str) -> list[Finding]:
    if target not in registry.TARGETS:
        raise ValueError(f"`target` must be None or one of {registry.TARGETS}. Received: {target!r}")
    if isinstance(path, str | Path):
        _require_file(Path(path))
    if not isinstance(path, str | Path) or not _is_tflite(Path(path)):
        raise ValueError(
            f"`target`={target!r} is for the path of a .tflite file: what runs there is decided by its "
            f"operators. Convert the model first. Received: "
            f"{str(path) if isinstance(path, str | Path) else type(path).__name__}"
        )
    return _check_file(Path(path), target)


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(
            f"`model_or_path` must be a .keras or .tflite file. No such file: {str(path)!r}"
        )


def _is_tflite(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(8)[4:] == _MARK or path.suffix == ".tflite"


def _check_path(path: Path) -> list[Finding]:
    _require_file(path)
    if _is_tflite(path):
        return _check_file(path)
    from keras_attention.tflite.loading import load_model

    model = load_model(path)
    try:
        return _check_model(model)
    except Exception as error:  # a model from a file may be odd in any way
        raise ConversionError(f"{str(path)!r} can't be checked. {error}") from error


def _check_model(model: Any) -> list[Finding]:
    """Import what needs Keras here: a .tflite file is checked without, at once."""
    import keras

    from keras_attention.tflite.linting import model_rules

    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model_or_path` must be a keras.Model, or the path of a .keras or .tflite file. "
            f"Received: {type(model).__module__}.{type(model).__name__}"
        )
    if not model.built:
        raise ValueError(
            f"Model {model.name!r} has no weights yet. Call it once on real data, or load its "
            "weights, before checking it."
        )
    return model_rules.check_model(model)


def _check_file(path: Path, target: str | None = None) -> list[Finding]:
    result = foreign.run_job(path, {"task": "check", "target": target}, "can't be checked")
    return [Finding(**finding) for finding in result["findings"]]
