"""What apps are told of a file: tensors, kinds, normalization and golden pairs; and what is refused."""

import json

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention import tflite
from keras_attention.tflite import golden
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import merging
from keras_attention.tflite.apps import normalizations
from keras_attention.tflite.apps.description import describe

FEATURES = ("ax", "ay", "wz")
MEAN, STD = [0.5, -1.0, 2.0], [2.0, 0.25, 1.0]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A window to classes and a map over its positions, int8 inside."""
    keras.utils.set_random_seed(3)
    window = keras.Input((11, 3), name="window")
    x = layers.Conv1D(5, 3, activation="relu", padding="same")(window)
    where = layers.Softmax(name="where")(layers.Reshape((11,))(layers.Dense(1)(x)))
    classes = layers.Dense(2, activation="softmax", name="classes")(layers.Flatten()(x))
    model = keras.Model(window, [classes, where])
    path = tmp_path_factory.mktemp("described") / "model.tflite"
    samples = np.random.default_rng(5).normal(size=(37, 11, 3)).astype("float32")
    said = {
        "labels": {"classes": ["rest", "walk"]},
        "features": list(FEATURES),
        "units": ["g", "g", "rad/s"],
        "attention": ["where"],
        "sampling_rate_hz": 20,
        "window_length": 11,
        "preprocessing": {"mean": MEAN, "std": STD},
    }
    tflite.convert(model, path, calibration=samples, manifest=said, verbose=0)
    return path


def test_what_is_known_of_a_file(file):
    found = describe(file)
    assert (found.file_name, found.precision, found.sampling_rate_hz, found.window_length) == (
        "model.tflite",
        "int8",
        20,
        11,
    )
    (signature,) = found.signatures
    (window,) = signature.inputs
    assert (window.name, window.dtype, window.shape, window.kind) == (
        "window",
        "float32",
        (1, 11, 3),
        "window",
    )
    assert (window.names, window.units) == (FEATURES, ("g", "g", "rad/s"))
    assert window.normalization == normalizations.Normalization(tuple(MEAN), tuple(STD))
    classes, where = signature.outputs
    assert (classes.kind, classes.names, classes.task) == ("classes", ("rest", "walk"), "classification")
    assert (where.kind, where.shape, where.index) == ("attention", (1, 11), 1)
    assert found.remarks == ()


def test_pairs_are_those_beside_the_file_with_what_may_differ(file):
    found = describe(file)
    document = manifests.read_sidecar(manifests.sidecar_path(file))
    assert len(found.pairs) == len(document["golden"]["pairs"]) == golden.MOST_PAIRS
    stored, keras_answers = (
        np.concatenate([getattr(pair, side)["classes"] for pair in found.pairs])
        for side in ("outputs", "keras")
    )
    noise = np.abs(stored - keras_answers).max()
    for pair in found.pairs:
        assert pair.inputs["window"].shape == (1, 11, 3)
        assert 2 * noise < pair.allowed["classes"] < 2 * noise + 2e-3


def test_without_the_manifest_beside_it(file, tmp_path):
    alone = tmp_path / "alone.tflite"
    alone.write_bytes(file.read_bytes())
    found = describe(alone)
    assert found.entries == describe(file).entries
    assert 0 < len(found.pairs) <= golden.MOST_PAIRS


def test_a_manifest_of_another_file_is_ignored_or_refused(file, tmp_path):
    other = tmp_path / "other.tflite"
    other.write_bytes(file.read_bytes())
    beside = manifests.sidecar_path(other)
    document = json.loads(manifests.sidecar_path(file).read_text())
    document["file"]["sha256"] = "0" * 64
    beside.write_text(json.dumps(document))
    assert "ignored" in describe(other).remarks[0]
    with pytest.raises(tflite.ConversionError, match="was written for another file"):
        describe(other, beside)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be a \.tflite file"):
        describe(tmp_path / "none.tflite")
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"TFL3" * 99)
    with pytest.raises(tflite.ConversionError, match="can't be described"):
        describe(broken)
    with pytest.raises(FileNotFoundError, match="`manifest` must be"):
        describe(broken, tmp_path / "none.manifest.json")


def test_what_the_manifest_says_is_of_the_first_signature(tmp_path):
    """Both signatures of the file have an input of one name."""
    keras.utils.set_random_seed(5)
    models = {}
    for key, size in (("first", 3), ("second", 5)):
        window = keras.Input((7, size), name="window")
        models[key] = keras.Model(window, layers.Dense(2, name="scores")(layers.Flatten()(window)))
    path = tmp_path / "two.tflite"
    said = {"preprocessing": {"mean": MEAN, "std": STD}, "features": list(FEATURES)}
    first = tflite.convert(models["first"], precision="float32", manifest=said, verbose=0)
    second = tflite.convert(models["second"], precision="float32", verbose=0)
    path.write_bytes(merging.merge({"first": first.content, "second": second.content}))
    ((one,), (other,)) = (signature.inputs for signature in describe(path).signatures)
    assert one.names == FEATURES and one.normalization is not None
    assert other.names == () and other.normalization is None


SHAPES = {"window": (1, 11, 3)}
TWO = {"window": (1, 11, 3), "age": (1, 1)}


@pytest.mark.parametrize(
    ("said", "shapes", "expected"),
    [
        (None, SHAPES, {}),
        ({"mean": 1, "std": 2.0}, SHAPES, {"window": ((1.0,) * 3, (2.0,) * 3)}),
        (
            {"mean": [[[1, 2, 3]]], "variance": [4, 9, 16]},
            SHAPES,
            {"window": ((1.0, 2.0, 3.0), (2.0, 3.0, 4.0))},
        ),
        ({"age": {"mean": 40, "std": 20}}, TWO, {"age": ((40.0,), (20.0,))}),
    ],
)
def test_normalizations(said, shapes, expected):
    found = normalizations.read(said, shapes)
    assert found.remarks == ()
    assert {name: (value.mean, value.std) for name, value in found.by_input.items()} == expected


@pytest.mark.parametrize(
    "said", ["divide by 255", {"mean": 1, "std": 2, "clip": 3}, {"steps": ["clip"]}, [1, 2]]
)
def test_what_is_no_normalization_is_left_to_the_app(said):
    found = normalizations.read(said, SHAPES)
    assert (
        found.by_input == {}
        and f"is left to the app, being no normalization by mean and std: {said}" in (found.remarks[0])
    )


@pytest.mark.parametrize(
    ("said", "shapes", "message"),
    [
        ({"mean": [1, 2], "std": 1}, SHAPES, r"'window', 'mean', must be a number or a list of 3"),
        ({"mean": True, "std": 1}, SHAPES, r"'mean', must be a number"),
        ({"mean": 0, "std": [1, 0, 1]}, SHAPES, r"divides by 0\. A std must be above 0"),
        ({"mean": 0, "variance": -1}, SHAPES, r"divides by 0"),
        ({"mean": 0, "std": 1}, TWO, r"must name the input that it normalizes, one of \['window', 'age'\]"),
    ],
)
def test_a_normalization_that_does_not_fit(said, shapes, message):
    with pytest.raises(ValueError, match=message):
        normalizations.read(said, shapes)
