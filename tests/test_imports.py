"""That Keras and TensorFlow, which take seconds, are imported where they are needed and not before."""

import importlib.util
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_attention
import keras_attention.tflite
from keras_attention import MultiHeadAttention
from keras_attention.tflite import command_line

HEAVY = {"keras", "tensorflow"}
ENDING = """
import atexit, sys
atexit.register(lambda: print("HEAVY", *sorted({"keras", "tensorflow"} & set(sys.modules)), file=sys.stderr))
"""


def run(program, *arguments):
    """Standard output of a Python program, and which of the heavy packages it imported."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("HEAVY")]
    return done.stdout, set(line.split()[1:])


def command(*arguments):
    return run("from keras_attention.tflite import command_line\ncommand_line.main()", *arguments)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=lambda arguments: arguments[0])
def test_the_command_answers_without_keras(arguments):
    text, heavy = command(*arguments)
    assert "convert" in text or keras_attention.__version__ in text
    assert heavy == set()


@pytest.mark.parametrize("name", sorted(command_line.main.commands))
def test_help_of_each_command_needs_no_keras(name):
    text, heavy = command(name, "--help")
    assert f"{name} [OPTIONS]" in text
    assert heavy == set()


@pytest.mark.parametrize(
    "first",
    [
        "keras_attention.MultiHeadAttention",
        "keras_attention.causal_mask",
        "keras_attention.blocks.transformer_encoder_block",
        "keras_attention.migration.moving",
    ],
)
def test_any_name_may_be_the_first(first):
    module = first.rsplit(".", 1)[0] if first.split(".")[1] in keras_attention.__all__ else first
    _, heavy = run(f"import {module}\n{first}")
    assert heavy == HEAVY or heavy == {"keras"}  # on another backend


@pytest.mark.slow
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="converts on the default backend")
def test_files_are_read_without_keras(tmp_path):
    inputs = keras.Input((11, 3), name="window")
    model = keras.Model(inputs, keras.layers.Dense(5)(keras.layers.Flatten()(inputs)))
    samples = np.random.default_rng(3).gamma(2.0, size=(23, 11, 3)).astype("float32")
    np.savez(tmp_path / "samples.npz", window=samples)
    file, report = tmp_path / "float32.tflite", tmp_path / "report.json"
    result = keras_attention.tflite.convert(model, file, precision="float32", evaluation=samples, verbose=0)
    result.write_report(report)
    for arguments in (
        ["inspect", file],
        ["benchmark", file, "--seconds", "0.01"],
        ["verify", file],
        ["check", file],
        ["check", file, "--target", "microcontroller"],
        *([["micro", file]] if importlib.util.find_spec("tflite_micro") else []),
        ["report", report, "-o", tmp_path / "report.html"],
        ["quantize", file, "-o", tmp_path / "int8.tflite", "--calibration", tmp_path / "samples.npz"],
        ["quantize", file, "-o", tmp_path / "dynamic.tflite", "--precision", "dynamic"],
    ):
        text, heavy = command(*arguments)
        assert heavy == set(), arguments
        assert text or arguments[0] == "report"


@pytest.mark.parametrize("order", ["import keras_attention, keras", "import keras, keras_attention"])
def test_layers_are_registered_in_either_order(tmp_path, order):
    """The package is imported for that alone, by those who load a model."""
    query = keras.Input((5, 8))
    keras.Model(query, MultiHeadAttention(2, 4)(query, query)).save(tmp_path / "model.keras")
    text, _ = run(
        f"{order}\nmodel = keras.saving.load_model(sys.argv[1])\nprint(type(model.layers[-1]).__module__)",
        tmp_path / "model.keras",
    )
    assert text.split() == [MultiHeadAttention.__module__]


@pytest.mark.parametrize("package", [keras_attention, keras_attention.tflite], ids=lambda p: p.__name__)
def test_names_are_found_late(package):
    assert set(package.__all__) <= set(dir(package))
    assert set(package._MODULES) == set(package.__all__) - {"__version__"}
    for name, module in package._MODULES.items():
        value = getattr(package, name)
        assert value.__name__ == name and value.__module__ == f"{package.__name__}.{module}"
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Perceiver'"):
        package.Perceiver  # noqa: B018
