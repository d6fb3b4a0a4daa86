"""Files of Keras 2 that hold layers of the packages `attention` and keras-self-attention."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_attention.migration import legacy_configs
from keras_attention.migration import legacy_moves
from keras_attention.migration import rewriting

PACKAGES = (
    "`SeqSelfAttention`, `SeqWeightedAttention` and `ScaledDotProductAttention` of keras-self-attention, or "
)
PACKAGES += "`Attention` of the package attention"


def load_legacy_model(
    path: str | os.PathLike[str],
    architecture: str | os.PathLike[str] | None = None,
    custom_objects: dict[str, Any] | None = None,
    safe_mode: bool = True,
) -> Any:
    """Read a model of Keras 2 whose attention layers come from `attention` or keras-self-attention.

    Neither the old package nor Keras 2 is needed. The result is a model of Keras 3 with the same weights and
    the same outputs, in which the layers of these two packages are layers of ours. `docs/migration.md` lists
    what becomes what, and what is refused.

    Args:
        path: an .h5, .hdf5 or .keras file that Keras 2 (or tf_keras) saved with `model.save`; or, with an
            `architecture`, one of `model.save_weights`.
        architecture: a file with the text of `model.to_json()`, for a file that only holds weights.
        custom_objects: other classes and functions of yours that the file names, for Keras 3.
        safe_mode: whether to refuse Lambda layers, whose code the file holds.

    Returns:
        A `keras.Model`, not compiled: the state of an optimizer is not carried over.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the path of a file. Received: path={path!r}")
    path = Path(path)
    if path.is_dir():
        raise ValueError(
            f"{str(path)!r} is a folder, such as a SavedModel, which holds no layers: load it where Keras 2 "
            "is installed, and write a file with `model.save('model.h5')`."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    with tempfile.TemporaryDirectory() as folder:
        objects = {**legacy_configs.OBJECTS, **(custom_objects or {})}
        model = _read(path, architecture, Path(folder), objects, safe_mode)
        with keras.saving.custom_object_scope(custom_objects or {}):
            return rewriting.replace_layers(model, legacy_moves.find)


def _read(
    path: Path,
    architecture: str | os.PathLike[str] | None,
    folder: Path,
    objects: dict[str, Any],
    safe_mode: bool,
) -> Any:
    """The model with stand-ins for the old layers, which know their options and weights."""
    if architecture is not None:
        config = _config(Path(architecture).read_bytes(), Path(architecture), objects)
        copy: Path | None = None
    elif zipfile.is_zipfile(path):
        config, copy = _copy_archive(path, folder, objects)
    elif h5py.is_hdf5(path):
        config, copy = _copy_hdf5(path, folder, objects)
    else:
        raise ValueError(
            f"{str(path)!r} is neither an .h5 nor a .keras file; write one with `model.save('model.h5')` "
            "where Keras 2 is installed. A checkpoint of TensorFlow holds no layers."
        )
    try:
        if copy is None:
            model = _from_json(config, objects)
            model.load_weights(_with_ending(path, folder))
        else:
            model = keras.saving.load_model(copy, objects, compile=False, safe_mode=safe_mode)
    except Exception as error:
        reason = str(error).rsplit("Exception encountered: ", 1)[-1].splitlines()[0]
        raise ValueError(
            f"Keras {keras.version()} cannot read the other layers of {path.name!r}; pass classes and "
            f"functions of your own as `custom_objects`. {reason}"
        ) from error
    _check_order(config, model, path)
    return model


def _config(text: str | bytes, path: Path, known: Collection[str]) -> dict[str, Any]:
    """The config of a model from JSON, with the old layers renamed."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} holds no config of a model: it is damaged. {error}") from error
    if legacy_configs.rewrite(config, known) == 0:
        raise ValueError(f"{path.name!r} holds no {PACKAGES}; `keras.saving.load_model` reads other models.")
    return dict(config)


def _copy_hdf5(path: Path, folder: Path, known: Collection[str]) -> tuple[dict[str, Any], Path]:
    """A copy of an .h5 file with the renamed config."""
    copy = folder / "model.h5"
    copy.write_bytes(path.read_bytes())
    try:
        with h5py.File(copy, "r+") as file:
            text = file.attrs.get("model_config")
            if text is not None:
                config = _config(text, path, known)
                file.attrs["model_config"] = json.dumps(config)
    except OSError as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}") from error
    if text is None:
        raise ValueError(
            f"{path.name!r} holds weights and no model: save the text of `model.to_json()` where Keras 2 is "
            "installed, and pass its file as `architecture`."
        )
    return config, copy


def _copy_archive(path: Path, folder: Path, known: Collection[str]) -> tuple[dict[str, Any], Path]:
    """A copy of a .keras file with the renamed config."""
    copy = folder / "model.keras"
    try:
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
            config = _config(source.read("config.json"), path, known)
            for name in source.namelist():
                target.writestr(name, json.dumps(config) if name == "config.json" else source.read(name))
    except KeyError as error:
        raise ValueError(f"{str(path)!r} is no file of `model.save`: {error}") from error
    except zipfile.BadZipFile as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}") from error
    return config, copy


def _from_json(config: dict[str, Any], objects: dict[str, Any]) -> Any:
    is_sequential = config["class_name"] == "Sequential"
    whole = {**config, "module": "keras", "registered_name": None}
    text = json.dumps(whole if is_sequential else {**whole, **legacy_configs.FUNCTIONAL})
    return keras.models.model_from_json(text, custom_objects=objects)


def _with_ending(path: Path, folder: Path) -> Path:
    """Keras tells the two formats of weights by the ending of the name."""
    with h5py.File(path) as file:
        ending = ".h5" if "layer_names" in file.attrs else ".weights.h5"
    if path.name.endswith(ending) and (ending == ".weights.h5" or not path.name.endswith(".weights.h5")):
        return path
    copy = folder / f"copy{ending}"
    copy.write_bytes(path.read_bytes())
    return copy


def _check_order(config: dict[str, Any], model: Any, path: Path) -> None:
    """Weights are read in the order of the layers, which must be that of the file."""
    expected, found = legacy_configs.layer_names(config), legacy_configs.layer_names(_as_config(model))
    expected = [name for name in expected if name in set(found)]
    found = [name for name in found if name in set(expected)]
    if expected != found:
        raise ValueError(
            f"Keras {keras.version()} orders the layers of {path.name!r} otherwise than Keras 2 did, which "
            f"would mix up their weights. Expected: {expected}. Received: {found}"
        )


def _as_config(model: Any) -> dict[str, Any]:
    """The part of a model's config that `layer_names` looks at."""
    parts = model.layers if rewriting.is_graph(model) else []
    return {"config": {"name": model.name, "layers": [_as_config(part) for part in parts]}}
