"""The manifest: what goes in, what lies in the file and beside it, and what is refused when read."""

import base64
import copy
import hashlib
import json
import math
import tracemalloc
import zlib

import keras
import numpy as np
import pytest

from keras_attention.tflite import checks
from keras_attention.tflite import convert
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import inspect
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import manifest_entries
from keras_attention.tflite import runtime
from keras_attention.tflite.model_signature import read_signature

ENTRIES = {
    "version": "2.1",
    "labels": ("walk", "run", "stand"),
    "features": np.array(["ax", "ay", "az", "wx", "wy"]),
    "units": ["g", "g", "g", "rad/s", "rad/s"],
    "attention": ["classes"],
    "sampling_rate_hz": np.float32(50),
    "window_length": np.int64(11),
    "preprocessing": {"mean": np.arange(3.0), "steps": [{"clip": (None, np.int8(5))}], "on": np.True_},
    "description": "Exercises of a wrist, [bold]five[/bold] axes",
    "author": "Zoë",
    "license": "Apache-2.0",
}
PLAIN = {
    "labels": {"classes": ["walk", "run", "stand"]},
    "features": {"window": ["ax", "ay", "az", "wx", "wy"]},
    "units": {"window": ["g", "g", "g", "rad/s", "rad/s"]},
    "attention": ["classes"],
    "sampling_rate_hz": 50.0,
    "window_length": 11,
    "preprocessing": {"mean": [0.0, 1.0, 2.0], "steps": [{"clip": [None, 5]}], "on": True},
    "description": "Exercises of a wrist, [bold]five[/bold] axes",
    "author": "Zoë",
    "license": "Apache-2.0",
    "version": "2.1",
}


@pytest.fixture(scope="module")
def seal(case, float_file):
    """A function that seals the float32 file of "transformer" with its answers to some samples."""
    content = float_file("transformer")
    samples = case("transformer").evaluation
    keras_answers = case("transformer").model.predict(samples, verbose=0)
    file_answers = runtime.run_samples(content, {"window": samples})

    def make(entries=None, content=content, **changes):
        arguments = {
            "precision": "float32",
            "packages": {"keras": "3.15"},
            "tasks": ["classification"],
            "source": "evaluation",
            "samples": [samples],
            "keras_answers": [keras_answers],
            "file_answers": file_answers,
        }
        return manifests.seal(content, entries or {}, **{**arguments, **changes})

    make.content, make.samples, make.file_answers = content, samples, file_answers[0]
    return make


def embedded(content):
    return manifests.read_embedded(graphs.read_graph(content))


# --- what the user says


def test_entries_become_plain_json_in_one_order():
    entries = manifest_entries.check_entries(ENTRIES)
    assert list(entries) == [key for key in manifest_entries.ALLOWED if key in ENTRIES]
    assert entries["preprocessing"] == PLAIN["preprocessing"] and entries["labels"] == list(ENTRIES["labels"])
    assert json.loads(json.dumps(entries)) == entries
    assert type(entries["window_length"]) is int and type(entries["sampling_rate_hz"]) is float
    assert manifest_entries.check_entries(None) == {} == manifest_entries.check_entries({})


endless = []
endless.append(endless)
REFUSED = [
    (["labels"], TypeError, r"`manifest` must map keys .*Received: \['labels'\]"),
    ({"lables": []}, ValueError, r"none of \('labels', .*Received: 'lables'\. Rename it to 'labels'"),
    ({7: 1}, ValueError, r"Received: 7\. Put values of your own into 'preprocessing'"),
    ({"labels": "walk"}, TypeError, r"`manifest`\['labels'\] must be a list of texts, or map .*'walk'"),
    ({"labels": [1, 2]}, TypeError, r"\['labels'\] .*Received: \[1, 2\]\. Numbers become texts by"),
    ({"labels": []}, TypeError, r"\['labels'\] must be a list of texts"),
    ({"labels": {}}, TypeError, r"\['labels'\] must be a list of texts"),
    ({"features": {"window": ["ax", ""]}}, TypeError, r"\['features'\] .* name of an input .*'ax', ''"),
    ({"features": None}, TypeError, r"\['features'\] .*Received: None"),
    ({"sampling_rate_hz": "50"}, TypeError, r"\['sampling_rate_hz'\] must be a number above 0.*'50'"),
    ({"sampling_rate_hz": 0}, TypeError, r"must be a number above 0, samples per second\. Received: 0"),
    ({"sampling_rate_hz": True}, TypeError, r"must be a number above 0.*Received: True"),
    ({"sampling_rate_hz": math.nan}, ValueError, r"\['sampling_rate_hz'\] must be finite.*no nan"),
    ({"window_length": 11.0}, TypeError, r"\['window_length'\] must be an integer above 0.*Received: 11\.0"),
    ({"window_length": -3}, TypeError, r"must be an integer above 0.*Received: -3"),
    ({"description": ""}, TypeError, r"\['description'\] must be a text that is not empty\. Received: ''"),
    ({"version": 2}, TypeError, r"\['version'\] must be a text .*Received: 2"),
    ({"pixel_range": [0, 255, 1]}, TypeError, r"\['pixel_range'\] must be what an 8-bit picture's 0 and 255"),
    ({"pixel_range": [7, 7]}, TypeError, r"two numbers that differ, as in \[0, 1\].*Received: \[7, 7\]"),
    ({"pixel_range": {}}, TypeError, r"or map the name of an input to them\. Received: \{\}"),
    ({"pixel_range": {"x": [False, 1]}}, TypeError, r"\['pixel_range'\] must be .*\[False, 1\]"),
    ({"pixel_range": [0, math.inf]}, ValueError, r"\['pixel_range'\]\[1\] must be finite"),
    ({"preprocessing": {"std": np.array([1.0, np.inf])}}, ValueError, r"\['std'\]\[1\] must be finite"),
    ({"preprocessing": {"by": {1: 2}}}, TypeError, r"\['by'\] must have texts as keys\. Received: 1"),
    ({"preprocessing": [b"raw"]}, TypeError, r"\['preprocessing'\]\[0\] must be JSON.*Received: bytes"),
    ({"preprocessing": 1 + 2j}, TypeError, r"must be JSON: texts, numbers.*Received: complex"),
    ({"preprocessing": {"at": {1, 2}}}, TypeError, r"must be JSON.*Received: set"),
    ({"preprocessing": 2**63}, ValueError, r"must fit into 64 bits"),
    ({"preprocessing": endless}, ValueError, r"no deeper than 32 levels\. Is it part of itself"),
]


@pytest.mark.parametrize(("entries", "kind", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_refused_entries(entries, kind, message):
    with pytest.raises(kind, match=message):
        manifest_entries.check_entries(entries)


MISCOUNTED = [
    (
        "transformer",
        {"labels": ["a", "b"]},
        r"\['labels'\] must hold 3 names for output 'classes'.*: 2",
    ),
    ("transformer", {"labels": {"class": ["a"]}}, r"names no output .*\['classes'\]\. Received: 'class'"),
    (
        "transformer",
        {"features": list("abcdef")},
        r"\['features'\] must hold 5 names for input 'window'.*: 6",
    ),
    ("swapped", {"labels": list("abc")}, r"must map names to lists.*\['zeta', 'alpha'\].*Pass \{'zeta': "),
    ("swapped", {"labels": {"alpha": list("abc")}}, r"must hold 2 names for output 'alpha'"),
    ("swapped", {"features": {"apple": list("abc")}}, r"must hold 7 names for input 'apple'"),
]


@pytest.mark.parametrize(("name", "entries", "message"), MISCOUNTED)
def test_names_that_do_not_fit_the_model(case, float_file, name, entries, message):
    """Counted against the Keras model, and again against the finished file."""
    model, samples = case(name).model, case(name).calibration
    with pytest.raises(ValueError, match=message):
        checks.check_names(entries, read_signature(model, samples), model)
    with pytest.raises(ValueError, match=message):
        manifests.seal(
            float_file(name),
            entries,
            precision="float32",
            packages={},
            tasks=["regression"] * len(model.outputs),
            source="random",
            samples=[],
            keras_answers=[],
            file_answers=[],
        )


@pytest.mark.parametrize(
    ("value", "shapes", "expected"),
    [
        ([0, 255], {"age": [1, 3], "image": [1, 5, 7, 3]}, {"image": [0, 255]}),
        ({"right": [-1, 1]}, {"left": [1, 5, 7, 1], "right": [1, 5, 7, None]}, {"right": [-1, 1]}),
    ],
)
def test_pixel_ranges_that_fit(value, shapes, expected):
    kinds = ["float32"] * len(shapes)
    found = manifest_entries.name_axes({"pixel_range": value}, "pixel_range", shapes, kinds)
    assert found == {"pixel_range": expected}


@pytest.mark.parametrize(
    ("value", "shapes", "message"),
    [
        ([0, 1], {"left": [1, 5, 7, 1], "right": [1, 5, 7, 4]}, r"one image.*Images: \['left', 'right'\]"),
        ([0, 1], {"map": [1, 5, 7, 2]}, r"Images: \[\]\. Received: \[0, 1\]"),
        (
            {"map": [0, 1]},
            {"map": [1, 5, 3], "image": [1, 5, 7, 3]},
            r"Allowed: \['image'\]\. Received: 'map'",
        ),
    ],
)
def test_pixel_ranges_that_do_not_fit(value, shapes, message):
    with pytest.raises(ValueError, match=message):
        manifest_entries.name_axes({"pixel_range": value}, "pixel_range", shapes, ["float32"] * len(shapes))


def test_counts_that_fit():
    for names, shape, dtype in [
        (["no", "yes"], [1, 1], "float32"),
        (["degrees"], [1, 1], "float32"),
        (["no", "yes"], [1], "float32"),
        (list("abcdefg"), [1, 13], "int64"),
        (list("abc"), [1, 13, 3], "int8"),
    ]:
        found = manifest_entries.name_axes({"labels": names}, "labels", {"y": shape}, [dtype])
        assert found == {"labels": {"y": names}}


def test_convert_refuses_before_any_work(case, tmp_path):
    model = case("dense").model
    path = tmp_path / "model.tflite"
    for entries, message in [
        ({"labels": ["a"]}, "must hold 3 names for output 'answer'"),
        ({"x": 1}, "none of"),
        ({"preprocessing": {"mean": [0, 0], "std": 1}}, "'mean', must be a number or a list of"),
        ({"preprocessing": {"mean": 0, "std": 0}}, "divides by 0"),
        ({"pixel_range": [0, 1]}, "there is one image among the inputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            convert(model, path, precision="dynamic", manifest=entries, verbose=0)
    (tmp_path / "model.manifest.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"model\.manifest\.json"):
        convert(model, path, precision="dynamic", verbose=0)
    assert not path.exists()


# --- what lies in the file


@pytest.mark.slow
def test_convert_writes_both(case, tmp_path):
    """End to end, without samples: golden pairs are random ones, and say so."""
    path = tmp_path / "model.tflite"
    result = convert(case("transformer").model, path, precision="float32", manifest=ENTRIES, verbose=0)
    beside = json.loads((tmp_path / "model.manifest.json").read_text())
    inside = embedded(path.read_bytes())
    assert result.report.size_bytes == path.stat().st_size == beside["file"]["size_bytes"]
    assert beside.pop("file")["sha256"] == hashlib.sha256(result.content).hexdigest()
    assert inside["app"] == PLAIN and inside["packages"] == result.report.versions
    assert inside["golden"]["source"] == "random" and len(beside["golden"]["pairs"]) == 8
    assert {**inside, "golden": None} == {**beside, "golden": None}
    assert inside["inputs"] == [
        {"name": "window", "dtype": "float32", "shape": [1, 11, 5], "scale": None, "zero_point": None}
    ]
    assert [(spec["name"], spec["task"]) for spec in inside["outputs"]] == [("classes", "classification")]
    found = inspect(path)
    assert found.manifest == inside and found.delegate_partitions == 1 and found.fully_delegated


def test_pairs_are_the_samples(seal):
    pairs = embedded(seal().content)["golden"]["pairs"]
    assert [pair["sample"] for pair in pairs] == [0, 5, 10, 15, 20, 25, 30, 36]
    for pair in pairs:
        number = pair["sample"]
        window = np.frombuffer(zlib.decompress(base64.b64decode(pair["inputs"]["window"]["data"])), "<f4")
        np.testing.assert_array_equal(window.reshape(11, 5), seal.samples[number])
        answer = golden.decode_array(pair["file"]["classes"], "it", "float32", (1, 3))
        np.testing.assert_array_equal(answer[0], seal.file_answers[number])


def test_same_bytes_again(seal):
    entries = manifest_entries.check_entries(ENTRIES)
    shuffled = manifest_entries.check_entries(dict(reversed(ENTRIES.items())))
    first, second = seal(entries), seal(shuffled)
    assert first.content == second.content and first.sidecar() == second.sidecar()
    assert seal(content=first.content).content == seal().content, "the older manifest gave way"


def test_the_rest_of_the_file_is_as_before(seal):
    before, after = graphs.read_graph(seal.content), graphs.read_graph(seal().content)
    assert len(after.buffers) == len(before.buffers) + 1
    names = [entry.name for entry in before.metadata]
    assert b"min_runtime_version" in names
    assert [entry.name for entry in after.metadata] == [*names, manifests.ENTRY.encode()]
    for entry in before.metadata:
        name = entry.name.decode()
        assert graphs.metadata(before, name) == graphs.metadata(after, name) is not None
    answers = runtime.run_samples(seal().content, {"window": seal.samples})[0]
    np.testing.assert_array_equal(answers, seal.file_answers)
    assert runtime.partitions_and_operators(seal().content) == runtime.partitions_and_operators(seal.content)


def test_embedded_pairs_are_capped(seal):
    """Large samples: 8 kB or 5 % of the file, whichever is more; beside the file they are all."""
    generator = np.random.default_rng(20240601)
    large = [generator.normal(size=(37, 11, 5, 11)).astype(np.float32)]  # 2.4 kB each, random
    sealed = seal(samples=large)
    pairs = embedded(sealed.content)["golden"]["pairs"]
    sizes = [len(json.dumps(pair)) for pair in sealed.document["golden"]["pairs"]]
    assert 1 <= len(pairs) < 8 == len(sizes) and sealed.remarks == ()
    assert sum(sorted(sizes)[: len(pairs)]) <= 8_000 < sum(sorted(sizes)[: len(pairs) + 1])
    assert len(sealed.content) - len(seal.content) < 8_000 + 2_000
    graph = graphs.read_graph(seal.content)
    graphs.set_metadata(graph, "ballast", generator.bytes(10 * sum(sizes)))
    roomy = seal(content=graphs.write_graph(graph), samples=large)
    assert len(pairs) < len(embedded(roomy.content)["golden"]["pairs"]) < 8


def test_no_pair_fits(seal):
    sealed = seal(samples=[np.random.default_rng(7).normal(size=(5, 11, 5, 101)).astype(np.float32)])
    assert embedded(sealed.content)["golden"]["pairs"] == []
    assert len(sealed.document["golden"]["pairs"]) == 5
    (remark,) = sealed.remarks
    assert "more than 5% of the file" in remark and ".manifest.json" in remark


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_arrays_there_and_back(dtype):
    values = np.random.default_rng(3).normal(0, 50, (1, 7, 3)).astype(dtype)
    entry = json.loads(json.dumps(golden.encode_array(values)))
    back = golden.decode_array(entry, "it", dtype, (1, 7, 3))
    assert back.dtype == dtype and back.tobytes() == values.tobytes()


def test_quantized_interface_takes_steps():
    """Samples are stored as the file takes them, Keras' answers as real numbers."""
    spec = {"name": "x", "dtype": "int8", "shape": [1, 3], "scale": 0.5, "zero_point": -3}
    interface = {"inputs": [spec], "outputs": [spec]}
    values = np.array([[1.0, -0.5, 1000.0]], np.float32)
    (pair,) = golden.make_pairs(interface, [values], [values], [np.array([[1, 2, 3]], np.int8)])
    steps = [golden.decode_side(pair, side, [spec], [(1, 3)])[0] for side in golden.SIDES]
    assert steps[0].tolist() == [[-1, -4, 127]] and steps[2].tolist() == [[1, 2, 3]]
    assert steps[1].dtype == np.float32 and steps[1].tolist() == values.tolist()
    assert golden.real_values(steps[2], spec).tolist() == [[2.0, 2.5, 3.0]]
    near, far = np.array([[3, 2, 3]], np.int8), np.array([[4, 2, 3]], np.int8)
    exact = golden.real_values(steps[2], spec)
    assert golden.deviation(steps[2], near, exact, spec) == (2.0, 2.0)
    assert golden.deviation(steps[2], far, exact, spec) == (3.0, 2.0)


def test_how_far_answers_may_be():
    spec = {"scale": None}
    stored = np.array([[0.0, 2.0]], np.float32)
    difference, allowed = golden.deviation(stored, stored + np.float32(0.001), stored, spec)
    assert difference == pytest.approx(0.001, rel=1e-3) and allowed == pytest.approx(0.002, rel=0.02)
    assert golden.deviation(stored, stored, stored + 0.5, spec)[1] == pytest.approx(1.002, rel=1e-3)
    assert golden.deviation(stored, stored * np.nan, stored, spec)[0] == math.inf
    number = np.array([5])
    assert golden.deviation(number, number + 1, number, spec) == (1.0, 0.0), "class numbers are equal or not"


# --- what is refused when read


def hostile(change):
    def make(document):
        document = copy.deepcopy(document)
        change(document)
        return document

    return make


def put(value, *keys):
    def change(document):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return hostile(change)


def remove(*keys):
    def change(document):
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return hostile(change)


WRONG = [
    (put("other", "format"), "'format' must be 'keras_attention_manifest'"),
    (put(2, "format_version"), "'format_version' must be 1, received 2; a newer package"),
    (put(True, "format_version"), "'format_version' has the wrong type, a truth value"),
    (remove("precision"), "entry 'precision' is missing"),
    (put({}, "inputs"), "'inputs' has the wrong type, an object"),
    (put([3], "outputs"), "'outputs' has the wrong type, a number"),
    (put(["1"], "inputs", 0, "shape"), "'inputs', 'shape' has the wrong type, a text"),
    (put("0.1", "inputs", 0, "scale"), "'inputs', 'scale' has the wrong type, a text"),
    (put("ranking", "outputs", 0, "task"), "'task' must be classification"),
    (put({"run": "rm"}, "app"), "none of .*Received: 'run'"),
    (put({"labels": 3}, "app"), "must be a list of texts"),
    (put({"keras": 3}, "packages"), "'packages' has the wrong type, a number"),
    (put("made up", "golden", "source"), "'source' must be one of"),
    (put(None, "golden", "pairs"), "'pairs' has the wrong type, null"),
    (put([], "golden", "pairs", 0), "'pairs' has the wrong type, a list"),
    (remove("golden", "pairs", 0, "keras"), "entry 'keras' is missing"),
    (put(1.5, "golden", "pairs", 0, "inputs", "window", "shape", 0), "'shape' has the wrong type, a number"),
    (put(9, "golden", "pairs", 0, "file", "classes", "data"), "'data' has the wrong type, a number"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_documents(seal, change, message):
    data = json.dumps(change(embedded(seal().content))).encode()
    with pytest.raises(
        ValueError, match=rf"The manifest in the file is damaged, .*{message}.*Convert the mo"
    ):
        manifests.parse(data, "The manifest in the file")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe\x00", b"null", b"[" * 100_000, b'{"format": NaN}', b"9" * 5000, b"\x80\x04K\x01."],
    ids=["empty", "cut", "no_text", "null", "deep", "nan", "long_number", "pickle"],
)
def test_what_is_no_json_of_ours(data):
    with pytest.raises(ValueError, match=r"it is damaged, or not one of keras_attention\.tflite: "):
        manifests.parse(data, "it")


def test_mutated_documents(seal):
    data = json.dumps(embedded(seal(manifest_entries.check_entries(ENTRIES)).content)).encode()
    generator = np.random.default_rng(20240602)
    refused = 0
    for _ in range(500):
        damaged = np.frombuffer(data, np.uint8).copy()
        places = generator.integers(0, len(data), generator.integers(1, 9))
        damaged[places] = generator.integers(0, 256, len(places))
        try:
            for _, text in manifests.rows(manifests.parse(damaged.tobytes(), "it")):
                assert text.isprintable()
        except ValueError as error:
            assert str(error).startswith("it is damaged")
            refused += 1
    assert 50 < refused < 500


BOMB = base64.b64encode(zlib.compress(bytes(200_000_000), 9)).decode()
ARRAYS = [
    ({"dtype": "float64"}, r"it must be float32\[1, 7\] as in the file\. Received: float64\[1, 7\]"),
    ({"dtype": "object"}, "Received: object"),
    ({"shape": [1, 2**50]}, rf"Received: float32\[1, {2**50}\]"),
    ({"shape": [7]}, r"Received: float32\[7\]"),
    ({"data": BOMB}, "it is damaged: its data are not the 28 bytes of its shape"),
    ({"data": base64.b64encode(zlib.compress(bytes(27))).decode()}, "not the 28 bytes"),
    ({"data": base64.b64encode(zlib.compress(bytes(28)) + b"more").decode()}, "not the 28 bytes"),
    ({"data": base64.b64encode(zlib.compress(bytes(28))[:-3]).decode()}, "not the 28 bytes"),
    ({"data": "not base64!"}, "damaged, no zlib data in base64"),
    ({"data": "ÄÖ"}, "damaged, no zlib data in base64"),
    ({"data": base64.b64encode(bytes(28)).decode()}, "damaged, no zlib data in base64"),
    ({"data": base64.b64encode(zlib.compress(b"\xff" * 28)).decode()}, "NaN or infinite"),
]


@pytest.mark.parametrize(("change", "message"), ARRAYS, ids=[message[-30:] for _, message in ARRAYS])
def test_wrong_arrays(change, message):
    entry = {**golden.encode_array(np.ones((1, 7), np.float32)), **change}
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        golden.decode_array(entry, "it", "float32", (1, 7))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000, "nothing large is unpacked"


def test_terminal_sees_no_control_characters(seal):
    entries = {"author": "a\x1b[31m\u202e\ud800b", "preprocessing": {"\x9b": "[red]"}}
    texts = dict(manifests.rows(seal(entries).document))
    assert texts["author"] == "a?[31m??b" and texts["preprocessing"] == '{"?": "[red]"}'


def test_manifest_without_the_package(seal):
    """As docs/manifest.md shows it: the classes of the flatbuffer are enough."""
    from ai_edge_litert import schema_py_generated as schema

    content = seal({"author": "Zoë"}).content
    model = schema.Model.GetRootAs(content, 0)
    entries = {model.Metadata(i).Name(): model.Metadata(i).Buffer() for i in range(model.MetadataLength())}
    data = model.Buffers(entries[b"keras_attention_manifest"]).DataAsNumpy().tobytes()
    assert json.loads(data)["app"] == {"author": "Zoë"}
    assert keras.tree.flatten(json.loads(data)["inputs"][0]["shape"]) == [1, 11, 5]
