"""`keras-attention arm64` without an emulator: tools that lack or fail, crashes, reports, samples, counts."""

import json
import re
import shutil
import stat
from pathlib import Path

import keras
import numpy as np
import pytest
import report_examples
from click.testing import CliRunner
from keras import layers

from keras_attention import tflite
from keras_attention.tflite import Report
from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import checking
from keras_attention.tflite.arm64 import emulation
from keras_attention.tflite.arm64 import feeding
from keras_attention.tflite.arm64 import making
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.command_line import main

COUNTER = Path(making.__file__).with_name("counter.c")
ENCODINGS = {  # as GNU as writes them
    "DOT_PRODUCT": (0x4E829420, 0x2E859483, 0x4E829C20, 0x4FB2EA30, 0x4F22F020, 0x4F82F820),
    "MATRIX_PRODUCT": (0x4E82A420, 0x6E82A420, 0x4E9DAFDF),
    "FLOAT_MULTIPLY_ADD": (0x4E22CC20, 0x4EE2CC20, 0x4FA21820, 0x4FC25820, 0x1F020C20),
    "HALF_MULTIPLY_ADD": (0x4E420C20, 0x4EC20C20, 0x4F121820),
    "INTEGER_MULTIPLY_ADD": (
        *(0x0E628020, 0x6E62A020, 0x0E22C020, 0x4F722820),  # smlal, umlsl2, smull, smlal2 by element
        *(0x0F52A020, 0x4EA29420, 0x6E229420, 0x6FA20020),  # smull by element, mla, mls, mla by element
    ),
    "OTHER_SIMD": (  # fadd, fmul by element, sqrdmulh, saddw, tbl, fmax
        *(0x4E22D420, 0x4F829020, 0x6EA2B420, 0x4FA2D020),
        *(0x0E221020, 0x4E020020, 0x1E224820),
    ),
    "LOAD_STORE": (0x4CDF7000, 0x3DC00820, 0xA8C107E0, 0xB9000020),  # ld1, ldr, ldp, str
    "BRANCH": (0x54000001, 0xB4000000, 0xD65F03C0, 0xD4000001),  # b.ne, cbz, ret, svc
    "SVE_SME": (0x04A20020,),
    "OTHER": (0x8B020020, 0x9B020C20, 0x528000E0, 0x90000000, 0x9A821020),  # add, madd, mov, adrp, csel
}
COUNTS = {"dot_product": 13, "load_store": 29, "other": 7}


@pytest.mark.parametrize("name", ENCODINGS)
def test_classes_of_instructions(name):
    """The patterns of the counter are tried in their order, as it does."""
    found = re.findall(r"\{(0x\w{8}), (0x\w{8}), (\w+)\}", COUNTER.read_text())
    patterns = [(int(mask, 16), int(bits, 16), kind) for mask, bits, kind in found]
    assert len(patterns) == 21
    for word in ENCODINGS[name]:
        kinds = [kind for mask, bits, kind in patterns if word & mask == bits]
        assert [*kinds, "OTHER"][0] == name, hex(word)


def test_samples_are_cut_into_runs_and_quantized():
    rows = np.arange(10, dtype="float32").reshape(5, 2)
    spec = {"name": "window", "dtype": "int8", "shape": [2, 2], "scale": 0.5, "zero_point": -3}
    (runs,) = feeding.take(rows, [spec], 8)
    assert runs.dtype == np.int8 and runs.shape == (3, 2, 2)
    assert runs.tolist() == [
        [[-3, -1], [1, 3]],
        [[5, 7], [9, 11]],
        [[13, 15], [13, 15]],
    ]
    (few,) = feeding.take(rows, [{**spec, "scale": None, "zero_point": None, "dtype": "float32"}], 1)
    assert few.tolist() == [[[0.0, 1.0], [8.0, 9.0]]]
    with pytest.raises(ValueError, match=r"`data`, input 'window': each sample must have shape \(2,\)"):
        feeding.take(rows[:, :1], [spec], 8)


def script(folder, name, text):
    """Write a program of the shell."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder that is all of PATH, with the shell's own tools."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "sleep", "kill"):
        if (found := shutil.which(name)) is not None:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("qemu-aarch64", r"qemu-aarch64 is missing: `apt-get install qemu-user`"),
        ("apt-get", r"apt-get is missing: .* with the tools of Debian"),
        ("apt-cache", r"apt-cache is missing"),
        ("dpkg-deb", r"dpkg-deb is missing"),
    ],
)
def test_a_missing_tool_is_named_with_the_cure(lacking, message, tools, tmp_path):
    for name in {"qemu-aarch64", "apt-get", "apt-cache", "dpkg-deb"} - {lacking}:
        script(tools, name, "exit 0")
    with pytest.raises(tflite.ConversionError, match=r"The arm64 test bed can't be made\. " + message):
        making.set_up(tmp_path / "bed", print)
    assert len(making.missing_tools()) == 1 and not (tmp_path / "bed").exists()


def test_pip_may_be_missing(tools, monkeypatch):
    monkeypatch.setattr(making.importlib.util, "find_spec", lambda name: None)
    assert re.search(r"pip is missing in this Python.*-m ensurepip", making.missing_tools()[-1])


def test_a_set_up_that_fails_leaves_nothing(tools, tmp_path):
    for name in ("qemu-aarch64", "apt-cache", "dpkg-deb"):
        script(tools, name, "exit 0")
    script(tools, "apt-get", "echo 'E: no network, says [red]apt[/red]' >&2; exit 100")
    said = []
    with pytest.raises(
        tflite.ConversionError, match=r"`apt-get .*` failed with exit code 100:\nE: no network"
    ):
        making.set_up(tmp_path / "new" / "bed", lambda step, text: said.append((step, text)))
    assert said == [(1, "reading the list of Debian's arm64 packages")]
    assert list((tmp_path / "new").iterdir()) == []
    script(tools, "apt-get", "exit 0")
    with pytest.raises(tflite.ConversionError, match=r"apt offers no arm64 Python \(python3-minimal\)"):
        making.set_up(tmp_path / "new" / "bed", lambda *_: None)


def fake_bed(folder, **changes):
    """Describe a bed that holds nothing."""
    packages = {beds.RUNTIME: beds.importlib.metadata.version(beds.RUNTIME), "numpy": "2.0", "ml-dtypes": "1"}
    described = {"format": 1, "python": "usr/bin/python3.11", "packages": packages, "counter": ""}
    (folder / beds.ROOT / "usr").mkdir(parents=True)
    (folder / beds.DESCRIPTION).write_text(json.dumps({**described, **changes}))
    return folder


@pytest.mark.parametrize(
    ("program", "seconds", "message"),
    [
        ("echo reference; echo xnnpack; kill -SEGV $$", 60, "by signal SIGSEGV while answering with XNNPACK"),
        ("echo reference; exit 139", 60, "by signal SIGSEGV while answering with the reference kernels"),
        ("echo 'no such CPU'; exit 1", 60, "with exit code 1 while starting Python.*log:\nno such CPU"),
        ("echo count; exec sleep 60", 0.3, "while counting instructions, it took more than 0.3 seconds"),
    ],
)
def test_a_crash_becomes_an_error(program, seconds, message, tools, tmp_path):
    script(tools, "qemu-aarch64", program)
    bed = beds.require(fake_bed(tmp_path / "bed"))
    (tmp_path / "work").mkdir()
    with pytest.raises(tflite.ConversionError, match=r"(?s)^Emulated cortex-a76: .*" + message):
        emulation.run(
            bed,
            PROCESSORS["cortex-a76"],
            tmp_path / "model.tflite",
            tmp_path / "inputs.npz",
            tmp_path / "work",
            count=False,
            seconds=seconds,
        )
    assert "0xd0b" in (tmp_path / "work" / "prefix" / "proc" / "cpuinfo").read_text()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small model as a file of integers throughout, and one of floats whose name is odd."""
    folder = tmp_path_factory.mktemp("arm64")
    keras.utils.set_random_seed(5)
    inputs = keras.Input((11, 7), name="window")
    x = layers.Dense(32, activation="relu")(inputs)
    x = layers.Dense(32, activation="relu")(x)
    classes = layers.Dense(5, activation="softmax", name="classes")(layers.Flatten()(x))
    model = keras.Model(inputs, classes)
    samples = np.random.default_rng(3).normal(size=(37, 11, 7)).astype("float32")
    np.savez(folder / "samples.npz", window=samples)
    made = {}
    for precision, name in (("int8_full", "integers"), ("float32", "flo[a]t 'ü$")):
        made[precision] = folder / f"{name}.tflite"
        result = tflite.convert(model, made[precision], precision=precision, calibration=samples, verbose=0)
        result.write_report(folder / f"{name}.json")
    return made


@pytest.fixture
def emulated(monkeypatch, tmp_path):
    """No emulation: each processor answers as this machine does, plus what the test adds to XNNPACK's."""
    added = {}
    monkeypatch.setattr(emulation, "version", lambda: "7.2.0")
    monkeypatch.setattr(beds.shutil, "which", lambda name: name)

    def run(bed, processor, model, inputs, folder, *, count, seconds):
        answers = emulation.read_answers(folder.parent / "here.npz")
        with np.load(inputs) as data:
            added["inputs"] = [data[str(number)] for number in range(len(data.files))]
        if processor.name in added:
            answers["xnnpack"] = [(a + added[processor.name]).astype(a.dtype) for a in answers["xnnpack"]]
        return answers, dict(COUNTS) if count else None

    monkeypatch.setattr(checking.emulation, "run", run)
    added["bed"] = fake_bed(tmp_path / "bed")
    return added


def invoke(*arguments):
    return CliRunner().invoke(main, ["arm64", *map(str, arguments)])


def test_golden_pairs_are_answered(files, emulated, capsys):
    check = tflite.check_arm64(files["int8_full"], bed=emulated["bed"], verbose=0)
    assert check.passed and check.faults == () and (check.source, check.samples) == ("calibration", 8)
    assert [processor.name for processor in check.processors] == list(PROCESSORS)
    assert emulated["inputs"][0].shape == (8, 1, 11, 7) and emulated["inputs"][0].dtype == np.int8
    (output,) = check.processors[0].outputs
    assert output.in_steps and output.reference.allowed == 0.0 and output.xnnpack.allowed == 2.0
    assert check.processors[1].total == 49
    check.print()
    printed = " ".join(capsys.readouterr().out.split())
    for words in (
        "8 samples (calibration)",
        "bits equal",
        "nothing",
        "2 steps",
        "26.5%",
        "Instructions are not time",
    ):
        assert words in printed, words


def test_a_difference_is_a_fault(files, emulated):
    emulated["armv8.6"] = 3
    result = invoke(files["int8_full"], "--bed", emulated["bed"], "--cpu", "cortex-a53", "-q")
    assert (result.exit_code, result.output) == (0, "")
    result = invoke(files["int8_full"], "--bed", emulated["bed"], "-q")
    assert result.exit_code == 1
    expected = "armv8.6, output 'classes': the XNNPACK kernels answer 3 steps away from those on "
    assert result.output.startswith(expected) and result.output.strip().endswith("where 2 is allowed")


def test_the_report_takes_the_result(files, emulated):
    file = files["float32"]
    report = file.with_suffix(".json")
    before = Report.read(report).with_device("tflite-micro", {"arena": 5}, file.read_bytes()).write(report)
    emulated["cortex-a76"] = np.float32(0.25)
    result = invoke(file, "--bed", emulated["bed"], "--report", report, "--no-count")
    assert result.exit_code == 1, result.output
    first = Report.read(before).devices
    assert list(first) == ["tflite-micro", *(f"{name} (emulated)" for name in PROCESSORS)]
    rows = first["cortex-a76 (emulated)"]
    assert rows["passed"] is False and rows["XNNPACK kernels differ by"] == pytest.approx(0.25, rel=1e-5)
    assert rows["XNNPACK kernels may differ by"] == 1e-6 and "executed instructions per run" not in rows
    del emulated["cortex-a76"]
    result = invoke(file, "--bed", emulated["bed"], "--report", report, "--cpu", "cortex-a76")
    assert result.exit_code == 0, result.output
    second = Report.read(report).devices
    assert second["cortex-a76 (emulated)"]["passed"] is True
    assert second["cortex-a76 (emulated)"]["executed instructions per run"] == 49
    assert {name: rows for name, rows in second.items() if name != "cortex-a76 (emulated)"} == {
        name: rows for name, rows in first.items() if name != "cortex-a76 (emulated)"
    }
    page = Report.read(report).write(report.with_suffix(".html")).read_text()
    assert "cortex-a76 (emulated)" in page and "Instructions are not time" in page


def test_a_report_of_another_file_is_refused_at_once(files, emulated, monkeypatch, tmp_path):
    monkeypatch.setattr(checking.emulation, "run", None)
    other = report_examples.small().write(tmp_path / "other.json")
    content = other.read_bytes()
    result = invoke(files["float32"], "--bed", emulated["bed"], "--report", other)
    assert result.exit_code == 1 and "report is of another file" in result.output
    assert other.read_bytes() == content
    result = invoke(files["float32"], "--bed", emulated["bed"], "--report", tmp_path / "gone.json")
    assert result.exit_code == 1 and "No such file" in result.output


def test_samples_of_the_user_and_random_ones(files, emulated, tmp_path):
    data = files["float32"].with_name("samples.npz")
    check = tflite.check_arm64(files["int8_full"], data=data, samples=5, bed=emulated["bed"], verbose=0)
    assert (check.source, check.samples) == ("data", 5) and emulated["inputs"][0].shape == (5, 1, 11, 7)
    assert len(np.unique(emulated["inputs"][0])) > 100
    foreign = tmp_path / "foreign.tflite"
    stripped = re.sub(b"keras_attention_manifest", b"somebody_elses_manifest_", files["float32"].read_bytes())
    foreign.write_bytes(stripped)
    check = tflite.check_arm64(foreign, processors=["armv8.6"], count=False, bed=emulated["bed"], verbose=0)
    assert (check.source, check.samples) == ("random values", 1) and check.processors[0].total is None


def test_what_is_not_there(files, emulated, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`path` must be a \.tflite file\. No such file: '.*gone\.tflite'"
    ):
        tflite.check_arm64(tmp_path / "gone.tflite")
    (tmp_path / "notes.tflite").write_text("no file of this kind, to be sure")
    with pytest.raises(tflite.ConversionError, match=r"notes\.tflite' can't be run\. While reading the file"):
        tflite.check_arm64(tmp_path / "notes.tflite", bed=emulated["bed"], verbose=0)
    lame = fake_bed(tmp_path / "lame", counter="there was no C compiler")
    with pytest.raises(
        tflite.ConversionError, match=r"can't be counted, since there was no C compiler.*--no-count"
    ):
        tflite.check_arm64(files["float32"], bed=lame, verbose=0)
    assert invoke().exit_code == 2 and "Name a .tflite FILE, or --setup" in invoke().output
