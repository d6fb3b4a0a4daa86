"""The command `keras-attention`: options, files, exit codes, and one clear line where something is wrong."""

import gc
import json
import os
import subprocess
import sys
import warnings

import click.testing
import numpy as np
import pytest

import keras_attention
from keras_attention.tflite import command_line
from keras_attention.tflite import conversion
from keras_attention.tflite import quantizing
from keras_attention.tflite.errors import ConversionError


@pytest.fixture
def run():
    runner = click.testing.CliRunner()

    def invoke(*arguments):
        return runner.invoke(command_line.main, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def folder(case, tmp_path):
    """A folder with the model "dense", and samples of it."""
    wanted = case("dense")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
        wanted.model.save(tmp_path / "model.keras")
    entries = {"labels": ["a", "b", "c"], "window_length": 7}
    (tmp_path / "entries.json").write_text(json.dumps(entries))
    targets = wanted.model.predict(wanted.evaluation, verbose=0).argmax(-1)
    np.savez(tmp_path / "calibration.npz", anything=wanted.calibration)
    np.savez(tmp_path / "evaluation.npz", features=wanted.evaluation, targets=targets)
    return tmp_path


@pytest.fixture
def recorded(monkeypatch):
    """What the command hands to `convert`, which is not run."""
    calls = []
    monkeypatch.setattr(conversion, "convert", lambda *args, **kwargs: calls.append((args, kwargs)))
    return calls


def refused(result, *fragments):
    """Exit code 1, one message, no traceback, nothing on standard output."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ") and result.stderr.count("Error: ") == 1
    assert "Traceback" not in result.output and result.stdout == ""
    for fragment in fragments:
        assert fragment in result.stderr


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(run, flag):
    result = run(flag)
    assert result.exit_code == 0
    assert "convert" in result.output and "inspect" in result.output
    text = run("convert", flag).output
    for option in ("--output", "--precision", "--calibration", "--min-agreement", "--report", "int8"):
        assert option in text
    assert "FILE" in run("inspect", flag).output


def test_version(run):
    assert keras_attention.__version__ in run("--version").output


def test_convert_and_inspect(run, folder):
    out = folder / "model.tflite"
    result = run(
        *("convert", folder / "model.keras", "-o", out),
        *("--calibration", folder / "calibration.npz", "--evaluation", folder / "evaluation.npz"),
        *("--min-agreement", "0.9", "--max-metric-drop", "0.1", "--report", folder / "report.json"),
        *("--manifest", folder / "entries.json"),
        *("--report", folder / "report.html"),
    )
    assert result.exit_code == 0, result.output
    assert "Conversion to int8" in result.output and "accuracy (Keras 1.0000)" in result.output
    report = json.loads((folder / "report.json").read_text())
    assert report["size_bytes"] == out.stat().st_size and report["precision"] == "int8"
    assert report["metric"]["keras"] == 1.0 and report["agreement"] >= 0.9
    assert report["calibration"]["samples"] == 64 and report["samples"] == 37
    assert run("report", folder / "report.json", "-o", folder / "later.html").exit_code == 0
    assert (folder / "later.html").read_text() == (folder / "report.html").read_text()
    assert f"{report['samples']} samples" in (folder / "later.html").read_text()
    shown = run("inspect", out)
    assert shown.exit_code == 0
    assert "features: float32[1, 7]" in shown.output and "FULLY_CONNECTED" in shown.output
    assert '{"answer": ["a", "b", "c"]}' in shown.output and "window_length" in shown.output
    verified = run("verify", out)
    assert verified.exit_code == 0 and "passed" in verified.output


@pytest.mark.slow
def test_a_conversion_prints_our_lines_only(folder):
    """In a process of its own, where TensorFlow starts; with the table in 80 columns."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    options = ["-o", "out.tflite", "--precision", "float32", "--evaluation", "evaluation.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "keras_attention.tflite.command_line", "convert", "model.keras", *options],
        cwd=folder,
        env={**environment, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.strip().splitlines()
    assert first.strip() == "Conversion to float32" and last.startswith("\N{BOX DRAWINGS LIGHT UP AND RIGHT}")


@pytest.mark.parametrize("kind", ["missing", "text", "deep"])
def test_manifest_that_is_none(run, folder, recorded, kind):
    path = folder / "given.json"
    if kind != "missing":
        path.write_text("labels: a" if kind == "text" else "[" * 99_999)
    result = run("convert", folder / "model.keras", "-o", folder / "o.tflite", "--manifest", path)
    refused(result, "--manifest must be a .json file", "given.json", "can't be read")
    beside = folder / "o.manifest.json"
    beside.write_text("{}")
    result = run("convert", folder / "model.keras", "-o", folder / "o.tflite", "--manifest", beside)
    refused(result, "--manifest", "the manifest to write", "are the same file")
    assert recorded == []


def test_defaults(run, folder, recorded):
    result = run("convert", folder / "model.keras", "-o", folder / "out.tflite", "-q")
    assert result.exit_code == 0 and result.output == ""
    ((args, kwargs),) = recorded
    assert args == (folder / "model.keras", folder / "out.tflite")
    none = (
        "calibration",
        "evaluation",
        "manifest",
        "min_agreement",
        "min_sqnr_db",
        "max_metric_drop",
        "task",
        "io_dtype",
    )
    assert kwargs == {
        "precision": "int8",
        "target": "cpu",
        "sensitivity": False,
        "max_unrolled_steps": 512,
        "batch_size": 1,
        "verbose": 0,
        **dict.fromkeys(none),
    }


def test_options_and_samples_reach_convert(run, folder, recorded):
    np.savez(folder / "two.npz", zebra=np.zeros((3, 5)), apple=np.ones((3, 7)))
    result = run(
        *("convert", "m.keras", "--output", "o.tflite", "--precision", "dynamic", "--task", "regression"),
        *("--calibration", folder / "two.npz", "--evaluation", folder / "evaluation.npz"),
        *("--min-agreement", "0.5", "--min-sqnr-db", "31.5", "--max-unrolled-steps", "17"),
    )
    assert result.exit_code == 0, result.output
    ((_, kwargs),) = recorded
    assert kwargs["calibration"] == folder / "two.npz"
    assert kwargs["evaluation"] == folder / "evaluation.npz"
    numbers = {
        name: kwargs[name] for name in ("min_agreement", "min_sqnr_db", "max_unrolled_steps", "verbose")
    }
    assert numbers == {
        "min_agreement": 0.5,
        "min_sqnr_db": 31.5,
        "max_unrolled_steps": 17,
        "verbose": 1,
    }
    assert (kwargs["precision"], kwargs["task"]) == ("dynamic", "regression")


def test_the_new_precisions_reach_convert(run, recorded):
    result = run(
        *("convert", "m.keras", "-o", "o.tflite", "--precision", "auto", "--target", "npu", "--sensitivity"),
        *("--io-dtype", "int16"),
    )
    assert result.exit_code == 0, result.output
    ((_, kwargs),) = recorded
    assert (kwargs["precision"], kwargs["target"], kwargs["io_dtype"]) == ("auto", "npu", "int16")
    assert kwargs["sensitivity"] is True
    text = run("convert", "-h").output
    for option in ("--target", "--io-dtype", "--sensitivity", "int8_full", "int16x8", "auto"):
        assert option in text


def test_quantize(run, converted, tmp_path, monkeypatch):
    float32 = converted("dense", "float32")
    np.savez(tmp_path / "samples.npz", features=float32.case.calibration)
    out = tmp_path / "int8.tflite"
    result = run(
        *("quantize", float32.path, "-o", out, "--calibration", tmp_path / "samples.npz"),
        *("--report", tmp_path / "report.html", "--sensitivity"),
    )
    assert result.exit_code == 0, result.output
    for words in ("SQNR against the float file", "Which layers lose the most", "oldest runtime"):
        assert words in result.output
    page = (tmp_path / "report.html").read_text()
    assert "answers as the float file does in" in page and "Agreement with the float file" in page
    assert "Keras" not in page
    assert run("verify", out).exit_code == 0 and "oldest runtime" in run("inspect", out).output
    refused(run("quantize", out, "-o", tmp_path / "o", "--precision", "dynamic", "-q"), "quantized already")
    refused(run("quantize", out, "-o", out, "--precision", "dynamic"), "are the same file")
    calls = []
    monkeypatch.setattr(quantizing, "quantize", lambda *args, **kwargs: calls.append((args, kwargs)))
    assert run("quantize", out, "-o", tmp_path / "o", "-q").output == ""
    ((args, kwargs),) = calls
    assert args == (out, tmp_path / "o") and "batch_size" not in kwargs and kwargs["verbose"] == 0


def test_samples_that_are_not_there(run, folder, recorded):
    result = run("convert", "m.keras", "-o", "o", "--evaluation", folder / "gone.npz")
    refused(result, "--evaluation", "no such file or folder", "gone.npz")
    assert recorded == []


@pytest.mark.parametrize("kind", ["code", "text", "truncated", "folder", "only_targets"])
def test_files_of_samples_that_are_none(run, folder, kind):
    path = folder / "given.npz"
    if kind == "code":
        np.savez(path, features=np.array([{"a": 1}], dtype=object))
    elif kind == "text":
        path.write_text("1,2,3")
    elif kind == "truncated":
        path.write_bytes((folder / "evaluation.npz").read_bytes()[:-50])
    elif kind == "folder":
        path.mkdir()
    elif kind == "only_targets":
        np.savez(path, targets=np.zeros(3))
    result = run("convert", folder / "model.keras", "-o", folder / "o", "--calibration", path)
    refused(result, "`calibration`", "given.npz", *(["it holds pickled objects"] if kind == "code" else []))
    assert not (folder / "o").exists()
    gc.collect()  # an open file would be found here, as a ResourceWarning


def test_errors_of_conversion(run, folder, monkeypatch):
    model, out = folder / "model.keras", folder / "out.tflite"
    refused(
        run("convert", folder / "gone.keras", "-o", out, "--precision", "dynamic"), "No such file", "gone"
    )
    refused(run("convert", model, "-o", out), "`calibration` is needed for precision='int8'")
    refused(
        run("convert", model, "-o", folder / "no" / "out.tflite", "--precision", "dynamic"), "doesn't exist"
    )
    np.savez(folder / "wrong.npz", features=np.zeros((3, 5)))
    refused(
        run("convert", model, "-o", out, "--calibration", folder / "wrong.npz"), "input 'features'", "(7,)"
    )

    def fail(*args, **kwargs):
        raise ConversionError("the child process ended by signal SIGSEGV")

    monkeypatch.setattr(conversion, "convert", fail)
    refused(run("convert", model, "-o", out), "ended by signal SIGSEGV")
    assert not out.exists()


def test_an_error_of_ours_is_not_hidden(run, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(conversion, "convert", fail)
    assert isinstance(run("convert", "m.keras", "-o", "o").exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        (["a.txt"], "--report: A report must be a .json or .html file. Received: 'a.txt'"),
        (["a.json", "./a.json"], "--report and --report are the same file: 'a.json'"),
        (["a.html", "b.html", "m.keras"], "--report and MODEL are the same file"),
        (["o.tflite"], "--report and --output are the same file"),
        (["a.html", "no/b.html"], "--report: The folder of `path` doesn't exist"),
    ],
)
def test_reports_that_can_not_be_written(run, tmp_path, monkeypatch, recorded, reports, message):
    monkeypatch.chdir(tmp_path)
    options = [word for report in reports for word in ("--report", report)]
    refused(run("convert", "m.keras", "-o", "o.tflite", *options), message)
    assert recorded == [] and list(tmp_path.iterdir()) == []


def test_refused_file_gets_its_reports(run, folder):
    result = run(
        *("convert", folder / "model.keras", "-o", folder / "out.tflite", "--precision", "dynamic"),
        *("--evaluation", folder / "evaluation.npz", "--min-sqnr-db", "199", "-q"),
        *("--report", folder / "report.html", "--report", folder / "report.json"),
    )
    refused(result, "is below min_sqnr_db=199")
    assert not (folder / "out.tflite").exists()
    text = (folder / "report.html").read_text()
    assert "Refused" in text and "is below min_sqnr_db=199" in text
    assert "is below min_sqnr_db=199" in json.loads((folder / "report.json").read_text())["refusal"]


def test_report_of_a_damaged_file(run, tmp_path):
    path = tmp_path / "report.json"
    refused(run("report", path, "-o", tmp_path / "a.html"), "No such file", "report.json")
    path.write_text('{"precision": "int8"}')
    refused(
        run("report", path, "-o", tmp_path / "a.html"), "report.json' is no report", "'size_bytes' is missing"
    )
    refused(run("report", path, "-o", path), "FILE and --output are the same file")
    assert list(tmp_path.iterdir()) == [path]


def test_inspect_without_a_file(run, tmp_path):
    refused(run("inspect", tmp_path / "gone.tflite"), "No such file", "gone.tflite")


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert",),
        ("convert", "m.keras"),
        ("convert", "m.keras", "-o", "o", "--precision", "int4"),
        ("convert", "m.keras", "-o", "o", "--task", "ranking"),
        ("convert", "m.keras", "-o", "o", "--min-agreement", "most"),
        ("convert", "m.keras", "-o", "o", "--nonsense"),
        ("inspect",),
        ("report",),
        ("report", "report.json"),
        ("transform",),
    ],
)
def test_usage(run, recorded, arguments):
    result = run(*arguments)
    assert result.exit_code == 2 and result.stderr.startswith("Usage: ") and recorded == []
