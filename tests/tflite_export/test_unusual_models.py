"""Models whose shape a converter easily gets wrong; each was wrong or refused once."""

from collections import OrderedDict

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from keras import layers

from keras_attention import tflite

NUM_SAMPLES, CHANNELS = 37, 7


@pytest.fixture
def samples():
    return np.random.default_rng(5).normal(size=(NUM_SAMPLES, CHANNELS)).astype("float32")


def answers(content, **inputs):
    """Run the signature by name, as an app does."""
    return Interpreter(model_content=content).get_signature_runner()(**inputs)


def ordered_outputs(x):
    return OrderedDict([("zeta", layers.Dense(3)(x)), ("alpha", layers.Dense(3)(x))])


def hidden_and_last(x):
    hidden = layers.Dense(11, activation="relu", name="hidden")(x)
    return {"hidden": hidden, "last": layers.Dense(5)(hidden)}


def dead_branch(x):
    never = keras.initializers.Constant(-99.0)
    dead = layers.Dense(5, activation="relu", bias_initializer=never)(x)
    return {"y": layers.Dense(3)(layers.Concatenate()([x, dead]))}


def input_as_output(x):
    return {"copy": x, "y": layers.Dense(3)(x)}


def output_named_like_the_input(x):
    return {"x": layers.Dense(3)(x)}


def odd_key(x):
    return {"p(x)|q": layers.Dense(13)(x)}


def tuple_in_dict(x):
    return {"a": (layers.Dense(2)(x), layers.Dense(3)(x))}


@pytest.mark.parametrize(
    "head",
    [
        ordered_outputs,
        hidden_and_last,
        dead_branch,
        input_as_output,
        output_named_like_the_input,
        odd_key,
        tuple_in_dict,
    ],
    ids=lambda head: head.__name__,
)
def test_each_output_answers_under_its_own_name(head, samples):
    keras.utils.set_random_seed(3)
    x = keras.Input((CHANNELS,), name="x")
    model = keras.Model(x, head(x))
    wanted = model(samples[:1])
    result = tflite.convert(model, precision="int8", calibration=samples, verbose=0)
    assert result.report.tensor_dtypes["int8"] >= 1
    got = answers(result.content, x=samples[:1])
    flat = {"_".join(map(str, path)): value for path, value in keras.tree.flatten_with_path(wanted)}
    assert list(got) and set(got) == set(flat)
    for name, value in flat.items():
        value = np.asarray(value)
        np.testing.assert_allclose(got[name], value, atol=0.05 * np.abs(value).max())


def test_unnamed_inputs_have_a_name_that_does_not_count_up(samples, tmp_path):
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        models.append(keras.Sequential([keras.Input((CHANNELS,)), layers.Dense(5, name="scores")]))
    models[1].save(tmp_path / "model.keras")
    first = tflite.convert(models[0], precision="float32", evaluation=samples, verbose=0)
    second = tflite.convert(tmp_path / "model.keras", precision="float32", evaluation=samples, verbose=0)
    assert first.report.inputs == second.report.inputs == (f"input_0: float32[1, {CHANNELS}]",)


@pytest.mark.parametrize(
    ("argument", "value", "kind", "words"),
    [
        ("min_sqnr_db", float("nan"), ValueError, "`min_sqnr_db` must be finite"),
        ("min_agreement", "0.9", TypeError, "`min_agreement` must be a number"),
        ("max_metric_drop", True, TypeError, "`max_metric_drop` must be a number"),
        ("input_shapes", {"x": 8}, TypeError, "`input_shapes` must map input names to shapes"),
        ("path", 123, TypeError, "`path` must be a path"),
    ],
)
def test_arguments_of_the_wrong_kind(argument, value, kind, words, samples):
    x = keras.Input((CHANNELS,), name="x")
    model = keras.Model(x, layers.Dense(3)(x))
    with pytest.raises(kind, match=words):
        tflite.convert(model, precision="float32", evaluation=samples, verbose=0, **{argument: value})


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (np.full(NUM_SAMPLES, 3), "from 0 to 2. Received, among others: 3"),
        (np.full(NUM_SAMPLES, -1), "among others: -1"),
        (np.full(NUM_SAMPLES, np.nan), "finite"),
        (np.array(["a"] * NUM_SAMPLES), "finite numbers. Received: dtype=<U1"),
    ],
)
def test_targets_that_are_no_classes(targets, words, samples):
    x = keras.Input((CHANNELS,), name="x")
    model = keras.Model(x, layers.Dense(3, activation="softmax")(x))
    with pytest.raises(ValueError, match=words):
        tflite.convert(model, precision="float32", evaluation=(samples, targets), verbose=0)


def test_the_models_own_file_is_not_overwritten(tmp_path):
    x = keras.Input((CHANNELS,), name="x")
    path = tmp_path / "model.keras"
    keras.Model(x, layers.Dense(3)(x)).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="`path` would overwrite `model`"):
        tflite.convert(path, path, precision="float32", verbose=0)
    assert path.read_bytes() == before


def test_ids_beyond_the_embedding_name_the_cause():
    ids = keras.Input((5,), dtype="int32", name="ids")
    model = keras.Model(ids, layers.Dense(3)(layers.Flatten()(layers.Embedding(11, 4)(ids))))
    far = np.full((NUM_SAMPLES, 5), 97)
    with pytest.raises(tflite.ConversionError, match="Embedding's range"):
        tflite.convert(model, precision="float32", evaluation=far, verbose=0)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_recurrent_dropout_converts(precision):
    inputs = keras.Input((7, 3), name="steps")
    x = layers.Bidirectional(layers.LSTM(11, dropout=0.3, recurrent_dropout=0.2))(inputs)
    model = keras.Model(inputs, layers.Dense(2)(x))
    values = np.random.default_rng(3).normal(size=(41, 7, 3))
    report = tflite.convert(model, precision=precision, calibration=values, verbose=0).report
    assert report.sqnr_db > 30.0 and "ASSIGN_VARIABLE" not in report.operators


def test_a_layer_that_counts_is_refused_with_the_cure():
    class Counting(layers.Layer):
        def build(self, shape):
            self.count = self.add_weight(name="count", shape=(), initializer="zeros", trainable=False)

        def call(self, inputs):
            self.count.assign(self.count + 1.0)
            return inputs * 2.0

    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, Counting()(inputs))
    values = np.random.default_rng(3).normal(size=(11, 3))
    with pytest.raises(tflite.ConversionError, match=r"writes a variable while it answers.* training=True"):
        tflite.convert(model, precision="float32", evaluation=values, verbose=0)
