"""Which file `auto` takes, on candidates with numbers of our own: no clock decides a test."""

from pathlib import Path

import numpy as np
import pytest

from keras_attention.tflite import ConversionError
from keras_attention.tflite import choosing
from keras_attention.tflite.building import Candidate

SIZES = {"float32": 400, "float16": 200, "dynamic": 120, "int8": 130, "int8_full": 100, "int16x8": 150}
TIMES = {"float32": 1.0, "float16": 1.0, "dynamic": 0.9, "int8": 0.6, "int8_full": 3.0, "int16x8": 30.0}


def judged(precision, layers=(), faults=(), times=TIMES, floats=0, noisy=()):
    rows = tuple({"layer": name} for name in noisy)
    candidate = Candidate(
        precision=precision,
        float_layers=tuple(layers),
        folder=Path("nowhere"),
        content=b"x" * (1000 * SIZES[precision] + 7000 * len(layers)),
        answers=[np.zeros((3, 2))],
        latency={"min": times[precision], "median": times[precision], "float32_min": 1.0},
        quantization={"sensitivity": rows},
        file={"tensor_dtypes": {"float32": floats}, "fully_delegated": True, "delegate_partitions": 1},
    )
    return choosing.Judged(candidate, {"agreement": 0.9, "sqnr_db": 30.0, "metric": None}, list(faults))


def choose(target="cpu", loops=False, **options):
    made = []

    def make(precision, layers):
        made.append((precision, tuple(layers)))
        changed = {key: value(precision, layers) for key, value in options.items()}
        return judged(precision, layers, **changed)

    return choosing.choose(make, target, loops=loops), made


def test_the_least_size_times_latency_is_taken():
    choice, made = choose()
    assert [precision for precision, _ in made] == ["float32", "float16", "dynamic", "int8"]
    assert choice.best.candidate.precision == "int8" and "least size times latency" in choice.reason
    assert [row["chosen"] for row in choice.rows] == [False, False, False, True]


def test_a_slow_file_is_not_for_a_cpu():
    choice, _ = choose(times=lambda *_: {**TIMES, "int8": 1.2})
    assert choice.best.candidate.precision == "dynamic"
    assert "takes 1.20 times as long as float32" in choice.rows[-1]["remark"]


def test_noisy_layers_are_left_in_float_until_the_floor_is_kept():
    def faults(precision, layers):
        return ["agreement"] if precision == "int8" and len(layers) < 2 else []

    choice, made = choose(faults=faults, noisy=lambda *_: ("bad", "reader", "third"))
    assert made[4:] == [("int8", ("bad",)), ("int8", ("bad", "reader"))]
    assert choice.best.candidate.float_layers == ("bad", "reader")
    assert "in float: bad, reader" in choice.rows[-1]["remark"]


@pytest.mark.parametrize("target", ["npu", "microcontroller"])
def test_only_whole_integer_files_serve_there(target):
    choice, made = choose(target, floats=lambda precision, _: 2 if precision == "int8_full" else 0)
    assert [precision for precision, _ in made] == ["int8_full", "int16x8"]
    assert choice.best.candidate.precision == "int16x8" and "only one of 2" in choice.reason
    assert choice.rows[0]["remark"] == "tensors stay float"


def test_loops_are_told_and_float_is_taken():
    choice, made = choose(loops=True)
    assert [precision for precision, _ in made] == ["float32", "float16"]
    assert choice.best.candidate.precision == "float16"
    assert sum("loop can't be quantized" in row["remark"] for row in choice.rows) == 2


def test_none_passes():
    choice, _ = choose(faults=lambda *_: ["agreement"])
    assert not any(row["passes"] for row in choice.rows) and choice.reason.startswith("None of 4 files")


def test_none_can_be_made():
    def make(precision, layers):
        raise ConversionError(f"{precision} has no kernel")

    with pytest.raises(ConversionError, match=r"No file for target='npu' can be made\. int8_full: "):
        choosing.choose(make, "npu", loops=False)
