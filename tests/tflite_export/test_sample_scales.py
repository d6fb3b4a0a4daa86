"""Calibration and evaluation of the same scale."""

import numpy as np
import pytest

from keras_attention.tflite.sample_scales import check_alike
from keras_attention.tflite.samples import Samples


def window(size, rng):
    return Samples({"window": (size * rng.normal(size=(31, 7))).astype(np.float32)})


@pytest.mark.parametrize("factor", [1.0, 0.1, 10.0])
def test_samples_of_like_size_pass(rng, factor):
    check_alike(window(factor, rng), window(1.0, rng))


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_samples_of_another_size_are_refused(rng, factor):
    with pytest.raises(ValueError, match=r"`calibration`, input 'window': .*`evaluation`.*normalized alike"):
        check_alike(window(factor, rng), window(1.0, rng))


def test_codes_of_a_quantized_file_are_refused(rng):
    codes = Samples({"window": rng.integers(0, 256, (31, 7)).astype(np.float32)})
    with pytest.raises(ValueError, match=r"size 1\d\d, those of `evaluation` of size 0\.\d"):
        check_alike(codes, window(0.8, rng))


def test_a_rare_outlier_says_nothing(rng):
    spoilt = window(1.0, rng)
    spoilt.inputs["window"][3, 2] = 1e30
    check_alike(spoilt, window(1.0, rng))


def test_rare_events_and_padding_say_nothing(rng):
    eventful, quiet = window(0.01, rng), window(0.01, rng)
    eventful.inputs["window"][:3] += 100.0
    quiet.inputs["window"][:, 2:] = 0.0
    check_alike(eventful, quiet)


def test_integers_and_zeros_are_left_alone(rng):
    zeros = Samples({"window": np.zeros((31, 7), np.float32)})
    check_alike(zeros, window(1.0, rng))
    tokens = Samples({"tokens": np.arange(31)}), Samples({"tokens": 1000 * np.arange(31)})
    check_alike(*tokens)
