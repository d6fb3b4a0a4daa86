"""Ranges: the true ones and the percentiles against a full sort, and what happens to NaN."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention.tflite import calibration
from keras_attention.tflite import graph as graphs


def sorted_tails(values):
    """NumPy's exact answer: extremes, and what is left when 0.005 % of the values fall off each end."""
    ordered = np.sort(values, axis=None)
    rank = max(1, math.ceil(ordered.size * 1e-4 / 2))
    return (ordered[0], ordered[-1]), (ordered[rank - 1], ordered[-rank])


def watched(parts):
    tensor = calibration._Watched(parts[0].shape, len(parts))
    for part in parts:
        tensor.add(part)
    tensor.flush()
    return tensor.ranges()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 61), st.integers(1, 2003), st.integers(0, 2**32 - 1))
def test_tails_equal_a_full_sort(count, size, seed):
    values = np.random.default_rng(seed).standard_cauchy((count, size)).astype(np.float32)
    ranges = watched(values)
    extremes, percentile = sorted_tails(values)
    assert ranges["minmax"] == extremes
    assert ranges["percentile"] == percentile


def test_tails_of_many_values_leave_some_out():
    values = np.random.default_rng(5).permutation(200_178).astype(np.float32)  # 0, 1, 2, ... in some order
    ranges = watched(values.reshape(337, -1))
    assert ranges["minmax"] == (0.0, 200_177.0)
    assert ranges["percentile"] == (10.0, 200_167.0)  # ceil(200_178 * 0.00005) = 11 values kept at each end
    assert ranges["percentile 99.9"] == (100.0, 200_077.0)  # ceil(200_178 * 0.0005) = 101
    assert ranges["percentile 99"] == (1_000.0, 199_177.0)  # ceil(200_178 * 0.005) = 1,001


def test_few_values_have_no_percentile_of_their_own():
    ranges = watched([np.arange(20_000, dtype=np.float32)])
    assert ranges["percentile"] == ranges["minmax"] == (0.0, 19_999.0)


def hidden_tensors(case, content):
    """Index of the input and the output tensor of the dense model, and of what lies between."""
    graph = graphs.read_graph(content)
    subgraph = graph.subgraphs[0]
    between = [
        int(op.outputs[0]) for op in subgraph.operators if int(op.outputs[0]) not in list(subgraph.outputs)
    ]
    return int(subgraph.inputs[0]), between[-1], int(subgraph.outputs[0])


def dense_in_numpy(model, values):
    kernel, bias, kernel2, bias2 = (w.astype(np.float64) for w in model.get_weights())
    hidden = np.maximum(values.astype(np.float64) @ kernel + bias, 0.0)
    return hidden, hidden @ kernel2 + bias2


def test_ranges_of_a_real_file(case, float_file):
    model = case("dense").model
    content = float_file("dense")
    values = np.random.default_rng(3).normal(size=(101, 7)).astype(np.float32) * 3.0
    tensors = hidden_tensors(case, content)
    seen = []
    collected = calibration.collect_ranges(
        content, {"features": values}, tensors, lambda done, total: seen.append((done, total))
    )
    true, percentile = (collected.by_kind[kind] for kind in ("minmax", "percentile"))
    hidden, answer = dense_in_numpy(model, values)
    assert hidden.min() == 0.0 < hidden.max()
    assert tuple(true) == tuple(percentile) == tensors
    for index, wanted in zip(tensors, (values, hidden, answer), strict=True):
        np.testing.assert_allclose(true[index], (wanted.min(), wanted.max()), rtol=1e-5, atol=1e-6)
        assert percentile[index] == true[index], "few values"
    assert seen == [(n + 1, 101) for n in range(101)]
    for index, wanted in zip(tensors, (values, hidden, answer), strict=True):
        spread = np.ptp(wanted) ** 2 / np.mean(wanted.astype(np.float64) ** 2)
        assert collected.spread[index] == pytest.approx(spread, rel=1e-4)


def test_percentile_leaves_the_outlier_out(case, float_file):
    content = float_file("dense")
    values = np.random.default_rng(4).uniform(-1, 1, (5801, 7)).astype(np.float32)  # 40,607 values
    values[2000, 3] = 500.0
    values[3000, 5] = -300.0
    tensors = hidden_tensors(case, content)[:1]
    collected = calibration.collect_ranges(content, {"features": values}, tensors)
    (true,), (percentile,) = (collected.by_kind[kind].values() for kind in ("minmax", "percentile"))
    assert true == (-300.0, 500.0)
    low, high = percentile
    ordered = np.sort(values, axis=None)
    assert (low, high) == (ordered[2], ordered[-3])  # ceil(40,607 * 0.00005) = 3
    assert -1.0 <= low < -0.99 and 0.99 < high <= 1.0


def test_the_sample_that_overflows_is_named(case, float_file):
    content = float_file("dense")
    values = np.random.default_rng(6).normal(size=(11, 7)).astype(np.float32)
    values[7] = 3e38
    with pytest.raises(ValueError, match=r"Calibration sample 7 drives a tensor .* shape \(1, \d+\)"):
        calibration.collect_ranges(content, {"features": values}, hidden_tensors(case, content))
