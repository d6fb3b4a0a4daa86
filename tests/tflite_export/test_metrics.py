"""Each number of a report, by hand and by its properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_attention.tflite import metrics

FLOATS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 7), st.integers(2, 5)),
    elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
)


# --- by hand


def test_sqnr_by_hand():
    # signal 9 + 16 = 25, noise 0.5^2 = 0.25, ratio 100
    assert metrics.sqnr_db(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(20.0)
    # signal 1 + 4 + 4 = 9, noise 3 * 0.3^2 = 0.27: 10 log10(100 / 3)
    ratio = metrics.sqnr_db(np.array([1.0, 2.0, -2.0]), np.array([1.3, 1.7, -1.7]))
    assert ratio == pytest.approx(10 * math.log10(100 / 3))


def test_sqnr_of_a_lost_signal_is_zero_db():
    assert metrics.sqnr_db(np.array([3.0, -4.0]), np.zeros(2)) == pytest.approx(0.0)


def test_sqnr_sums_over_all_axes():
    reference = np.array([[[1.0], [1.0]], [[1.0], [1.0]]])
    result = np.array([[[1.0], [1.0]], [[1.0], [1.2]]])
    assert metrics.sqnr_db(reference, result) == pytest.approx(20.0)  # 4 / 0.04


def test_sqnr_in_float32_does_not_lose_small_noise():
    reference = np.full((1000,), 1e4, np.float32)
    result = reference.copy()
    result[0] += 1.0
    assert metrics.sqnr_db(reference, result) == pytest.approx(110.0)  # 1e11 / 1


@pytest.mark.parametrize(
    ("reference", "result", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 200.0),
        ([0.0, 0.0], [0.0, 0.0], 200.0),
        ([0.0, 0.0], [0.0, 1e-3], -200.0),
        ([1.0, 2.0], [1.0, np.nan], -200.0),
        ([1.0, 2.0], [np.inf, 2.0], -200.0),
        ([1.0, 2.0], [-np.inf, 2.0], -200.0),
    ],
    ids=["equal", "zeros", "zeros_missed", "nan", "inf", "minus_inf"],
)
def test_sqnr_at_the_ends(reference, result, expected):
    assert metrics.sqnr_db(np.array(reference), np.array(result)) == expected


def test_agreement_of_classes_by_hand():
    reference = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    result = np.array([[0.4, 0.6], [0.4, 0.6], [0.1, 0.9]])
    assert metrics.agreement(reference, result, "classification") == pytest.approx(2 / 3)


def test_agreement_of_classes_counts_positions():
    reference = np.zeros((2, 3, 5))
    reference[..., 4] = 1.0
    result = reference.copy()
    result[1, 2, 0] = 2.0
    assert metrics.agreement(reference, result, "classification") == pytest.approx(5 / 6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_agrees_with_nothing(bad):
    reference = np.array([[0.1, 0.9], [0.8, 0.2]])
    result = np.array([[bad, 0.9], [0.8, 0.2]])
    assert metrics.agreement(reference, result, "classification") == 0.5
    assert metrics.agreement(np.array([0.0, 1.0]), np.array([bad, 1.0]), "regression") == 0.5


def test_agreement_of_values_is_one_percent_of_the_range():
    reference = np.array([-2.0, 0.0, 1.0, 3.0])  # range 5, so 0.05
    result = reference + np.array([0.049, -0.049, 0.051, -0.051])
    assert metrics.agreement(reference, result, "regression") == 0.5


def test_agreement_with_a_constant_reference_takes_its_size():
    reference = np.array([4.0, 4.0, 4.0])  # no range: 1 % of 4
    assert metrics.agreement(reference, np.array([4.039, 3.961, 4.041]), "regression") == pytest.approx(2 / 3)


def test_agreement_with_zeros_must_be_exact():
    assert metrics.agreement(np.zeros(4), np.array([0.0, 0.0, 0.0, 1e-9]), "regression") == 0.75


def test_max_abs_error_by_hand():
    reference = np.array([[1.0, -2.0], [3.0, 4.0]])
    assert metrics.max_abs_error(reference, np.array([[1.5, -2.0], [1.0, 4.25]])) == 2.0
    assert metrics.max_abs_error(reference, reference) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_max_abs_error_of_what_is_not_finite_is_infinite(bad):
    assert metrics.max_abs_error(np.zeros(2), np.array([bad, 0.0])) == math.inf


@pytest.mark.parametrize(
    "targets", [np.array([1, 0, 2]), np.array([[1], [0], [2]]), np.eye(3)[[1, 0, 2]]], ids=["1d", "2d", "hot"]
)
def test_accuracy_by_hand(targets):
    outputs = np.array([[0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.0, 0.1, 0.9]])  # answers 1, 1, 2
    assert metrics.accuracy(targets, outputs) == pytest.approx(2 / 3)


def test_accuracy_counts_positions():
    outputs = np.eye(3)[[[0, 1], [2, 2], [1, 0], [0, 0]]]  # (4, 2, 3)
    targets = np.array([[0, 1], [2, 2], [1, 2], [0, 1]])
    assert metrics.accuracy(targets, outputs) == pytest.approx(6 / 8)


def test_mean_absolute_error_by_hand():
    assert metrics.mean_absolute_error(np.array([1.0, 2.0, 4.0]), np.array([[1.5], [2.0], [2.0]])) == (
        pytest.approx(2.5 / 3)
    )


# --- properties


@settings(deadline=None)
@given(FLOATS)
def test_an_array_agrees_with_itself(values):
    assert metrics.sqnr_db(values, values.copy()) == 200.0
    assert metrics.max_abs_error(values, values.copy()) == 0.0
    assert metrics.agreement(values, values.copy(), "regression") == 1.0
    assert metrics.agreement(values, values.copy(), "classification") == 1.0


@settings(deadline=None)
@given(FLOATS, st.floats(0.125, 64), st.integers(0, 2**32 - 1))
def test_sqnr_does_not_depend_on_the_unit(values, scale, seed):
    noisy = values + np.random.default_rng(seed).normal(size=values.shape)
    here = metrics.sqnr_db(values, noisy)
    assert -200.0 <= here <= 200.0
    assert metrics.sqnr_db(values * np.float64(scale), noisy * scale) == pytest.approx(here, abs=1e-3)


@settings(deadline=None)
@given(FLOATS, st.floats(-5, 5, width=32), st.integers(0, 2**32 - 1))
def test_shares_are_shares_and_shifts_do_not_change_them(values, shift, seed):
    rng = np.random.default_rng(seed)
    noisy = values + rng.normal(size=values.shape) * 0.01 * np.ptp(values)
    for task in ("classification", "regression"):
        assert 0.0 <= metrics.agreement(values, noisy, task) <= 1.0
    order = rng.permutation(len(values))
    for task in ("classification", "regression"):
        assert metrics.agreement(values[order], noisy[order], task) == pytest.approx(
            metrics.agreement(values, noisy, task)
        )
    assert metrics.max_abs_error(values, values + np.float64(shift)) == pytest.approx(abs(shift), abs=1e-6)


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(1e-3, 1e3))
def test_twice_the_noise_costs_six_db(size, level):
    reference = np.random.default_rng(size).normal(size=size) + 2.0
    once = metrics.sqnr_db(reference, reference + level)
    assert metrics.sqnr_db(reference, reference + 2 * level) == pytest.approx(once - 20 * math.log10(2))


def test_one_unit_decides_at_one_half():
    reference = np.array([[0.1], [0.9], [0.6], [0.4]])
    assert metrics.agreement(reference, 1.0 - reference, "classification") == 0.0
    assert metrics.accuracy(np.array([0, 1, 1, 1]), reference) == 0.75


def test_integer_labels_agree_only_when_equal():
    reference = np.arange(1000)
    assert metrics.agreement(reference, reference + 7, "labels") == 0.0
    assert metrics.agreement(reference, np.where(reference < 250, reference, -1), "labels") == 0.25
    assert metrics.label_accuracy(reference[:, None], reference) == 1.0
