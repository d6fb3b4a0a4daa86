"""The float form must equal Keras in every output, whatever its type."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention import MultiHeadAttention
from keras_attention.tflite import ConversionError
from keras_attention.tflite import fidelity
from keras_attention.tflite import metrics
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.samples import Samples

MODEL = SimpleNamespace(name="tagger")
SCORES = np.random.default_rng(2).normal(size=(101, 7))
IDS = np.arange(101)
NAMES = ["scores", "ids"]


def test_equal_outputs_pass():
    assert fidelity.check_float_form([SCORES, IDS], [SCORES, IDS], MODEL, {}, lambda: None, NAMES) == []


def test_wrong_integers_beside_right_scores_are_found():
    with pytest.raises(
        ConversionError, match=r"'tagger' computes something else.* 98\.02% of the integers of output 'ids'"
    ):
        fidelity.check_float_form(
            [SCORES, IDS], [SCORES, np.where(IDS < 2, 5, IDS)], MODEL, {}, lambda: None, NAMES
        )


def test_a_rare_tie_among_integers_is_rounding():
    assert (
        fidelity.check_float_form([IDS], [np.where(IDS < 1, 99, IDS)], MODEL, {}, lambda: None, ["answer"])
        == []
    )


def test_wrong_scores_are_found():
    with pytest.raises(ConversionError, match=r"SQNR 20\.0 dB in output 'scores' against"):
        fidelity.check_float_form([SCORES, IDS], [SCORES * 1.1, IDS], MODEL, {}, lambda: None, NAMES)


def test_a_file_as_near_to_the_exact_answer_as_keras_passes():
    exact = fidelity.Exact([SCORES], rounding_db=25.0)
    (remark,) = fidelity.check_float_form([SCORES], [SCORES * 1.1], MODEL, {}, lambda: exact, ["answer"])
    assert "20.0 dB between Keras and the float32 file, 25.0 dB" in remark


def test_a_file_further_from_the_exact_answer_than_keras_is_found():
    exact = fidelity.Exact([SCORES], rounding_db=27.0)
    with pytest.raises(ConversionError, match=r"SQNR 20\.0 dB"):
        fidelity.check_float_form([SCORES], [SCORES * 1.1], MODEL, {}, lambda: exact, ["answer"])


def test_a_wrong_state_is_called_one():
    answers = [SCORES, 2.0 * SCORES, SCORES.T]
    wrong = [SCORES, 2.0 * SCORES, 1.1 * SCORES.T]
    names = ["scores", "twice", "memory_next_state_0"]
    with pytest.raises(ConversionError, match=r"dB in state 'memory_next_state_0' against Keras"):
        fidelity.check_float_form(answers, wrong, MODEL, {}, lambda: None, names, 1)


def test_the_worst_of_several_outputs_is_named():
    """Noise in one, other decisions in another, integers in a third."""
    shuffled = np.where(np.arange(101)[:, None] < 11, -SCORES, SCORES) * 1e-6
    reference = [SCORES, SCORES * 1e-6, IDS, SCORES]
    measured = fidelity.compare(
        reference, [SCORES * 1.2, shuffled, IDS, SCORES * 2], None, None, ["a", "b", "ids", "state"], 1
    )
    assert [row["output"] for row in measured["by_output"]] == ["a", "b", "ids"]
    assert [row["agreement"] for row in measured["by_output"]] == [1.0, measured["agreement"], 1.0]
    assert measured["by_output"][2]["sqnr_db"] is None and measured["agreement"] < 0.9
    ratios = [row["sqnr_db"] for row in measured["by_output"][:2]]
    assert min(ratios) == measured["sqnr_db"] and ratios[0] == pytest.approx(13.98, abs=0.01)
    noise, decisions = fidelity.Floors(min_agreement=0.95, min_sqnr_db=60.0).faults(measured, "int8")
    assert noise.startswith(f"SQNR {min(ratios):.1f} dB of output {'ab'[int(np.argmin(ratios))]!r} is below")
    assert decisions.startswith(f"agreement {measured['agreement']:.4f} of output 'b' is below")


def test_a_floor_of_one_output_is_no_floor_of_another():
    shuffled = np.where(np.arange(101)[:, None] < 11, -SCORES, SCORES)
    measured = fidelity.compare([SCORES, SCORES], [SCORES, shuffled], None, None, ["classes", "map"])
    assert measured["agreement"] < 0.9
    assert fidelity.Floors({"classes": 1.0}, -200).faults(measured, "int8") == []
    (fault,) = fidelity.Floors({"classes": 1.0, "map": 0.95}, -200).faults(measured, "int8")
    assert fault.startswith(
        f"agreement {measured['agreement']:.4f} of output 'map' is below its min_agreement=0.95"
    )
    alone = fidelity.compare([SCORES], [shuffled], None, None, ["map"])
    assert len(fidelity.Floors({"map": 0.95}, -200).faults(alone, "int8")) == 1
    with pytest.raises(
        ValueError, match=r"names no output.*Allowed: \['classes', 'map'\]\. Received: 'maps'"
    ):
        fidelity.Floors({"maps": 0.5}).check_outputs(["classes", "map"])


def test_a_single_output_needs_no_name():
    measured = fidelity.compare([SCORES], [SCORES * 1.2], None, None, ["a"])
    assert measured["by_output"] == ()
    assert fidelity.Floors(min_sqnr_db=60.0).faults(measured, "int8") == [
        "SQNR 14.0 dB is below min_sqnr_db=60"
    ]


def test_the_metric_is_of_the_first_output():
    targets = SCORES.argmax(-1)
    measured = fidelity.compare([SCORES, IDS], [-SCORES, IDS], targets, None, NAMES)
    faults = fidelity.Floors(min_sqnr_db=-300.0, max_metric_drop=0.1).faults(measured, "int8")
    assert faults == ["accuracy of output 'scores' loses 1.0000, more than max_metric_drop=0.1"]


def exact_and_predicted(model, *shape, size=1.0):
    values = (size * np.random.default_rng(3).normal(size=(67, *shape))).astype(np.float32)
    arguments = model, read_signature(model), Samples({"x": values})
    return values, fidelity.exact_answers(*arguments), fidelity.predict(*arguments)[0]


def test_exact_answers_are_those_of_float64():
    # float32 rounds 1000 + x to steps of 6e-5, a tenth of x
    inputs = keras.Input((7,), name="x")
    model = keras.Model(inputs, (inputs + 1000.0) - 1000.0)
    values, exact, _ = exact_and_predicted(model, 7, size=1e-3)
    assert exact.answers[0].dtype == np.float64
    assert metrics.sqnr_db(values, exact.answers[0]) > 140 and 20 < exact.rounding_db < 50


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float16"])
def test_exact_answers_of_layers(rng, policy):
    inputs = keras.Input((11, 5), name="x")
    x = layers.LSTM(8, return_sequences=True, dtype=policy)(inputs)
    x = layers.LayerNormalization(dtype=policy)(x + MultiHeadAttention(2, 4, dtype=policy)(x, x))
    model = keras.Model(inputs, keras.Sequential([layers.Dense(3, dtype=policy)])(x))
    _, exact, predicted = exact_and_predicted(model, 11, 5)
    floor = 120 if policy == "float32" else 40
    assert exact.answers[0].dtype == np.float64 and exact.answers[0].shape == (67, 11, 3)
    assert metrics.sqnr_db(exact.answers[0], predicted) > floor and exact.rounding_db > floor
    assert model.layers[1].compute_dtype == ("float32" if policy == "float32" else "float16"), "as before"


def test_no_exact_answers_of_a_layer_that_is_random():
    inputs = keras.Input((5,), name="x")
    model = keras.Model(inputs, Noise()(inputs))
    assert exact_and_predicted(model, 5)[1] is None


def test_no_exact_answers_where_the_model_insists_on_float32():
    inputs = keras.Input((5,), name="x")
    assert exact_and_predicted(keras.Model(inputs, TwoTypes()(inputs)), 5)[1] is None


class Noise(layers.Layer):
    """Random at inference too."""

    def call(self, inputs):
        return inputs + keras.random.normal((5,), dtype=inputs.dtype)


class TwoTypes(layers.Layer):
    """Adds a float32 tensor by an operation that takes no other type beside it."""

    def call(self, inputs):
        import tensorflow as tf

        return tf.raw_ops.Mul(x=inputs, y=tf.constant(2.0, tf.float32))
