"""What apps are told of a file: tensors, kinds, normalization and golden pairs; and what is refused."""

import json

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from keras import layers
from tiny_graphs import TinyGraph

from keras_attention import tflite
from keras_attention.tflite import golden
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import merging
from keras_attention.tflite import normalizations
from keras_attention.tflite.apps import describing as reading
from keras_attention.tflite.apps.describing import describe
from keras_attention.tflite.jobs import describe as describing

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
    assert (window.pixel_range, window.below, found.source) == (None, None, "calibration")
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


def described(folder, shape, said, kind="float32", scale=None, units=3, sigmoid=False, task="classification"):
    """A file of one input and one output with this manifest."""
    tiny = TinyGraph()
    given = tiny.input(1, *shape, kind=kind)
    if scale is not None:
        tiny.quantized(given, *scale)
        tiny.subgraph.tensors[given].type = getattr(schema.TensorType, kind.upper())
    if kind == "int32":
        table = tiny.constant(np.ones((53, 1), "float32"))
        given = tiny.op("GATHER", table, given, shape=(1, *shape, 1), table="Gather")
    elif kind != "float32":
        operator = "CAST" if scale is None else "DEQUANTIZE"
        given = tiny.op(operator, given, shape=(1, *shape))
    size = int(np.prod(shape))
    flat = tiny.op("RESHAPE", given, tiny.constant([1, size]), shape=(1, size))
    kernel = tiny.constant(np.ones((units, size), "float32"))
    bias = tiny.constant(np.zeros(units, "float32"))
    scores = tiny.op("FULLY_CONNECTED", flat, kernel, bias, shape=(1, units))
    content = tiny.finish(tiny.op("LOGISTIC", scores, shape=(1, units)) if sigmoid else scores)
    sealed = manifests.seal(
        content,
        said,
        precision="float32",
        packages={},
        tasks=[task],
        source="random",
        samples=[np.zeros((5, *shape), kind)],
        keras_answers=[np.zeros((5, units), "float32")],
        file_answers=[np.zeros((5, units), "float32")],
    )
    path = folder / "model.tflite"
    path.write_bytes(sealed.content)
    job = {"file": str(path), "manifest": None, "asked_for": False}
    found = reading._description(path, describing.run(folder, job, lambda *_: None))
    assert found.source == "random"
    is_known = found.signatures[0].inputs[0].pixel_range is not None or len(shape) < 3 or shape[-1] == 2
    assert is_known == (not any("Say it by 'pixel_range'" in remark for remark in found.remarks))
    ((given,), (answer,)) = found.signatures[0].inputs, found.signatures[0].outputs
    return given, answer


@pytest.mark.parametrize(
    ("shape", "kind", "scale", "said", "expected"),
    [
        ((5, 7, 3), "float32", None, {"pixel_range": [-1, 1]}, (-1.0, 1.0)),
        ((5, 7, 3), "float32", None, {"pixel_range": {"i0": [0, 16]}}, (0.0, 16.0)),
        ((5, 7, 1), "float32", None, {}, None),
        ((5, 7, 1), "uint8", None, {}, (0.0, 255.0)),
        ((5, 7, 1), "uint8", (1.0, 0), {}, (0.0, 255.0)),
        ((5, 7, 1), "uint8", (1 / 128, 128), {}, None),
        ((5, 7, 1), "uint8", None, {"pixel_range": [0, 16]}, (0.0, 16.0)),
        ((5, 7, 2), "uint8", None, {}, None),
        ((7, 3), "float32", None, {}, None),
    ],
)
def test_the_range_of_pixels(tmp_path, shape, kind, scale, said, expected):
    given, _ = described(tmp_path, shape, said, kind, scale)
    assert given.pixel_range == expected
    assert given.kind == (
        "image" if shape[-1] != 2 and len(shape) == 3 else "values" if len(shape) == 3 else "window"
    )


def test_tokens_have_a_limit(tmp_path):
    given, _ = described(tmp_path, (7,), {}, "int32")
    assert (given.kind, given.below) == ("tokens", 53)


@pytest.mark.parametrize(
    ("units", "task", "sigmoid", "labels", "kind", "names"),
    [
        (3, "classification", False, "abc", "classes", ("a", "b", "c")),
        (3, "classification", False, "", "classes", ()),
        (3, "regression", False, "abc", "values", ("a", "b", "c")),
        (1, "regression", False, "", "values", ()),
        (1, "regression", False, "a", "values", ("a",)),
        (1, "regression", True, "a", "classes", ("not a", "a")),
        (1, "regression", True, "ab", "classes", ("a", "b")),
        (1, "regression", False, "ab", "classes", ("a", "b")),
        (1, "classification", True, "a", "classes", ("not a", "a")),
    ],
)
def test_when_names_are_classes(tmp_path, units, task, sigmoid, labels, kind, names):
    said = {"labels": list(labels)} if labels else {}
    _, answer = described(tmp_path, (7,), said, units=units, sigmoid=sigmoid, task=task)
    assert (answer.kind, answer.names) == (kind, names)


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
