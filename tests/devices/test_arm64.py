"""Files on emulated processors of phones: bounds, counts, faults, reports; with a test bed the real thing."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attention import tflite
from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import comparison
from keras_attention.tflite.arm64 import emulation
from keras_attention.tflite.arm64 import making
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.arm64.result import Arm64Check
from keras_attention.tflite.arm64.result import Arm64Processor

FLOAT = {"name": "scores", "scale": None, "zero_point": None}
STEPS = {"name": "scores", "scale": 0.5, "zero_point": 3}
HAS_BED = beds.read(beds.default_folder()) is not None and shutil.which(beds.EMULATOR) is not None
needs_bed = pytest.mark.skipif(
    not HAS_BED, reason="needs the test bed: apt-get install qemu-user, keras-attention arm64 --setup"
)


def make_bed(folder, version=None):
    """A bed that holds nothing but its description."""
    import importlib.metadata

    folder.mkdir()
    packages = {beds.RUNTIME: version or importlib.metadata.version(beds.RUNTIME)}
    described = {"format": beds.FORMAT, "python": "usr/bin/python3.11", "packages": packages, "counter": ""}
    (folder / beds.DESCRIPTION).write_text(json.dumps(described))
    return folder


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A dense model in integers throughout, with its report."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((31,), name="x"),
            keras.layers.Dense(17, activation="relu"),
            keras.layers.Dense(5, name="scores"),
        ]
    )
    folder = tmp_path_factory.mktemp("arm64")
    samples = np.random.default_rng(5).normal(size=(53, 31))
    result = tflite.convert(
        model, folder / "model.tflite", precision="int8_full", calibration=samples, verbose=0
    )
    result.write_report(folder / "report.json")
    return folder / "model.tflite"


@pytest.mark.parametrize("name", PROCESSORS)
def test_each_processor_says_what_it_is(name):
    text = PROCESSORS[name].cpuinfo()
    assert text.count("processor\t: ") == 2
    features = next(line for line in text.splitlines() if line.startswith("Features")).split()
    assert ("asimddp" in features) == (name != "cortex-a53")
    assert ("i8mm" in features) == (name == "armv8.6")


@pytest.mark.parametrize(
    ("answers", "spec", "has_integers", "allowed"),
    [
        (np.int8([[1, -9]]), STEPS, True, 2.0),
        (np.int32([[3]]), FLOAT, True, 0.0),
        (np.float32([[0.25, 0.75]]), FLOAT, False, 1e-6),
        (np.float32([[-40.0, 20.0]]), FLOAT, False, 4e-5),
        (np.float32([[-40.0, 11.0]]), FLOAT, True, 51 / 255),
        (np.float32([[2.0, 51.0]]), FLOAT, True, 51 / 255),
    ],
)
def test_what_is_allowed(answers, spec, has_integers, allowed):
    assert comparison.allowed(answers, spec, has_integers=has_integers) == pytest.approx(allowed)


def compare(here, there, spec, *, has_integers=True, has_floats=False):
    here, there = (
        {kind: [np.asarray(values)] for kind, values in zip(("reference", "xnnpack"), side, strict=True)}
        for side in (here, there)
    )
    (output,) = comparison.compare(here, there, [spec], has_integers=has_integers, has_floats=has_floats)
    return output


def test_integers_of_the_reference_kernels_are_equal_to_the_bit():
    answers = np.int8([[1, 5], [7, 2]])
    one_off = answers + np.int8([[0, 1], [0, 0]])
    assert compare((answers, answers), (answers, one_off), STEPS).passed
    wrong = compare((answers, answers), (one_off, answers), STEPS)
    assert not wrong.passed and not wrong.reference.equal and wrong.reference.largest == 1
    too_far = compare((answers, answers), (answers, answers + np.int8(3)), STEPS)
    assert (too_far.xnnpack.largest, too_far.xnnpack.allowed, too_far.passed) == (3, 2, False)
    other = compare((answers, answers), (answers, answers[:, ::-1]), STEPS)
    assert other.agreement == 0.0 and not other.passed


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_none_on_one_side_are_a_fault(wrong):
    answers = np.float32([[0.5, 0.25]])
    there = np.float32([[wrong, 0.25]])
    assert not compare((answers, answers), (answers, there), FLOAT, has_floats=True).passed
    assert compare((there, there), (there, there), FLOAT, has_floats=True).xnnpack.equal


def test_counts_are_read_and_the_least_run_is_taken():
    sections = emulation.read_counts("dot_product=3 other=40\ndot_product=3 other=37\n")
    assert emulation.least(sections) == {"dot_product": 3, "other": 37}


def test_missing_tools_are_named_with_their_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = " ".join(making.missing_tools())
    assert "qemu-aarch64 is missing: `apt-get install qemu-user`" in said
    assert "dpkg-deb is missing" in said
    with pytest.raises(tflite.ConversionError, match="can't be made"):
        making.set_up(tmp_path / "bed", lambda *_: None)
    assert not (tmp_path / "bed").exists()


def test_a_bed_that_is_missing_or_old(monkeypatch, tmp_path):
    with pytest.raises(
        tflite.ConversionError, match=r"no arm64 test bed.*keras-attention arm64 --setup --bed"
    ):
        beds.require(tmp_path / "none")
    monkeypatch.setattr(beds.shutil, "which", lambda name: "/usr/bin/" + name)
    assert beds.require(make_bed(tmp_path / "new")).packages
    with pytest.raises(tflite.ConversionError, match=r"holds ai-edge-litert 0\.1.*Make it anew"):
        beds.require(make_bed(tmp_path / "old", "0.1"))
    monkeypatch.setattr(beds.shutil, "which", lambda name: None)
    with pytest.raises(tflite.ConversionError, match="apt-get install qemu-user"):
        beds.require(tmp_path / "new")


def test_a_folder_with_other_files_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(making, "missing_tools", list)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        making.set_up(tmp_path, lambda *_: None)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"processors": ["cortex-a99"]}, ValueError, r"must be some of \['cortex-a53'.*\['cortex-a99'\]"),
        ({"processors": "cortex-a53"}, TypeError, "must be a list"),
        ({"processors": []}, ValueError, "each once"),
        ({"samples": 0}, ValueError, "`samples` must be an integer above 0"),
        ({"timeout": float("inf")}, ValueError, "`timeout` must be a number of seconds"),
    ],
)
def test_wrong_arguments(file, arguments, error, message):
    with pytest.raises(error, match=message):
        tflite.check_arm64(file, **arguments)


def test_a_report_takes_the_result_of_its_own_file(file, tmp_path):
    report = shutil.copy(file.parent / "report.json", tmp_path / "report.json")
    answers = np.int8([[1, 5]])
    output = compare((answers, answers), (answers, answers), STEPS)
    processor = Arm64Processor("cortex-a76", (output,), {"dot_product": 250_000, "other": 750_000})
    result = Arm64Check(file, "evaluation", 8, "x86_64", (processor,), {"QEMU": "7.2"}, ())
    assert result.passed and processor.total == 1_000_000
    for _ in range(2):  # the second time its own entry is replaced
        result.add_to_report(report)
    devices = tflite.Report.read(report).devices
    assert len(devices) == 1 and "cortex-a76" in next(iter(devices))
    other = tmp_path / "other.tflite"
    other.write_bytes(file.read_bytes() + b" ")
    before = Path(report).read_bytes()
    with pytest.raises(ValueError, match="The report is of another file"):
        Arm64Check(other, "evaluation", 8, "x86_64", (processor,), {}, ()).add_to_report(report)
    assert Path(report).read_bytes() == before


@needs_bed
def test_a_file_in_integers_on_two_processors(file):
    result = tflite.check_arm64(file, processors=["cortex-a53", "cortex-a76"], samples=4, verbose=0)
    assert result.passed, result.faults
    old, new = result.processors
    for processor in (old, new):
        (output,) = processor.outputs
        assert output.in_steps and output.reference.equal
    assert old.instructions["dot_product"] == 0 < new.instructions["dot_product"]
    assert new.total < old.total


@needs_bed
def test_an_emulation_that_takes_too_long(file):
    with pytest.raises(tflite.ConversionError, match=r"Emulated cortex-a76: while .* more than 0\.5"):
        tflite.check_arm64(file, processors=["cortex-a76"], timeout=0.5, verbose=0)
