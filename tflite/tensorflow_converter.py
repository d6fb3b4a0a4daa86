"""TensorFlow's native converter, from a SavedModel to the float .tflite file.

It may end its process: outside of tests it is called in the child process only.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

ENDPOINT = "serve"
"""The one signature of the SavedModel."""
_UNNEEDED = ("jax", "keras")


def import_tensorflow() -> Any:
    """Import TensorFlow without Keras and JAX, unless they are there already.

    It imports both if it finds them, which takes as long as half of itself; the converter needs neither.
    """
    absent = [name for name in _UNNEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: not to be imported
    try:
        return importlib.import_module("tensorflow")
    finally:
        for name in absent:
            del sys.modules[name]


def convert_saved_model(folder: Path) -> bytes:
    """Return the bytes of the .tflite file, builtin operators only.

    Raises:
        Exception: whatever TensorFlow's converter raises; its text names the operators.
    """
    tf = import_tensorflow()
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=[ENDPOINT])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return bytes(converter.convert())
