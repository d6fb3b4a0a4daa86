"""`inspect` on good, cut, random and mutated files: an answer or an error, never a dead process."""

import numpy as np
import pytest

from keras_attention.tflite import ConversionError
from keras_attention.tflite import Inspection
from keras_attention.tflite import inspect

NUM_MUTATIONS = 30


@pytest.fixture
def good(float_file, tmp_path):
    path = tmp_path / "good.tflite"
    path.write_bytes(float_file("transformer"))
    return path


def survey(path):
    """The inspection, or the error's text where it is one that users are promised."""
    try:
        found = inspect(path)
    except (ConversionError, ValueError) as error:
        assert repr(str(path)) in str(error) and len(str(error)) > len(str(path)) + 20
        return str(error)
    assert isinstance(found, Inspection) and found.size_bytes == path.stat().st_size
    return found


def test_good_file(good, capsys):
    """The one that runs the worker just as users do."""
    found = inspect(str(good))
    assert found.path == good and found.size_bytes == good.stat().st_size
    assert found.inputs == ("window: float32[1, 11, 5]",)
    assert found.outputs == ("classes: float32[1, 3]",)
    assert found.signatures == ("serve",)
    assert found.operators["FULLY_CONNECTED"] == 8 and found.operators["SOFTMAX"] == 2
    assert set(found.tensor_dtypes) <= {"float32", "int32"} and found.tensor_dtypes["float32"] > 20
    assert (found.delegate_partitions, found.fully_delegated) == (1, True)
    found.print()
    printed = capsys.readouterr().out
    for words in ("window: float32[1, 11, 5]", "8 FULLY_CONNECTED", "1, the whole graph", "serve"):
        assert words in printed


def test_quantized_file_shows_scales(converted):
    found = inspect(converted("cnn", "int8").path)
    report = converted("cnn", "int8").result.report
    assert found.tensor_dtypes == report.tensor_dtypes and found.operators == report.operators
    assert (found.inputs, found.outputs) == (report.inputs, report.outputs)


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_no_file(tmp_path, kind):
    path = tmp_path if kind == "folder" else tmp_path / "gone.tflite"
    with pytest.raises(FileNotFoundError, match=r"`path` must be a \.tflite file\. No such file: '"):
        inspect(path)


@pytest.mark.parametrize(
    "content", [b"", b"TFL3", b"text, not a model" * 9, np.random.default_rng(0).bytes(4099)]
)
def test_what_is_no_tflite_file(tmp_path, content):
    path = tmp_path / "notes.tflite"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match=r"notes\.tflite' can't be inspected.* not a \.tflite file"):
        inspect(path)


def test_random_bytes_behind_the_mark(tmp_path):
    path = tmp_path / "random.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3" + np.random.default_rng(1).bytes(2003))
    assert isinstance(survey(path), str)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_truncated_file(good, share):
    content = good.read_bytes()
    good.write_bytes(content[: int(len(content) * share)])
    found = survey(good)
    if share < 0.5:
        assert isinstance(found, str)


def test_mutated_files(good):
    """Some bytes of the structure flipped: a damaged file is understood or refused."""
    content = good.read_bytes()
    rng = np.random.default_rng(20240504)
    outcomes = []
    for number in range(NUM_MUTATIONS):
        damaged = np.frombuffer(content, np.uint8).copy()
        last = len(content) if number % 2 else 400  # the head holds the tables
        places = rng.integers(8, last, 1 + number % 7)
        damaged[places] ^= rng.integers(1, 256, len(places), dtype=np.uint8)
        good.write_bytes(damaged.tobytes())
        outcomes.append(survey(good))
    refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert 0 < len(refused) < NUM_MUTATIONS, "both ends of the matter were seen"
