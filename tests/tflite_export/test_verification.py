"""`verify`: passes on what was converted, fails on what was changed, and survives what is hostile."""

import json
import shutil

import click.testing
import numpy as np
import pytest

from keras_attention.tflite import ConversionError
from keras_attention.tflite import command_line
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import inspect
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import verify

FILES = [("transformer", "int8"), ("swapped", "float32"), ("tokens", "float16")]
EACH = pytest.mark.parametrize(("name", "precision"), FILES)


@pytest.fixture
def placed(converted, tmp_path):
    """A function: name and precision -> a copy of the converted file, and of its manifest if asked."""

    def place(name, precision, beside=False):
        source = converted(name, precision).path
        path = tmp_path / "model.tflite"
        shutil.copy(source, path)
        if beside:
            shutil.copy(manifests.sidecar_path(source), manifests.sidecar_path(path))
        return path

    return place


def change_weights(path):
    """Turn the sign of the largest stored tensor's values."""
    graph = graphs.read_graph(path.read_bytes())
    tensors = [t for t in graph.subgraphs[0].tensors if graphs.is_constant(graph, t)]
    tensors = [t for t in tensors if graphs.tensor_type(t) in ("float32", "float16", "int8")]
    largest = max(tensors, key=lambda t: len(graph.buffers[t.buffer].data))
    values = -graphs.constant_value(graph, largest)
    graph.buffers[largest.buffer].data = np.frombuffer(values.tobytes(), np.uint8)
    path.write_bytes(graphs.write_graph(graph))


def change_manifest(path, change):
    """Rewrite the manifest in the file."""
    graph = graphs.read_graph(path.read_bytes())
    document = manifests.read_embedded(graph)
    change(document)
    graphs.set_metadata(graph, manifests.ENTRY, json.dumps(document).encode())
    path.write_bytes(graphs.write_graph(graph))


def run(*arguments):
    return click.testing.CliRunner().invoke(command_line.main, [str(argument) for argument in arguments])


@EACH
def test_passes_as_converted(placed, converted, name, precision):
    path = placed(name, precision)
    report = converted(name, precision).result.report
    found = verify(str(path), num_threads=2)
    assert found.passed and found.faults == found.remarks == ()
    assert (found.path, found.origin, found.source) == (path, "the file", "evaluation")
    assert found.pairs == len(inspect(path).manifest["golden"]["pairs"]) >= 1
    assert [output.name for output in found.outputs] == [text.split(":")[0] for text in report.outputs]
    for output in found.outputs:
        assert output.difference == 0.0 < output.allowed, "the same machine"
        assert output.agreement == 1.0 and output.sqnr_db >= 20.0
    with_sidecar = verify(placed(name, precision, beside=True))
    assert with_sidecar.passed and with_sidecar.pairs == 8
    assert with_sidecar.origin.endswith("model.manifest.json")


@EACH
def test_fails_on_changed_weights(placed, name, precision):
    path = placed(name, precision, beside=True)
    change_weights(path)
    found = verify(path)
    assert not found.passed and found.origin == "the file"
    assert any(output.difference > output.allowed for output in found.outputs)
    assert "away from the stored answers, where" in found.faults[0]
    (remark,) = found.remarks
    assert "'model.manifest.json' belongs to another file (sha256 differs) and was ignored" in remark


def test_stale_manifest_that_was_asked_for(placed, converted):
    """A file of another model's manifest: the answers may even be right, and still it's a fault."""
    path = placed("swapped", "float32", beside=True)
    graph = graphs.read_graph(path.read_bytes())
    graphs.set_metadata(graph, "note", b"by hand")
    path.write_bytes(graphs.write_graph(graph))
    assert verify(path).passed and len(verify(path).remarks) == 1
    beside = manifests.sidecar_path(path)
    found = verify(path, manifest=beside)
    assert not found.passed and found.pairs == 8 and found.origin == str(beside)
    (fault,) = found.faults
    assert (
        fault
        == "the manifest 'model.manifest.json' was written for another file than this one (sha256 differs)"
    )
    other = manifests.sidecar_path(converted("transformer", "int8").path)
    with pytest.raises(ConversionError, match=r"model\.tflite' can't be verified.*is of another file"):
        verify(path, manifest=other)


def test_another_machine_may_round_differently(placed):
    """Half of the allowed difference passes, and more doesn't."""
    path = placed("transformer", "int8")
    allowed = verify(path).outputs[0].allowed
    for share, passes in ((0.5, True), (3.0, False)):

        def shift(document, share=share):
            for pair in document["golden"]["pairs"]:
                for side in ("file", "keras"):  # both, so that the distance between them stays
                    values = golden.decode_array(pair[side]["classes"], "it", "float32", (1, 3))
                    values = values + np.float32(share * allowed)
                    pair[side]["classes"] = golden.encode_array(values)

        copy = placed("transformer", "int8")
        change_manifest(copy, shift)
        assert verify(copy).passed == passes


HOSTILE = {
    "bomb": (("inputs", "data"), "eJztwTEBAAAAwqD1T20JT6AAAHgbCWAAAQ==", "damaged"),
    "huge": (("inputs", "shape"), [1, 2**40, 2**40], "must be float32"),
    "type": (("file", "dtype"), "object", r"must be float32.*Received: object"),
    "text": (("keras", "data"), "hello", "damaged, no zlib data in base64"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_arrays(placed, kind):
    (side, field), value, message = HOSTILE[kind]

    def change(document):
        for array in document["golden"]["pairs"][0][side].values():
            array[field] = value

    path = placed("transformer", "int8")
    change_manifest(path, change)
    with pytest.raises(ConversionError, match=rf"model\.tflite' can't be verified.*Golden pair.*{message}"):
        verify(path)


def test_hostile_documents(placed):
    path = placed("transformer", "int8")
    content = path.read_bytes()
    changes = {
        "is missing": lambda document: document["golden"]["pairs"][0]["file"].clear(),
        "holds no golden pairs": lambda document: document["golden"]["pairs"].clear(),
        "is of another file": lambda document: document["inputs"][0].update(shape=[1, 3]),
        "is damaged": lambda document: document.pop("golden"),
    }
    for message, change in changes.items():
        path.write_bytes(content)
        change_manifest(path, change)
        with pytest.raises(ConversionError, match=rf"can't be verified.*{message}"):
            verify(path)
    graph = graphs.read_graph(content)
    graphs.set_metadata(graph, manifests.ENTRY, b"[" * 99_999)
    path.write_bytes(graphs.write_graph(graph))
    for look in (verify, inspect):
        with pytest.raises(ConversionError, match=r"The manifest in the file is damaged"):
            look(path)


def test_damaged_manifest_beside_the_file(placed):
    path = placed("swapped", "float32", beside=True)
    manifests.sidecar_path(path).write_bytes(b"{}")
    with pytest.raises(
        ConversionError, match=r"The manifest 'model\.manifest\.json' is damaged.*'format' is"
    ):
        verify(path)


def test_file_without_manifest(float_file, tmp_path):
    path = tmp_path / "plain.tflite"
    path.write_bytes(float_file("swapped"))
    assert inspect(path).manifest is None
    with pytest.raises(ConversionError, match=r"holds no manifest .*Convert the model .*--manifest FILE"):
        verify(path)


def test_damaged_files(placed):
    path = placed("swapped", "float32")
    content = np.frombuffer(path.read_bytes(), np.uint8)
    generator = np.random.default_rng(20240603)
    refused = 0
    for number in range(11):
        damaged = content.copy()
        places = generator.integers(8, len(content) if number % 2 else 400, 1 + number % 5)
        damaged[places] ^= generator.integers(1, 256, len(places), dtype=np.uint8)
        path.write_bytes(damaged[: len(content) // 2].tobytes() if number == 0 else damaged.tobytes())
        try:
            verify(path).print()
        except ConversionError as error:
            assert "can't be verified" in str(error)
            refused += 1
    assert 0 < refused


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"num_threads": 0}, ValueError, r"`num_threads` must be an integer above 0\. Received: 0"),
        ({"num_threads": True}, ValueError, r"`num_threads` must be .*Received: True"),
        ({"manifest": "gone.json"}, FileNotFoundError, r"`manifest` must be .*No such file: 'gone\.json'"),
    ],
)
def test_refused_arguments(tmp_path, options, kind, message):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"")
    with pytest.raises(kind, match=message):
        verify(path, **options)
    with pytest.raises(FileNotFoundError, match=r"`path` must be a \.tflite file\. No such file"):
        verify(tmp_path / "gone.tflite")


def test_command(placed):
    path = placed("transformer", "int8", beside=True)
    result = run("verify", path, "--threads", 2)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "8 golden pairs (evaluation samples)" in text and "passed: " in text
    named = run("verify", path, "--manifest", manifests.sidecar_path(path))
    assert named.exit_code == 0
    change_weights(path)
    result = run("verify", path)
    assert result.exit_code == 1 and "differs: output 'classes' answers" in result.output
    assert "passed" not in result.output and "Traceback" not in result.output
    result = run("verify", path.with_name("gone.tflite"))
    assert result.exit_code == 1 and result.stderr.startswith("Error: ") and "No such file" in result.stderr
    assert run("verify", path, "--threads", 0).exit_code == 2


def test_inspect_shows_it(placed):
    shown = run("inspect", placed("transformer", "int8"))
    assert shown.exit_code == 0
    assert "golden pairs" in shown.output and "of evaluation samples" in shown.output
