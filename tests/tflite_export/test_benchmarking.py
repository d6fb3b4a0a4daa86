"""`benchmark`: real files, one that ends its process, bad arguments; statistics on made-up times."""

import dataclasses
import io
import json
import re
import signal
import subprocess
import sys

import click.testing
import numpy as np
import pytest
from rich.console import Console

from keras_attention.tflite import Benchmark
from keras_attention.tflite import ConversionError
from keras_attention.tflite import FileTimes
from keras_attention.tflite import benchmark
from keras_attention.tflite import benchmark_results
from keras_attention.tflite import child
from keras_attention.tflite import command_line
from keras_attention.tflite import profiling

START = subprocess.Popen


@pytest.fixture
def file(float_file, tmp_path):
    """A function: name -> the float32 file of that case, in this test's folder."""

    def write(name):
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(float_file(name))
        return path

    return write


@pytest.fixture
def deadly(monkeypatch):
    """Files called deadly.tflite end the process that loads them."""

    def start(command, **options):
        job = json.loads((options["cwd"] / "job.json").read_text())
        if job.get("file", "").endswith("deadly.tflite"):
            stage = json.dumps({"stage": "load", "done": 0, "total": 0})
            end = f"import os; print({stage!r}, flush=True); os.kill(os.getpid(), {int(signal.SIGSEGV)})"
            command = [sys.executable, "-c", end]
        return START(command, **options)

    monkeypatch.setattr(child.subprocess, "Popen", start)


def quickly(paths, **options):
    return benchmark(paths, seconds=0.01, verbose=0, **options)


def printed(result):
    console = Console(width=200, record=True, file=io.StringIO())
    result.print(console)
    return console.export_text()


# --- real files


def test_two_files_with_a_profile(file):
    paths = [file("transformer"), file("tokens")]
    result = quickly(paths, profile=True)
    first, second = result.files
    assert result.failures == {} and (result.num_threads, result.inputs) == (1, "random")
    assert (first.path, first.size_bytes) == (str(paths[0]), paths[0].stat().st_size)
    assert (first.ratio, first.ratio_low, first.ratio_high) == (1.0, 1.0, 1.0)
    assert second.ratio_low <= second.ratio <= second.ratio_high
    for one in result.files:
        assert one.runs >= 20 and one.runs % 5 == 0
        assert 0 < one.min_ms <= one.median_ms <= one.p95_ms and one.min_ms <= one.mean_ms
        assert one.load_ms > 0
        assert 100_000 < one.memory_bytes < 200_000_000
        assert sum(operator.share for operator in one.operators) == pytest.approx(1.0)
    assert (first.partitions, first.fully_delegated) == (1, True)
    inside, count = first.accelerator.removeprefix("XNNPACK, ").split()[:3:2]
    assert inside == count
    assert {operator.engine for operator in first.operators} == {"XNNPACK"}
    names = [operator.name for operator in first.operators]
    assert sum(name.startswith("Fully Connected") for name in names) == 8
    assert sum(name.startswith("Softmax") for name in names) == 2
    assert not second.fully_delegated and "GATHER" in {
        operator.name for operator in second.operators if operator.engine == "built-in"
    }
    inside, count = second.accelerator.removeprefix("XNNPACK, ").split()[:3:2]
    assert 0 < int(inside) < int(count)
    assert "do not predict those of a phone" in result.remarks[-1]


def test_two_inputs_given_by_name_and_the_same_file_twice(file):
    path = file("swapped")
    given = {"apple": np.ones((3, 7), np.float32), "zebra": np.full((3, 5), 0.5)}
    result = quickly([path, path], inputs=given, num_threads=2, profile=True)
    assert result.inputs == "given" and result.num_threads == 2 and len(result.files) == 2
    assert result.files[0].operators == result.files[1].operators != ()


def test_quantized_file(converted):
    result = quickly(converted("cnn", "int8").path, profile=True)
    names = [operator.name for operator in result.files[0].operators]
    assert any("QS8" in name or "QC8" in name for name in names), names


def test_a_file_that_ends_its_process_costs_only_itself(file, deadly, tmp_path):
    good, bad = file("dense"), tmp_path / "deadly.tflite"
    bad.write_bytes(good.read_bytes())
    result = quickly([bad, good])
    assert [one.path for one in result.files] == [str(good)]
    assert list(result.failures) == [str(bad)]
    assert "deadly.tflite' can't be measured" in result.failures[str(bad)]
    assert "ended by signal SIGSEGV while loading" in result.failures[str(bad)]
    assert any("ratios are against dense.tflite" in remark for remark in result.remarks)


def test_no_file_is_left(deadly, tmp_path):
    bad = tmp_path / "deadly.tflite"
    bad.write_bytes(b"\x1c\x00\x00\x00TFL3")
    with pytest.raises(ConversionError, match=r"No file could be measured.*deadly\.tflite.*SIGSEGV"):
        quickly(bad)


def test_damaged_file_is_a_failure(tmp_path):
    bad = tmp_path / "cut.tflite"
    bad.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(range(97)))
    with pytest.raises(ConversionError, match=r"cut\.tflite' can't be measured\. While loading"):
        quickly(bad)


# --- the command


@pytest.fixture
def run():
    runner = click.testing.CliRunner()
    return lambda *arguments: runner.invoke(command_line.main, ["benchmark", *map(str, arguments)])


def test_command_writes_json_and_says_which_file_failed(run, file, deadly, tmp_path):
    good, bad, out = file("dense"), tmp_path / "deadly.tflite", tmp_path / "times.json"
    bad.write_bytes(good.read_bytes())
    np.savez(tmp_path / "inputs.npz", features=np.ones((2, 7)), targets=np.zeros(2))
    result = run(good, good, bad, "--seconds", "0.01", "--inputs", tmp_path / "inputs.npz", "--json", out)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert result.stderr.count("Error: ") == 1 and "SIGSEGV" in result.stderr
    assert "dense.tflite is " in result.stdout and "note: measured on" in result.stdout
    written = json.loads(out.read_text())
    assert set(written) == set(Benchmark.__dataclass_fields__)
    assert written["inputs"] == "given" and list(written["failures"]) == [str(bad)]
    assert [set(one) for one in written["files"]] == [set(FileTimes.__dataclass_fields__)] * 2


def test_command_refuses_to_overwrite_what_it_measures(run, file):
    path = file("dense")
    before = path.read_bytes()
    result = run(path, "--json", path)
    assert result.exit_code == 1 and "--json would overwrite a file to measure" in result.stderr
    assert path.read_bytes() == before
    assert run().exit_code == 2


# --- arguments


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"num_threads": 0}, ValueError, r"`num_threads` must be an integer >= 1\. Received: 0"),
        ({"num_threads": 1.5}, ValueError, r"`num_threads` must be an integer >= 1\. Received: 1\.5"),
        ({"warmup": -1}, ValueError, r"`warmup` must be an integer >= 0\. Received: -1"),
        ({"seconds": 0}, ValueError, r"`seconds` must be a number > 0.*Received: 0"),
        ({"seconds": float("nan")}, ValueError, r"`seconds` must be a number > 0.*Received: nan"),
        ({"seconds": "1"}, TypeError, r"`seconds` must be a number > 0\. Received: '1'"),
    ],
)
def test_wrong_numbers(tmp_path, options, error, said):
    path = tmp_path / "any.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3")
    with pytest.raises(error, match=said):
        benchmark(path, **options)


def test_wrong_paths(tmp_path):
    text = tmp_path / "model.keras"
    text.write_text("this is no such file")
    with pytest.raises(FileNotFoundError, match=r"`paths` must be \.tflite files\. No such file: .*gone"):
        benchmark([tmp_path / "gone.tflite"])
    with pytest.raises(ValueError, match=r"model\.keras' is not one: its mark.*keras-attention convert"):
        benchmark([text])
    with pytest.raises(ValueError, match=r"`paths` must name at least one"):
        benchmark([])
    with pytest.raises(TypeError, match=r"`paths` must be the path.*Received: \[3\]"):
        benchmark([3])


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (
            {"feature": np.ones((1, 7))},
            ValueError,
            r"'dense\.tflite', which are \['features'\].*\['feature'\]",
        ),
        (np.ones((2, 5)), ValueError, r"input 'features' of 'dense\.tflite'.*\(samples, 7\).*\(2, 5\)"),
        (np.ones(7), ValueError, r"at least 1 sample.*\(7,\).*array\[None\]"),
        (np.full((1, 7), np.nan), ValueError, "holds NaN"),
        (np.array([["a"] * 7]), TypeError, "must be an array of numbers"),
    ],
)
def test_wrong_inputs(file, given, error, said):
    with pytest.raises(error, match=said):
        quickly(file("dense"), inputs=given)


# --- statistics and words


def times_of(rounds, factor=1.0):
    """Times of a machine that is ten times slower in every other round, for all files alike."""
    generator = np.random.default_rng(7)
    slow = np.where(np.arange(rounds) % 2, 10.0, 1.0)[:, None]
    return factor * slow * generator.uniform(0.98, 1.02, (rounds, 5))


def test_paired_ratio_survives_a_machine_that_slows_down():
    reference = times_of(101)
    generator = np.random.default_rng(8)
    times = 1.25 * reference * generator.uniform(0.98, 1.02, reference.shape)
    ratio, low, high = benchmark_results.paired_ratio(times, reference)
    assert low < ratio < high and high - low < 0.02
    assert ratio == pytest.approx(1.25, rel=0.01)
    assert benchmark_results.paired_ratio(reference, reference) == (1.0, 1.0, 1.0)


def test_latency_by_hand():
    times = np.arange(1.0, 102.0).reshape(-1, 1)
    assert benchmark_results.latency(times) == {
        "runs": 101,
        "min_ms": 1.0,
        "median_ms": 51.0,
        "mean_ms": 51.0,
        "p95_ms": 96.0,
    }


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ((1.4, 1.3, 1.5), "SLOWER than float.tflite: it takes 1.40 x its time"),
        ((0.5, 0.4, 0.6), "faster than float.tflite: it takes 0.50 x its time"),
        ((1.4, 0.9, 1.9), "as fast as float.tflite, as far as this run can tell (1.40 x its time)"),
        ((1.02, 1.01, 1.03), "as fast as float.tflite, as far as this run can tell (1.02 x its time)"),
    ],
)
def test_verdict(ratio, said):
    assert benchmark_results.verdict(*ratio, "float.tflite") == said


def made_up(path, p95=1.1, partitions=1, memory=None):
    return FileTimes(
        *(path, 1234, 20, 1.0, 1.05, 1.06, p95, 1.4, 1.3, 1.5, "SLOWER than a.tflite: see", 2.5, memory),
        *("XNNPACK, 7 of 8 operators", partitions, False),
    )


def test_table_and_remarks():
    files = (made_up("x/a.tflite", memory=3_400_000), made_up("y/a.tflite", p95=9.0, partitions=3))
    remarks = tuple(benchmark_results.noise_remarks(files))
    assert len(remarks) == 1 and "y/a.tflite" in remarks[0] and "x/a.tflite" not in remarks[0]
    assert benchmark_results.noise_remarks(files[:1]) == []
    text = printed(Benchmark(files, {}, 2, 1.0, 5, "random", {}, remarks))
    for words in ("2 threads", "x/a.tflite", "3.4 MB", "unknown", "1.40", "1.30 to 1.50", "1.2 kB"):
        assert words in text
    for words in ("7 of 8 operators, 3 partitions", "y/a.tflite is SLOWER than", "note: the times scatter"):
        assert words in text
    assert "x/a.tflite is" not in text


def test_tables_at_80_columns():
    """Names break behind their separators, numbers nowhere."""
    names = ("activity_transformer_float32.tflite", "activity_transformer_int8_full.tflite")
    slow = {"min_ms": 12.34, "median_ms": 13.579, "ratio": 165.42}
    files = tuple(
        dataclasses.replace(
            made_up(f"models/{name}", p95=18.567, memory=123_456_789),
            **slow,
            ratio_low=160.11,
            ratio_high=171.98,
        )
        for name in names
    )
    result = Benchmark(files, {}, 1, 1.0, 5, "random", {}, ())
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(result.table())
    console.print(result.cost_table())
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    words = {cell.strip() for line in lines for cell in re.split("[│┃]", line)}
    assert {"min", "median", "x first", "95 % range", "size", "load", "memory", "engine"} <= words
    assert {"165.42", "160.11 to 171.98", "12.340", "13.579", "18.567", "123.5 MB", "1.2 kB"} <= words
    assert {"activity_", "transformer_", "float32.tflite", "transformer_int8_", "full.tflite"} <= words


SUMMARY = """
======= Run Order =======
      [node type]  [start] [first] [avg ms]     [%]    [cdf%]  [mem KB] [times called]  [Name]
  Delegate/Softmax (NC, F32)   0.000   0.973   0.030   15.000%   15.000%   0.000   50   [Delegate]:4
                       WHILE   0.000   0.973   3.906   80.000%   95.000%   0.000   50   [Builtin]:11
                         ADD   0.065   0.001   0.001    5.000%  100.000%   0.000  850   [Builtin]:0
======= Top by Computation Time =======
  Delegate/Softmax (NC, F32)   0.000   0.973   0.030   15.000%   15.000%   0.000   50   [Delegate]:4
"""


def test_profile_counts_the_inside_of_a_loop_once():
    softmax, add = profiling.read_summary(SUMMARY, 50)
    assert softmax == {
        "name": "Softmax (NC, F32)",
        "engine": "XNNPACK",
        "calls": 1.0,
        "milliseconds": 0.03,
        "share": 0.75,
    }
    assert (add["name"], add["engine"], add["calls"], add["share"]) == ("ADD", "built-in", 17.0, 0.25)
    assert add["milliseconds"] == pytest.approx(0.017)
    with pytest.raises(RuntimeError, match="listed no operator"):
        profiling.read_summary("nothing", 50)


def test_profile_is_the_median_of_groups():
    def group(first, second):
        whole = first + second or 1.0
        shares = (first / whole, second / whole)
        return [
            {"name": n, "milliseconds": m, "share": s}
            for n, m, s in zip("ab", (first, second), shares, strict=True)
        ]

    rows = profiling.median_rows([group(3.0, 1.0), group(3.0, 90.0), group(6.0, 2.0)])
    assert rows == [
        {"name": "a", "milliseconds": 3.0, "share": 0.75},
        {"name": "b", "milliseconds": 2.0, "share": 0.25},
    ]
    # most groups saw no tick of the clock
    seldom = profiling.median_rows([group(0.0, 0.0), group(3.0, 1.0), group(0.0, 0.0)])
    assert [row["share"] for row in seldom] == [0.75, 0.25] and seldom[0]["milliseconds"] == 1.0
    assert [row["share"] for row in profiling.median_rows([group(0.0, 0.0)])] == [0.0, 0.0]
