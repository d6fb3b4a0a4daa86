"""int8 weights that are rounded with regard to what they multiply."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import metrics
from keras_attention.tflite import quantization
from keras_attention.tflite import regions
from keras_attention.tflite import runtime
from keras_attention.tflite import weight_rounding


def noise(weights, scales, moments, chosen):
    """Mean square of the error of the product, times the number of inputs."""
    error = weights - chosen * scales[:, None]
    return float(np.einsum("ij,jk,ik->", error, moments, error))


def problem(seed, outputs, inputs, rank):
    """Weights, their scales, and moments of inputs that move together in `rank` directions."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(outputs, inputs))
    seen = rng.normal(size=(211, rank)) @ rng.normal(size=(rank, inputs))
    return weights, np.abs(weights).max(axis=1) / 127, seen.T @ seen


def nearest(weights, scales):
    return np.round(weights / scales[:, None])


def test_inputs_that_know_nothing_of_each_other_want_the_nearest():
    weights, scales, _ = problem(3, 7, 13, 13)
    chosen = weight_rounding.nearest_product(weights, scales, np.diag(np.arange(1.0, 14.0)))
    np.testing.assert_array_equal(chosen, nearest(weights, scales))


def test_two_inputs_that_are_one():
    """x0 = x1: 0.4 + 0.4 = 0.8 steps. The nearest of each are 0 and 0; one of them must be 1."""
    moments = np.array([[1.0, 1.0], [1.0, 1.0]])
    chosen = weight_rounding.nearest_product(np.array([[0.4, 0.4]]), np.ones(1), moments, ridge=1e-6)
    assert sorted(chosen[0].tolist()) == [0, 1]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 11), st.sampled_from([2, 17, 31]), st.integers(1, 7))
def test_never_far_from_the_weights_and_nearer_to_the_product(seed, outputs, inputs, rank):
    weights, scales, moments = problem(seed, outputs, inputs, rank)
    chosen = weight_rounding.nearest_product(weights, scales, moments)
    assert chosen.dtype == np.int8 and np.abs(chosen.astype(int)).max() <= 127
    before = noise(weights, scales, moments, nearest(weights, scales))
    assert noise(weights, scales, moments, chosen) <= 1.05 * before


def test_inputs_of_low_rank_gain_many_decibels():
    weights, scales, moments = problem(5, 43, 41, 5)
    chosen = weight_rounding.nearest_product(weights, scales, moments)
    before = noise(weights, scales, moments, nearest(weights, scales))
    assert noise(weights, scales, moments, chosen) < 0.1 * before


@pytest.mark.parametrize("moments", [np.zeros((5, 5)), np.full((5, 5), 1e-30)])
def test_inputs_that_were_always_zero(moments):
    weights, scales, _ = problem(7, 3, 5, 5)
    chosen = weight_rounding.nearest_product(weights, scales, moments)
    assert np.abs(chosen - nearest(weights, scales)).max() <= 1


def sqnr_db(content, quantized, samples):
    (wanted,), (got,) = (runtime.run_samples(file, samples) for file in (content, quantized))
    return metrics.sqnr_db(wanted, got)


@pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`")
def test_recurrent_file(case, float_file, monkeypatch):
    """Only the values of int8 weights change, and the file answers better to samples it has not seen."""
    content = float_file("wide_lstm")
    (key,) = graphs.input_names(graphs.read_graph(content))
    values = case("wide_lstm").calibration
    values = (
        np.cumsum(np.repeat(values, 3, axis=0), axis=1).astype(np.float32) / 3
    )  # steps that belong together
    seen, unseen = {key: values[::2]}, {key: values[1::2]}
    rounded = quantization.quantize(content, "int8", seen)
    monkeypatch.setattr(weight_rounding, "round_products", lambda quantized, *_: quantized)
    plain = quantization.quantize(content, "int8", seen)
    assert len(rounded.content) == len(plain.content) and rounded.dynamic == plain.dynamic == 8
    one, other = graphs.read_graph(rounded.content), graphs.read_graph(plain.content)
    changed = [
        [int(size) for size in tensor.shape]
        for tensor, before in zip(one.subgraphs[0].tensors, other.subgraphs[0].tensors, strict=True)
        if not np.array_equal(one.buffers[tensor.buffer].data, other.buffers[before.buffer].data)
    ]
    assert [4 * 41, 41] in changed and len(changed) <= 3
    assert sqnr_db(content, rounded.content, unseen) > sqnr_db(content, plain.content, unseen) + 0.5


def test_wide_products_and_others_stay(float_file, case, monkeypatch):
    content = float_file("transformer")
    graph = graphs.read_graph(content)
    quantized = quantization.quantize(content, "dynamic", None).content
    (key,) = graphs.input_names(graph)
    samples = {key: case("transformer").calibration[:5]}
    monkeypatch.setattr(weight_rounding, "WIDEST", 0)
    products = regions.plan_dynamic(graph).dynamic
    assert weight_rounding.round_products(quantized, content, products, samples) is quantized
