"""The optional packages of this part, and what to do where one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from keras_attention.tflite.errors import ConversionError

_EXTRAS = {"tf2onnx": "onnx", "onnx": "onnx", "onnxruntime": "onnx", "openvino": "openvino"}


def check_installed(*names: str) -> None:
    """Raise before any work where a package can't be found.

    Raises:
        ConversionError: with the command that installs it.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ConversionError(_cure(missing[0], "is not installed"))


def load(name: str) -> Any:
    """Import an optional package.

    Raises:
        ConversionError: it is missing, or doesn't work here.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConversionError(_cure(name.split(".")[0], f"can't be imported ({error})")) from error


def _cure(name: str, what: str) -> str:
    return f'The package {name!r} {what}. Run: pip install "keras-attention-tflite[{_EXTRAS[name]}]"'
