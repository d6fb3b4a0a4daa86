"""`keras-attention export`: what it writes, and what it refuses before any work."""

import json
import warnings

import click.testing
import keras
import pytest

from keras_attention.tflite import command_line

onnxruntime = pytest.importorskip("onnxruntime", reason='pip install "keras-attention-tflite[onnx]"')


@pytest.fixture
def run():
    runner = click.testing.CliRunner()
    return lambda *arguments: runner.invoke(command_line.main, ["export", *map(str, arguments)])


@pytest.fixture
def model(tmp_path):
    inputs = keras.Input((3,), name="x")
    path = tmp_path / "my größe.keras"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
        keras.Model(inputs, keras.layers.Dense(2, activation="softmax", name="y")(inputs)).save(path)
    return path


def test_all_that_a_server_needs(run, model, tmp_path):
    manifest = tmp_path / "app.json"
    manifest.write_text(json.dumps({"labels": ["gut", "schlecht ü"]}), "utf-8")
    file, repository = tmp_path / "m.onnx", tmp_path / "repository"
    result = run(model, "--onnx", file, "--triton", repository, "--manifest", manifest)
    assert result.exit_code == 0, result.output
    assert "max error" in result.output
    home = repository / "my_gr_e"
    assert (home / "1" / "model.onnx").read_bytes() == file.read_bytes()
    assert (home / "labels_0.txt").read_text("utf-8") == "gut\nschlecht ü\n"
    result = run(model, "--onnx", file)
    assert result.exit_code == 1
    assert "exists already" in result.output
    assert "--overwrite" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing to write: pass --onnx FILE"),
        (["--onnx", "x.onnx", "--name", "net"], "--name and --version are of --triton"),
        (["--triton", "r", "--name", "a/b"], "`name` must be"),
        (["--onnx", "x.onnx", "--samples", "nowhere.npz"], "--samples: no such file"),
        (["--onnx", "missing/x.onnx"], "doesn't exist; create it first"),
    ],
)
def test_what_is_wrong_from_the_start(run, model, arguments, message):
    result = run(model, *arguments)
    assert result.exit_code == 1
    assert message in result.output


def test_openvino(run, model, tmp_path):
    pytest.importorskip("openvino", reason='pip install "keras-attention-tflite[openvino]"')
    file, manifest = tmp_path / "m.xml", tmp_path / "app.json"
    manifest.write_text('{"description": "two classes"}', "utf-8")
    result = run(model, "--openvino", file, "--manifest", manifest)
    assert result.exit_code == 0, result.output
    assert "OpenVINO:" in result.output
    assert file.with_suffix(".bin").stat().st_size > 0
    text = file.read_text("utf-8")
    assert 'type="Soft' in text
    assert "<description" in text, "the manifest is kept"
