"""Samples from a path: .npz, .npy, .csv, a folder of .csv files or of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_attention.tflite.data import csv_files
from keras_attention.tflite.data import image_files
from keras_attention.tflite.data.arrays import even_choice
from keras_attention.tflite.data.elements import Specs
from keras_attention.tflite.data.gathered import Gathered
from keras_attention.tflite.data.gathered import cut_remark
from keras_attention.tflite.data.gathered import most_samples
from keras_attention.tflite.data.iterables import collect
from keras_attention.tflite.model_signature import TensorSpec

TARGETS = "targets"
"""Name of the array in an .npz file that holds what the model should answer."""
_ALLOWED = "an .npz, .npy or .csv file, or a folder of .csv files or of images (.png, .jpg, .bmp, .webp)"
_SUFFIXES = (".csv", *image_files.SUFFIXES)


def read_path(argument: str, path: Path, specs: Specs) -> Gathered:
    """Return the samples of a file or a folder. docs/calibration.md says what each kind holds.

    Raises:
        FileNotFoundError: there is nothing at the path.
        TypeError, ValueError: it can't be read as samples of these inputs.
    """
    if not path.exists():
        raise FileNotFoundError(f"`{argument}` must be samples, or {_ALLOWED}. No such file: {str(path)!r}")
    if path.is_dir():
        return _read_folder(argument, path, specs)
    suffix = path.suffix.lower()
    if suffix in (".npz", ".npy"):
        return read_numpy(argument, path)
    if suffix != ".csv":
        raise ValueError(f"`{argument}` must be samples, or {_ALLOWED}. Received: {str(path)!r}")
    spec = _only_input(argument, path, specs)
    unfinished: list[Path] = []
    windows = csv_files.read_windows(argument, path, spec, unfinished)
    gathered = collect(argument, ([window] for window in windows), [spec])
    return Gathered(gathered.inputs, None, (*gathered.remarks, *_about_rows(argument, unfinished)))


def read_numpy(argument: str, path: Path) -> Gathered:
    """Return the arrays of an .npz or .npy file."""
    try:
        if path.suffix.lower() == ".npy":
            return Gathered(np.load(path, mmap_mode="r", allow_pickle=False))
        with path.open("rb") as stream:
            data = np.load(stream, allow_pickle=False)
            if not hasattr(data, "files"):
                raise ValueError("it holds a single array, so its name must end in .npy")
            arrays = {name: data[name] for name in data.files}
    except Exception as error:  # NumPy raises many kinds on damaged files
        reason = "it holds pickled objects" if "pickle" in str(error) else str(error)
        raise ValueError(
            f"`{argument}` must be a file as numpy.savez or numpy.save writes it. {str(path)!r} can't "
            f"be read: {reason}"
        ) from error
    targets = arrays.pop(TARGETS, None)
    if not arrays:
        raise ValueError(f"`{argument}`: {str(path)!r} holds no array of inputs.")
    return Gathered(arrays if len(arrays) > 1 else next(iter(arrays.values())), targets)


def _read_folder(argument: str, folder: Path, specs: Specs) -> Gathered:
    """Read the files of a folder, or of its subfolders, whose sorted order gives the targets."""
    files = _visible(folder, Path.is_file)
    classes = [child for child in _visible(folder, Path.is_dir) if _visible(child, _is_sample)]
    found = [(file, -1) for file in files if _is_sample(file)]
    if found and classes:
        raise ValueError(
            f"`{argument}`: {str(folder)!r} holds files ({found[0][0].name!r}) and subfolders with files "
            f"({classes[0].name!r}). Keep either files, or one subfolder for each class."
        )
    for label, child in enumerate(classes):
        found += [(file, label) for file in _visible(child, _is_sample)]
    kinds = {".csv" if file.suffix.lower() == ".csv" else "image" for file, _ in found}
    if len(kinds) != 1:
        received = "both" if found else f"{len(files)} other files"
        raise ValueError(
            f"`{argument}`: the folder {str(folder)!r} must hold .csv files or images, "
            f"{image_files.SUFFIXES}. Received: {received}"
        )
    spec = _only_input(argument, folder, specs)
    chosen = [found[position] for position in even_choice(len(found), most_samples(argument))]
    remarks: list[str] = []
    if len(chosen) < len(found):
        remarks.append(cut_remark(argument, len(chosen), len(found), "files"))
    if classes:
        names = ", ".join(f"{label} = {child.name}" for label, child in enumerate(classes))
        remarks.append(f"`{argument}`: targets are the subfolders in sorted order: {names}.")
    unfinished: list[Path] = []
    if kinds == {".csv"}:
        samples = csv_files.read_files(argument, chosen, spec, unfinished)
    else:
        samples = image_files.read_images(argument, chosen, spec)
        remarks += image_files.about_scale(argument, spec)
    gathered = collect(argument, samples, [spec])
    remarks += _about_rows(argument, unfinished)
    return Gathered(gathered.inputs, gathered.targets, (*gathered.remarks, *remarks))


def _about_rows(argument: str, unfinished: list[Path]) -> list[str]:
    if not unfinished:
        return []
    return [
        f"`{argument}`: the last rows of {len(unfinished)} files ({unfinished[0].name!r} first) fill no "
        "window and are not used."
    ]


def _visible(folder: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    return sorted(child for child in folder.iterdir() if not child.name.startswith(".") and wanted(child))


def _is_sample(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in _SUFFIXES


def _only_input(argument: str, path: Path, specs: Specs) -> TensorSpec:
    if specs is None:
        raise ValueError(
            f"`{argument}`: {str(path)!r} can't be cut into samples, since a subclassed model doesn't say "
            "the shape of its inputs. Pass arrays, or an .npz file."
        )
    if len(specs) != 1:
        raise ValueError(
            f"`{argument}`: {str(path)!r} can't be told apart into inputs {[s.name for s in specs]}. Pass "
            "a dict of arrays, or an .npz file with one array for each input, by name."
        )
    return specs[0]
