"""Damaged files through `inspect`, `check` and `verify`: a small share of `python -m benchmarks.fuzzing`."""

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks.fuzzing import judging
from benchmarks.fuzzing import keras_mutations
from benchmarks.fuzzing import running
from benchmarks.fuzzing import tflite_mutations

ROOT = Path(__file__).resolve().parents[2]
COUNT = 64
RUN = 37


@pytest.fixture(scope="module")
def sources(converted, tmp_path_factory):
    """Sound files: a .tflite with its manifest in it, and .keras."""
    folder = tmp_path_factory.mktemp("sources")
    shutil.copy(converted("transformer", "int8").path, folder / "transformer.tflite")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
        converted("transformer", "int8").case.model.save(folder / "transformer.keras")
    return folder


@pytest.mark.slow
def test_damaged_files_give_an_answer_or_a_clear_error(sources, tmp_path):
    command = [sys.executable, "-m", "benchmarks.fuzzing", "--count", str(RUN), "--real", "0"]
    command += ["--sources", str(sources), "--keep", str(tmp_path / "faults")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert f"{3 * RUN} runs" in done.stdout and not list((tmp_path / "faults").iterdir())


def test_every_kind_of_damage_is_among_them_and_seeded(sources, tmp_path):
    folders = [tmp_path / name for name in ("first", "again", "other")]
    for folder, seed in zip(folders, (3, 3, 4), strict=True):
        folder.mkdir()
        kinds = running.damage(sources, folder, COUNT, seed, tmp_path / "canary")
    assert len(set(kinds.values())) == len(tflite_mutations.MUTATIONS) + len(keras_mutations.MUTATIONS)
    contents = [[path.read_bytes() for path in sorted(folder.iterdir())] for folder in folders]
    assert len(contents[0]) == COUNT
    tflite = [index for index, name in enumerate(sorted(kinds)) if name.endswith(".tflite")]
    assert [contents[0][i] for i in tflite] == [contents[1][i] for i in tflite]
    assert contents[0] != contents[2]
    sound = {path.read_bytes() for path in sources.iterdir()}
    assert sum(content in sound for content in contents[0]) < COUNT // 10


def test_the_code_in_the_files_is_live(sources, tmp_path):
    """A loader that runs it would create the file that is watched for."""
    canary = tmp_path / "canary"
    path = tmp_path / "code.keras"
    content = (sources / "transformer.keras").read_bytes()
    for seed in range(40):
        path.write_bytes(keras_mutations.MUTATIONS["code"](content, np.random.default_rng(seed), str(canary)))
        with contextlib.suppress(Exception):  # whatever becomes of such a model; what counts is the file
            keras.saving.load_model(path, compile=False, safe_mode=False)
        if canary.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # the payload leaves its file open
                gc.collect()
            return
    pytest.fail("no payload was run")


@pytest.mark.parametrize(
    ("message", "kind", "outcome"),
    [
        ("'{path}' can't be read: the checksum of 'a' doesn't fit.", "ConversionError", judging.REFUSED),
        ("the checksum of 'a' doesn't fit, save it again.", "ConversionError", judging.FAULT),
        ("'{path}' can't be read: list index out of range", "ConversionError", judging.FAULT),
        ("'{path}' can't be read: unpack_from requires a buffer", "ValueError", judging.FAULT),
        ("'{path}' failed", "ValueError", judging.FAULT),
        ("'{path}' can't be read: \x1b[2J is no name of a tensor", "ValueError", judging.FAULT),
        ("'{path}' can't be read: something of the file is wrong", "RuntimeError", judging.FAULT),
    ],
)
def test_what_is_a_clear_error(tmp_path, message, kind, outcome):
    path = tmp_path / "a.tflite"
    assert judging.judge_message(path, message.replace("{path}", str(path)), kind)["outcome"] == outcome


def test_other_errors_are_faults(tmp_path):
    def fail():
        raise KeyError("name")

    path = tmp_path / "a.tflite"
    assert judging.judge(path, fail)["outcome"] == judging.FAULT
    assert judging.judge(path, lambda: "\x1b[2J")["outcome"] == judging.FAULT
    assert judging.judge(path, lambda: "3 operators")["outcome"] == judging.ANSWERED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_crash_of_the_caller_is_a_fault(tmp_path):
    """In a process of its own, since this one has threads."""
    code = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from benchmarks.fuzzing import driving
driving._leave_keras_out()
from benchmarks.fuzzing import forked
note = Path(sys.argv[1]) / "note"
print(forked.apart(os.abort, note, 20.0)["text"])
print(forked.apart(lambda: __import__("time").sleep(60), note, 0.2)["text"])
print(forked.apart(lambda: {"outcome": "answered", "text": "fine"}, note, 20.0)["text"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(ROOT)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["the calling process ended", "no answer after 0.2 s", "fine"]
