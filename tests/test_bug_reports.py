"""The models of public bug reports: the list, the checks, and a part of it that holds.

The whole list is a benchmark (`python -m benchmarks.bug_reports`); here is one case of each kind.
"""

import dataclasses
import math
import posixpath
import re
import signal

import keras
import numpy as np
import pytest

from benchmarks.bug_reports import reporting
from benchmarks.bug_reports.case import BOUNDS
from benchmarks.bug_reports.case import FLOORS
from benchmarks.bug_reports.case import Expectation
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import measure
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.converting import Attempt
from benchmarks.bug_reports.families import CASES
from benchmarks.bug_reports.families import FAMILIES
from benchmarks.bug_reports.isolation import Ended
from benchmarks.bug_reports.isolation import Failed
from benchmarks.bug_reports.isolation import Isolated
from benchmarks.bug_reports.judging import Verdict
from benchmarks.bug_reports.judging import judge
from benchmarks.bug_reports.running import Facts
from benchmarks.bug_reports.running import quantized_input

REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")
CONVERTED = [
    ("gru_step", "int8"),
    ("masked_bidirectional", "dynamic"),
    ("attention_penalty_1e9", "float16"),
    ("padding_penalty_infinite", "float32"),
    ("batch_norm_conv_relu_norm", "float32"),
    ("cbam_reduce", "int8"),
    ("half_precision_convolution", "float32"),
    ("image_uint8_input", "int8"),
    ("token_ids_int64", "dynamic"),
    ("tiny_gate", "float16"),
    ("calibration_uint8_codes", "int8"),
    ("weight_nan", "dynamic"),
    ("origin_sequential_unbuilt", "float32"),
    ("custom_lambda_keras_file", "float16"),
]
"""Of each family an accepted and, where there is one, a refused model."""


def test_names_are_unique():
    assert len(CASES) == sum(len(cases) for cases in FAMILIES.values()) == 116
    assert all(re.fullmatch(r"[a-z][a-z0-9_]+", name) for name in CASES)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_cases_are_well_formed(case):
    assert case.reports and all(REPORT.fullmatch(report) for report in case.reports)
    assert len(case.fault) > 12 and case.fault.endswith(".")
    assert case.expect and set(case.expect) <= set(FLOORS)
    for expected in case.expect.values():
        if expected.outcome == "refusal":
            assert expected.message and not expected.bounds
        else:
            assert expected.outcome in ("file", "either") and expected.bounds and not expected.message
            assert set(expected.bounds) <= {*BOUNDS, "max_versions"}


@pytest.mark.parametrize("name", ["lstm", "gru_step", "image_uint8_input", "padding_penalty_1e9"])
def test_samples_are_the_same_each_time_and_evaluation_is_not_calibration(name):
    case = CASES[name]
    first, again, others = (
        keras.tree.flatten(make(7)) for make in (case.inputs, case.inputs, case.calibration)
    )
    for a, b, c in zip(first, again, others, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.shape == c.shape and a.dtype == c.dtype and len(a) == 7
    assert any(not np.array_equal(a, c) for a, c in zip(first, others, strict=True))


def test_a_model_has_the_same_weights_each_time():
    first, again = CASES["lstm"].build(), CASES["lstm"].build()
    assert len(first.get_weights()) == 5
    for a, b in zip(first.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_measure():
    # Powers 9 + 16 and 0.09 + 0.16: 100 to 1.
    scores = measure(np.array([[3.0, 4.0]]), np.array([[3.3, 4.4]]))
    assert scores["min_sqnr_db"] == pytest.approx(20.0)
    assert scores["max_abs"] == pytest.approx(0.4)
    # The second output is worse: noise 1 in channel 0 of power 4, and the argmax of one row of two differs.
    pair = [np.array([[10.0]]), np.array([[2.0, 1.5], [0.0, 5.0]])]
    scores = measure(pair, [np.array([[10.0]]), np.array([[1.0, 1.5], [0.0, 5.0]])])
    assert scores["min_channel_sqnr_db"] == pytest.approx(10 * np.log10(4))
    assert scores["min_agreement"] == 0.5
    assert np.isnan(measure(np.ones((2, 3)), np.full((2, 3), np.nan))["min_sqnr_db"])
    with pytest.raises(ValueError, match=r"shape \(1, 2\) where Keras' has \(1, 3\)"):
        measure(np.ones((1, 3)), np.ones((1, 2)))


@pytest.fixture
def process(tmp_path):
    isolated = Isolated(str(tmp_path))
    yield isolated
    isolated.close()


def test_a_process_that_ends_is_told_and_replaced(process):
    assert process.call(posixpath.basename, "a/b") == "b"
    with pytest.raises(Ended, match=r"process ended by SIGSEGV"):
        process.call(signal.raise_signal, signal.SIGSEGV)
    assert process.call(posixpath.basename, "a/c") == "c"
    with pytest.raises(Failed, match=r"ValueError: math domain error"):
        process.call(math.sqrt, -1.0)


class Answers:
    """Stands in for a process: returns what it was given, or raises it."""

    def __init__(self, answer, *files):
        self.answer, self.files = answer, files

    def call(self, function, *args):
        for path in self.files:
            path.touch()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


SAMPLES = np.arange(6, dtype="int64").reshape(3, 2)
REFERENCE = np.array([[3.0, 4.0]] * 3)
GOOD = Facts(
    outputs=[REFERENCE * 1.1],
    is_repeatable=True,
    input_types={"x": "int32"},
    partitions=1,
    is_whole=True,
    kilobytes=3.0,
    versions={"FULLY_CONNECTED": 9},
    custom=[],
    float_tensors=0,
    int8_weights=1,
)


WRITTEN = ("model.manifest.json", "model.tflite")


def judged(folder, expected, attempt, facts=GOOD, precision="int8_full", wrote=WRITTEN):
    case = define("some", normal(2), reports=(), fault="", build=None, expect={precision: expected})
    converter = Answers(attempt, *(folder / name for name in wrote))
    return judge(case, precision, folder, converter, Answers(facts))


def refused(message, is_refusal=True):
    return Attempt(message, is_refusal, SAMPLES, [], False)


RETURNED = Attempt("", False, SAMPLES, [REFERENCE], True)
FILE = Expectation("file", {"min_sqnr_db": 19.9, "max_partitions": 1, "max_versions": {"FULLY_CONNECTED": 9}})
REFUSAL = Expectation("refusal", message="Hidden")
EITHER = Expectation("either", {"min_sqnr_db": 19.9})


@pytest.mark.parametrize("expected", [FILE, EITHER], ids=["file", "either"])
def test_a_file_within_the_bounds_is_ok(tmp_path, expected):
    verdict = judged(tmp_path, expected, RETURNED)
    assert (verdict.outcome, verdict.detail) == ("ok", "")
    assert verdict.scores["min_sqnr_db"] == pytest.approx(20.0)


@pytest.mark.parametrize("expected", [REFUSAL, EITHER], ids=["refusal", "either"])
def test_a_refusal_that_says_why_is_right(tmp_path, expected):
    verdict = judged(tmp_path, expected, refused("ValueError: layer 'hidden' ..."), wrote=())
    assert (verdict.outcome, verdict.detail) == ("refused", "ValueError: layer 'hidden' ...")


@pytest.mark.parametrize(
    ("expected", "attempt", "wrote", "detail"),
    [
        (FILE, refused("ValueError: no"), (), r"refused: ValueError: no"),
        (REFUSAL, refused("ValueError: no"), (), r"the message lacks 'Hidden': ValueError: no"),
        (EITHER, refused("KeyError: 3", False), (), r"an error of the wrong kind: KeyError: 3"),
        (REFUSAL, refused("ValueError: hidden"), ("a.tmp",), r"refused, and left \['a.tmp'\]"),
        (REFUSAL, RETURNED, ("model.tflite",), r"a file instead of: 'Hidden'"),
        (FILE, RETURNED, (), r"the folder holds \[\]"),
        (FILE, Ended("process ended by SIGSEGV"), (), r"convert: process ended by SIGSEGV"),
    ],
)
def test_faults_of_a_conversion(tmp_path, expected, attempt, wrote, detail):
    verdict = judged(tmp_path, expected, attempt, wrote=wrote)
    assert verdict.outcome == "fault" and re.fullmatch(detail, verdict.detail)


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"outputs": [REFERENCE * 1.2]}, r"sqnr_db 13\.98, at least 19\.9 wanted"),
        ({"outputs": [REFERENCE * np.nan]}, r"sqnr_db nan, at least 19\.9 wanted"),
        ({"outputs": [REFERENCE[:, :1]]}, r"running the file: an output has shape \(3, 1\).*"),
        ({"is_repeatable": False}, r"a second run answers otherwise"),
        (
            {"input_types": {"x": "int8 quantized"}},
            r"an input of type int8 quantized where Keras takes int64",
        ),
        ({"partitions": 2}, r"partitions 2, at most 1 wanted"),
        ({"is_whole": False}, r"partitions 2, at most 1 wanted"),
        ({"versions": {"FULLY_CONNECTED": 12}}, r"FULLY_CONNECTED of version 12, at most 9 allowed"),
        ({"custom": ["FlexErf"]}, r"operators that are not builtin: FlexErf"),
        ({"float_tensors": 2}, r"2 float tensors"),
        ({"int8_weights": 0}, r"no int8 weights"),
    ],
)
def test_faults_of_a_file(tmp_path, changes, detail):
    verdict = judged(tmp_path, FILE, RETURNED, dataclasses.replace(GOOD, **changes))
    assert verdict.outcome == "fault" and re.fullmatch(detail, verdict.detail)


def test_the_page_names_every_fault():
    verdicts = [
        Verdict("lstm", "int8", "ok", scores={"min_sqnr_db": 41.2}),
        Verdict("weight_nan", "int8", "refused", "ConversionError: ..."),
        Verdict("gru", "int8", "fault", "process ended by SIGSEGV"),
    ]
    text = reporting.page_text(verdicts, ["int8"])
    assert "| ok | 1 |" in text and "| refused rightly | 1 |" in text and "| fault | 1 |" in text
    assert re.search(r"\| `lstm` \| .+ \| ok, 41 dB \|", text)
    assert "- gru, int8: process ended by SIGSEGV" in text


@pytest.mark.parametrize(
    ("values", "kind", "quantization", "wanted"),
    [
        (np.array([0.0, 1.0, -1.0, 99.0], "float32"), "int8", (0.5, 3), [3, 5, 1, 127]),
        (np.array([0.25, -0.5], "float32"), "int16", (2.0**-10, 0), [256, -512]),
        (np.array([7, 299], "int64"), "int32", (0.0, 0), [7, 299]),
        (np.array([7.0, 299.0], "float32"), "int32", (0.0, 0), [7, 299]),
        (np.array([0, 255], "uint8"), "uint8", (1.0, 0), [0, 255]),
    ],
)
def test_samples_in_the_type_that_the_file_takes(values, kind, quantization, wanted):
    got = quantized_input(values, {"dtype": np.dtype(kind).type, "quantization": quantization})
    assert got.dtype == kind
    np.testing.assert_array_equal(got, wanted)


def test_samples_that_the_file_cannot_take():
    with pytest.raises(ValueError, match=r"the file takes int8, which cannot hold the samples"):
        quantized_input(np.array([7, 299]), {"dtype": np.int8, "quantization": (1.0, 0)})


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """One process that converts and one that runs files, for all cases."""
    folder = str(tmp_path_factory.mktemp("processes"))
    pair = Isolated(folder), Isolated(folder)
    yield pair
    for process in pair:
        process.close()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), CONVERTED, ids=lambda value: value)
def test_what_was_reported_holds(name, precision, processes, tmp_path):
    verdict = judge(CASES[name], precision, tmp_path, *processes)
    wanted = "refused" if CASES[name].expect[precision].outcome == "refusal" else "ok"
    assert (verdict.outcome, verdict.detail if wanted == "ok" else "") == (wanted, ""), verdict.detail
