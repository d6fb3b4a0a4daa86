"""Reading a .keras file without running what is in it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import keras

from keras_attention.tflite import foreign
from keras_attention.tflite.errors import ConversionError

_SAVE_AGAIN = "Save the model again with model.save(...)."


def load_model(path: str | Path) -> keras.Model:
    """Load a .keras (or .h5) file in safe mode: code inside the file is never run.

    A child process looks through the file first, since a damaged one can end the process that reads it.

    Raises:
        FileNotFoundError: there is no such file.
        ConversionError: it can't be read; the message says why and what helps.
    """
    import keras_attention  # noqa: F401  registers the layers

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"`model` must be the path of a .keras file. No such file: {str(path)!r}")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        raise ConversionError(
            f"{str(path)!r} is no complete .keras file (its zip directory is missing): it was cut short or "
            f"is of another format. {_SAVE_AGAIN}"
        )
    foreign.run_job(path, {"task": "keras_file"}, "can't be loaded")
    try:
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Keras raises many kinds here; each becomes one with a cure
        raise ConversionError(f"{str(path)!r} can't be loaded: {_loading_cure(error)}") from error
    if not isinstance(model, keras.Model):
        raise ConversionError(
            f"{str(path)!r} holds a {type(model).__name__}, not a whole model. {_SAVE_AGAIN}"
        )
    return model


def _loading_cure(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    if "Lambda" in text or "lambda" in text:
        return (
            "it holds a Lambda layer, whose code would have to be run to load it. Replace the Lambda by a "
            "registered layer (keras.saving.register_keras_serializable) or by keras.ops, and save again; "
            "or load the model yourself if you trust the file, and pass the model instead of the path."
        )
    if "Could not locate" in text:
        return (
            f"{text}\nIf a layer is your own, register it with keras.saving.register_keras_serializable, "
            "import its module, and pass the loaded model instead of the path."
        )
    named = re.findall(
        r"<class '[\w.]*?(\w+)'> could not be|class '(\w+)' using config|(\w+)\.__init__\(\)", text
    )
    where = next((f"its {name}" for names in reversed(named) for name in names if name), "it")
    unknown = re.search(r"unexpected keyword argument '(\w+)'|Unrecognized keyword arguments.*?'(\w+)'", text)
    if unknown is not None:
        return (
            f"{where} has an argument {unknown[1] or unknown[2]!r}, which this version of Keras "
            f"({keras.__version__}) doesn't know. Load it with the version that saved it, and save it again."
        )
    reason = f" Keras said: {text}" if isinstance(_first_cause(error), ValueError | OSError) else ""
    return (
        f"{where} isn't configured as Keras {keras.__version__} wants it, or the weights don't fit: the file "
        f"is damaged, or of another version. {_SAVE_AGAIN}{reason}"
    )


def _first_cause(error: BaseException) -> BaseException:
    """Return what an error was raised from, at the very beginning."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return error
