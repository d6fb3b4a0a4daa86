"""The float form must equal Keras in every output, whatever its type."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_attention.tflite import ConversionError
from keras_attention.tflite import fidelity

MODEL = SimpleNamespace(name="tagger")
SCORES = np.random.default_rng(2).normal(size=(101, 7))
IDS = np.arange(101)


def test_equal_outputs_pass():
    assert fidelity.check_float_form([SCORES, IDS], [SCORES, IDS], MODEL, {}) == []


def test_wrong_integers_beside_right_scores_are_found():
    with pytest.raises(ConversionError, match=r"'tagger' computes something else.* 98\.02% of an integer"):
        fidelity.check_float_form([SCORES, IDS], [SCORES, np.where(IDS < 2, 5, IDS)], MODEL, {})


def test_a_rare_tie_among_integers_is_rounding():
    assert fidelity.check_float_form([IDS], [np.where(IDS < 1, 99, IDS)], MODEL, {}) == []


def test_wrong_scores_are_found():
    with pytest.raises(ConversionError, match=r"SQNR 20\.0 dB"):
        fidelity.check_float_form([SCORES, IDS], [SCORES * 1.1, IDS], MODEL, {})
