"""A .keras file is looked through before Keras reads it: parts, sizes, HDF5, configuration."""

import io
import json
import warnings
import zipfile

import h5py
import keras
import numpy as np
import pytest
from keras import layers

from keras_attention.tflite import ConversionError
from keras_attention.tflite import keras_files
from keras_attention.tflite import load_model

WEIGHTS = "model.weights.h5"
ARRAY = "layers/dense/vars/0"


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The parts of a sound file."""
    path = tmp_path_factory.mktemp("sound") / "model.keras"
    inputs = keras.Input((7,), name="features")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
        keras.Model(inputs, layers.Dense(3, name="answer")(inputs)).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def refused(tmp_path):
    """A function: parts and words -> they are refused with those words."""
    path = tmp_path / "model.keras"

    def refuse(parts, words, kind=zipfile.ZIP_STORED):
        with zipfile.ZipFile(path, "w", kind) as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
        with pytest.raises(ValueError, match=words) as caught:
            keras_files.check(path)
        assert str(caught.value).endswith("Save the model again with model.save(...).")
        return path

    return refuse


def edited(parts, edit):
    """The parts with HDF5 that `edit` has changed."""
    stream = io.BytesIO(parts[WEIGHTS])
    with h5py.File(stream, "r+") as file:
        assert ARRAY in file
        edit(file)
    return {**parts, WEIGHTS: stream.getvalue()}


def replaced(make):
    def edit(file):
        del file[ARRAY]
        make(file)

    return edit


def test_sound_files(parts, tmp_path):
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = tmp_path / "model.keras"
        with zipfile.ZipFile(path, "w", kind) as archive:
            for name, data in {**parts, "assets/words.txt": b"a\nb"}.items():
                archive.writestr(name, data)
        keras_files.check(path)
        assert load_model(path).count_params() == 24


@pytest.mark.parametrize("name", ["config.json", "metadata.json", WEIGHTS])
def test_missing_parts(parts, refused, name):
    refused({key: data for key, data in parts.items() if key != name}, rf"missing.*|{name}")


@pytest.mark.parametrize("name", ["../outside", "/outside", "assets/../../outside", "a\\..\\outside"])
def test_paths_that_lead_out(parts, refused, name):
    refused({**parts, name: b"payload"}, "would be unpacked outside its folder")


def test_bombs(parts, refused):
    refused({**parts, "assets/big": bytes(70_000_000)}, "70,000,000 bytes, a zip bomb", zipfile.ZIP_DEFLATED)
    huge = edited(parts, replaced(lambda file: file.create_dataset(ARRAY, (10**12,), "f4", chunks=(1024,))))
    refused(huge, r"its arrays claim 4,000,000,000,0\d\d bytes")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: file.__setitem__(ARRAY, h5py.ExternalLink("/etc/hostname", "/")), "'0' is a link"),
        (lambda file: file.__setitem__(ARRAY, h5py.SoftLink("/" + ARRAY)), "'0' is a link"),
        (
            lambda file: file.create_dataset(ARRAY, (5,), "f4", external=[("/etc/hostname", 0, 20)]),
            "lies in another file",
        ),
    ],
    ids=["external link", "soft link", "external array"],
)
def test_weights_in_other_files(parts, refused, make, words):
    refused(edited(parts, replaced(make)), words)


def test_damaged_hdf5(parts, refused):
    refused({**parts, WEIGHTS: b"text" * 99}, r"'model\.weights\.h5', its weights in HDF5, is damaged \(")
    for size in (100, 1000, len(parts[WEIGHTS]) // 2):
        refused({**parts, WEIGHTS: parts[WEIGHTS][:size]}, "its weights in HDF5, is damaged")


@pytest.mark.parametrize("content", [b"", b"no json", b"[" * 100_000, b"3", b'{"config": 3}', b"\xff\xfe"])
def test_configurations_that_are_none(parts, refused, content):
    refused({**parts, "config.json": content}, r"'config\.json' (is no JSON|describes no model)")


@pytest.mark.parametrize("size", [10**9, 1e300, float("inf")])
def test_sizes_without_weights(parts, refused, size):
    config = json.loads(parts["config.json"])
    config["config"]["layers"][1]["config"]["units"] = size
    refused(
        {**parts, "config.json": json.dumps(config).encode()}, "layer 'answer' is to have the size units="
    )


def test_part_that_is_there_twice(parts, tmp_path):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
        archive.NameToInfo.pop("config.json")  # so that zipfile doesn't warn
        archive.writestr("config.json", b"{}")
    with pytest.raises(ValueError, match=r"the part 'config\.json' is in it twice"):
        keras_files.check(path)


def test_the_error_names_the_file(parts, refused):
    path = refused({**parts, WEIGHTS: b"text"}, "damaged")
    with pytest.raises(
        ConversionError, match=r"model\.keras' can't be loaded\. While reading the file: 'model"
    ):
        load_model(path)


def test_hdf5_files(tmp_path):
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        file["kernel"] = np.ones((7, 3))
    keras_files.check(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(
        ConversionError, match=r"model\.h5' can't be loaded\. .*the file, its weights in HDF5"
    ):
        load_model(path)
