"""`keras-attention check`: text and JSON, options, exit codes, damaged files."""

import json
import warnings

import click.testing
import keras
import pytest
from keras import layers

from keras_attention.tflite import command_line
from keras_attention.tflite.linting import running
from keras_attention.tflite.linting.finding import Finding


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runner = click.testing.CliRunner()

    def invoke(*arguments):
        return runner.invoke(command_line.main, ["check", *map(str, arguments)])

    return invoke


@pytest.fixture
def saved(tmp_path):
    """A function: shape -> the path of a small saved model, whose embedding gets float ids."""

    def save(shape):
        ids = keras.Input(shape, name="ids")
        model = keras.Model(ids, layers.Embedding(11, 5, name="words")(ids))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
            model.save(tmp_path / "model.keras")
        return tmp_path / "model.keras"

    return save


@pytest.fixture
def found(monkeypatch):
    """A function: severities -> `check` of files finds these."""

    def replace(*severities):
        findings = [
            Finding(f"KA20{number}", severity, f"place {number}", "[what] was found", "what helps")
            for number, severity in enumerate(severities, 1)
        ]
        monkeypatch.setattr(running, "_check_path", lambda path: findings)

    return replace


def test_text(run, saved):
    result = run(saved((None,)))
    assert result.exit_code == 0, result.output
    for words in ("KA101", "KA111", "warning", "words", "dtype='int32'", "0 errors, 2 warnings, 0 notes"):
        assert words in result.output


def test_json(run, saved):
    path = saved((7,))
    result = run(path, "--format", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    (finding,) = report.pop("findings")
    assert report == {"file": str(path), "errors": 0, "warnings": 1, "notes": 0}
    assert (finding["code"], finding["severity"], finding["where"]) == ("KA111", "warning", "words")
    assert finding["page"] == "docs/checks/KA111.md" and finding["message"] and finding["cure"]


@pytest.mark.parametrize(
    ("severities", "options", "code"),
    [
        ((), (), 0),
        (("note",), ("--strict",), 0),
        (("note", "warning"), (), 0),
        (("note", "warning"), ("--strict",), 1),
        (("note", "error"), (), 1),
        (("note", "error"), ("--ignore", "KA202"), 0),
        (("error", "error"), ("--select", "KA202, KA203"), 1),
        (("error", "note"), ("--select", "KA202"), 0),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_exit_code(run, found, severities, options, code, form):
    found(*severities)
    result = run("any.tflite", "--format", form, *options)
    assert result.exit_code == code, result.output


def test_text_of_findings_is_no_markup(run, found):
    found("error", "note", "note")
    output = run("any.tflite").output
    assert output.count("[what] was found") == 3
    assert "1 error, 0 warnings, 2 notes" in output


def test_nothing_found(run, found):
    found()
    assert run("any.tflite").output.startswith("0 errors, 0 warnings, 0 notes.")


@pytest.mark.parametrize(("name", "words"), [("gone.keras", "No such file"), ("bad.keras", "no complete")])
def test_files_that_cannot_be_read(run, tmp_path, name, words):
    (tmp_path / "bad.keras").write_bytes(b"text, not a model")
    result = run(tmp_path / name)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.startswith("Error: ") and words in result.stderr and name in result.stderr


def test_usage(run):
    assert run("--help").exit_code == 0
    assert run().exit_code == 2
    assert run("m.keras", "--format", "xml").exit_code == 2
    result = run("m.keras", "--select", "KA101,nonsense")
    assert result.exit_code == 1 and "`select` must hold codes" in result.stderr
