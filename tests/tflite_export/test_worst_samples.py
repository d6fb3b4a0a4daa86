"""Which samples are called the worst, and which of their values are shown."""

import numpy as np
import pytest

from keras_attention.tflite import worst_samples


def test_order_and_limits():
    reference = np.zeros((11, 3), np.float32)
    reference[:, 1] = 1.0
    result = reference.copy()
    for place, error in {3: 0.25, 7: -2.0, 10: 0.5}.items():
        result[place, place % 3] += error
    found = worst_samples.find([reference], [result], ["classification"], ["answer"])
    assert [(row["index"], row["max_abs_error"], row["agrees"]) for row in found] == [
        (7, 2.0, False),
        (10, 0.5, True),
        (3, 0.25, True),
    ]
    assert found[0] == {
        "index": 7,
        "output": "answer",
        "keras": [0.0, 1.0, 0.0],
        "tflite": [0.0, -1.0, 0.0],
        "first": 0,
        "max_abs_error": 2.0,
        "agrees": False,
    }
    many = worst_samples.find([reference], [reference + np.arange(11)[:, None]], ["regression"], ["y"])
    assert [row["index"] for row in many] == [10, 9, 8, 7, 6, 5, 4, 3]
    assert worst_samples.find([reference], [reference], ["regression"], ["y"]) == ()


def test_outputs_are_compared_by_their_range():
    """An error of 5 in thousands is less than one of 0.5 in a probability."""
    large = np.linspace(0.0, 1000.0, 7)[:, None]
    share = np.linspace(0.0, 1.0, 7)[:, None]
    errors = np.zeros((7, 1))
    errors[2] = 5.0
    half = np.zeros((7, 1))
    half[[2, 4]] = [[0.001], [0.5]]
    found = worst_samples.find(
        [large, share], [large + errors, share - half], ["regression", "classification"], ["load", "risk"]
    )
    assert [(row["index"], row["output"], row["max_abs_error"]) for row in found] == [
        (4, "risk", 0.5),
        (2, "load", 5.0),
    ]
    assert [row["agrees"] for row in found] == [False, True]


def test_what_is_not_finite_comes_first():
    reference = np.ones((5, 2))
    result = reference + 0.1
    result[3, 1] = np.nan
    found = worst_samples.find([reference], [result], ["regression"], ["y"])
    assert found[0]["index"] == 3 and found[0]["max_abs_error"] == np.inf and not found[0]["agrees"]
    assert np.isnan(found[0]["tflite"][1]) and found[0]["tflite"][0] == 1.1


@pytest.mark.parametrize(
    ("shape", "place", "first", "count"),
    [
        ((), 0, 0, 1),
        ((32,), 31, 0, 32),
        ((13, 7), 45, 42, 7),  # the row
        ((3, 41), 41, 41, 32),  # the head of a long row
        ((3, 41), 70, 54 - 4, 32),  # its end
        ((2, 101), 150, 134, 32),  # the middle
    ],
)
def test_part_with_the_largest_error(shape, place, first, count):
    size = int(np.prod(shape))
    reference = np.arange(3 * size, dtype=np.float32).reshape(3, *shape)
    result = reference.copy()
    result.reshape(3, -1)[1, place] += 999
    (found,) = worst_samples.find([reference], [result], ["regression"], ["y"])
    assert (found["index"], found["first"], len(found["keras"])) == (1, first, count)
    assert found["keras"] == [float(size + first + offset) for offset in range(count)]
    assert found["tflite"][place - first] - found["keras"][place - first] == 999.0


def test_integers():
    reference = np.array([[3, 4], [5, 6], [7, 8]])
    (found,) = worst_samples.find(
        [reference], [reference + np.array([[0, 0], [0, 2], [0, 0]])], ["labels"], ["ids"]
    )
    assert (found["index"], found["keras"], found["tflite"]) == (1, [5.0, 6.0], [5.0, 8.0])
    assert found["agrees"] is False


def test_in_the_report_of_a_conversion(converted):
    got = converted("swapped", "dynamic")
    rows = got.result.report.worst_samples
    assert len(rows) == 8 and {row["output"] for row in rows} <= {"zeta", "alpha"}
    assert max(row["max_abs_error"] for row in rows) == pytest.approx(got.result.report.max_abs_error)
    outputs = dict(zip(["zeta", "alpha"], got.expected, strict=True))
    for row in rows:
        np.testing.assert_allclose(row["keras"], outputs[row["output"]][row["index"]], rtol=1e-6)
        errors = np.abs(np.subtract(row["keras"], row["tflite"]))
        assert errors.max() == pytest.approx(row["max_abs_error"])
    assert got.result.report.model_name == got.case.model.name
