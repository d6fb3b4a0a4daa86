"""Recurrent layers in their mobile form give Keras' outputs, and are themselves again afterwards."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.lowering import mobile_form

LENGTH, WIDTH, UNITS = 5, 3, 7
TOLERANCE = 1e-5
MAKERS = {
    "lstm": layers.LSTM,
    "gru": layers.GRU,
    "gru_reset_before": lambda *args, **kwargs: layers.GRU(*args, reset_after=False, **kwargs),
    "simple": layers.SimpleRNN,
}


@keras.saving.register_keras_serializable(package="test_recurrent_lowering")  # Bidirectional copies by config
class Decay(layers.Layer):
    """A user's own cell, with one state of another width than its output."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = units + 2
        self.output_size = units
        self.mix = layers.Dense(units + 2, activation="tanh")
        self.read = layers.Dense(units)

    def build(self, input_shape):
        self.mix.build((None, input_shape[-1] + self.units + 2))
        self.read.build((None, self.units + 2))

    def call(self, inputs, states):
        state = 0.5 * states[0] + self.mix(keras.ops.concatenate([inputs, states[0]], axis=-1))
        return self.read(state), [state]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class OwnLSTM(layers.LSTM):
    """A subclass, whose loop may be anything."""


def stacked():
    return layers.StackedRNNCells([layers.LSTMCell(UNITS), layers.GRUCell(5), Decay(3)])


def seeded(model, seed=99):
    """Give every weight, zero biases too, a random value of moderate size."""
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(size=w.shape) * 0.6 for w in model.get_weights()])
    return model


def sequences(count=3, length=LENGTH, width=WIDTH, seed=7):
    return np.random.default_rng(seed).normal(size=(count, length, width)).astype(np.float32)


def to_numpy(outputs):
    flat = keras.tree.flatten(outputs)
    return [keras.ops.convert_to_numpy(keras.ops.cast(o, "float32")).astype(np.float64) for o in flat]


def first(inputs, count=1):
    return keras.tree.map_structure(lambda x: x[:count], inputs)


def assert_close(actual, expected, tolerance=TOLERANCE):
    actual, expected = to_numpy(actual), to_numpy(expected)
    assert len(actual) == len(expected) > 0
    for got, wanted in zip(actual, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=tolerance, rtol=tolerance)
        assert np.isfinite(wanted).all()


def check_form(model, inputs, *, count_changed=1, predict=False, tolerance=TOLERANCE, loops=()):
    """The mobile form equals Keras for one sample and for three, and changes what it should."""
    expected = to_numpy(model.predict(inputs, verbose=0) if predict else model(inputs))
    assert all(np.abs(e).max() > 1e-3 for e in expected), "outputs of zeros prove nothing"
    with mobile_form(model, 512) as lowering:
        assert_close(model(first(inputs)), first(expected), tolerance)
        assert_close(model(inputs), expected, tolerance)
    unrolled = [path for path, text in lowering.changes.items() if "unrolled" in text]
    assert len(unrolled) == count_changed
    assert list(lowering.loops) == list(loops)
    return lowering


def model_of(layer, length=LENGTH, masking=None):
    inputs = keras.Input((length, WIDTH))
    x = inputs if masking is None else layers.Masking(masking)(inputs)
    return seeded(keras.Model(inputs, layer(x)))


# --- the layers one by one

PLAIN = {
    "last": {},
    "sequences": {"return_sequences": True},
    "state": {"return_state": True},
    "sequences_state": {"return_sequences": True, "return_state": True},
    "backwards": {"go_backwards": True},
    "backwards_sequences": {"go_backwards": True, "return_sequences": True, "return_state": True},
    "no_bias": {"use_bias": False, "return_sequences": True},
    "unroll": {"unroll": True, "return_sequences": True},
    "dropout": {"dropout": 0.5, "recurrent_dropout": 0.3},
}


@pytest.mark.parametrize("options", PLAIN)
@pytest.mark.parametrize("name", MAKERS)
def test_layer(name, options):
    check_form(model_of(MAKERS[name](UNITS, **PLAIN[options])), sequences(), predict=True)


@pytest.mark.parametrize(
    ("activation", "recurrent"), [("relu", "hard_sigmoid"), (None, "sigmoid"), ("softsign", "tanh")]
)
@pytest.mark.parametrize("name", MAKERS)
def test_activations(name, activation, recurrent):
    gates = {} if name == "simple" else {"recurrent_activation": recurrent}
    layer = MAKERS[name](UNITS, activation=activation, return_sequences=True, **gates)
    check_form(model_of(layer), sequences())


@pytest.mark.parametrize("length", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("name", MAKERS)
def test_lengths(name, length):
    layer = MAKERS[name](UNITS, return_sequences=True, return_state=True)
    lowering = check_form(model_of(layer, length), sequences(length=length))
    assert lowering.changes == {layer.path: f"{length} recurrent steps unrolled"}


@pytest.mark.parametrize("name", MAKERS)
def test_open_length_takes_that_of_the_input(name):
    model = model_of(MAKERS[name](UNITS), length=None)
    for length in (2, 11):
        check_form(model, sequences(length=length))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Decay(UNITS),
        lambda: layers.LSTMCell(UNITS),
        stacked,
        lambda: [layers.GRUCell(5), Decay(UNITS)],
    ],
    ids=["custom", "lstm_cell", "stacked", "list"],
)
def test_rnn_of_any_cell(make, backwards):
    layer = layers.RNN(make(), return_sequences=True, return_state=True, go_backwards=backwards)
    check_form(model_of(layer), sequences())


def test_subclass_of_a_layer():
    check_form(model_of(OwnLSTM(UNITS, return_sequences=True)), sequences())


@pytest.mark.parametrize("name", MAKERS)
def test_initial_state(name):
    inputs = keras.Input((LENGTH, WIDTH))
    num_states = 2 if name == "lstm" else 1
    states = [keras.Input((UNITS,)) for _ in range(num_states)]
    outputs = MAKERS[name](UNITS, return_sequences=True, return_state=True)(inputs, initial_state=states)
    model = seeded(keras.Model([inputs, *states], outputs))
    rng = np.random.default_rng(3)
    given = [rng.normal(size=(3, UNITS)).astype(np.float32) for _ in states]
    check_form(model, [sequences(), *given])
    with mobile_form(model, 512):
        other = to_numpy(model([sequences(), *[-g for g in given]]))
        assert np.abs(other[0] - to_numpy(model([sequences(), *given]))[0]).max() > 0.01


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_encoder_and_decoder(name):
    source, target = keras.Input((LENGTH, WIDTH)), keras.Input((2, WIDTH))
    _, *states = MAKERS[name](UNITS, return_state=True)(source)
    outputs = MAKERS[name](UNITS, return_sequences=True)(target, initial_state=states)
    model = seeded(keras.Model([source, target], outputs))
    check_form(model, [sequences(), sequences(length=2, seed=8)], count_changed=2)


# --- Bidirectional

MERGES = ["concat", "sum", "ave", "mul", None]


@pytest.mark.parametrize("returns", ["last", "sequences", "sequences_state", "state"])
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_bidirectional(name, merge, returns):
    layer = layers.Bidirectional(MAKERS[name](UNITS, **PLAIN[returns]), merge_mode=merge)
    check_form(model_of(layer), sequences(), count_changed=2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["simple", "custom", "zero_output"])
def test_bidirectional_of_others(name, masked):
    part = {
        "simple": lambda: layers.SimpleRNN(UNITS, return_sequences=True),
        "custom": lambda: layers.RNN(Decay(UNITS), return_sequences=True, return_state=True),
        "zero_output": lambda: layers.LSTM(UNITS, return_sequences=True, zero_output_for_mask=True),
    }[name]()
    inputs = sequences()
    if masked:
        inputs[:, 3:] = 0.0
        inputs[1, 0] = 0.0
    model = model_of(layers.Bidirectional(part), masking=0.0 if masked else None)
    check_form(model, inputs, count_changed=2)


@pytest.mark.parametrize("forward_first", [True, False])
def test_bidirectional_of_two_kinds(forward_first):
    layer = layers.Bidirectional(
        layers.LSTM(UNITS, return_sequences=True, go_backwards=not forward_first),
        backward_layer=layers.GRU(5, return_sequences=True, go_backwards=forward_first),
    )
    check_form(model_of(layer), sequences(), count_changed=2)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_bidirectional_with_initial_state(name):
    inputs = keras.Input((LENGTH, WIDTH))
    states = [keras.Input((UNITS,)) for _ in range(4 if name == "lstm" else 2)]
    layer = layers.Bidirectional(MAKERS[name](UNITS, return_sequences=True))
    model = seeded(keras.Model([inputs, *states], layer(inputs, initial_state=states)))
    rng = np.random.default_rng(5)
    given = [rng.normal(size=(3, UNITS)).astype(np.float32) for _ in states]
    check_form(model, [sequences(), *given], count_changed=2)


def test_bidirectional_one_on_another():
    inputs = keras.Input((LENGTH, WIDTH))
    x = layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))(inputs)
    model = seeded(keras.Model(inputs, layers.Bidirectional(layers.GRU(5))(x)))
    check_form(model, sequences(), count_changed=4)


# --- masks

MASKS = {
    "start": [0, 0, 1, 1, 1],
    "middle": [1, 1, 0, 0, 1],
    "end": [1, 1, 1, 0, 0],
    "both_ends": [0, 1, 1, 1, 0],
    "all_but_one": [0, 0, 0, 1, 0],
    "none": [1, 1, 1, 1, 1],
}


def masked(name):
    """Three samples: the mask asked for, all masked, nothing masked."""
    keep = np.array([MASKS[name], [0] * LENGTH, [1] * LENGTH], bool)
    assert keep.any() and not keep.all()
    return sequences() * keep[..., None], keep


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", [*MAKERS, "custom"])
def test_masking(name, mask, zero):
    options = {"return_sequences": True, "return_state": True, "zero_output_for_mask": zero}
    layer = layers.RNN(Decay(UNITS), **options) if name == "custom" else MAKERS[name](UNITS, **options)
    inputs, keep = masked(mask)
    model = model_of(layer, masking=0.0)
    check_form(model, inputs)
    with mobile_form(model, 512):
        outputs, *states = to_numpy(model(inputs))
    assert np.all(outputs[1] == 0) and all(np.all(state[1] == 0) for state in states)
    if zero:
        assert np.all(outputs[~keep] == 0) and np.abs(outputs[keep]).min() > 0


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("sequences_out", [False, True])
@pytest.mark.parametrize("name", [*MAKERS, "custom"])
def test_masking_in_every_direction(name, sequences_out, backwards):
    make = (lambda units, **kw: layers.RNN(Decay(units), **kw)) if name == "custom" else MAKERS[name]
    for mask, zero in itertools.product(("start", "end"), (False, True)):
        options = {"return_sequences": sequences_out, "go_backwards": backwards, "zero_output_for_mask": zero}
        check_form(model_of(make(UNITS, **options), masking=0.0), masked(mask)[0])


@pytest.mark.parametrize("returns", ["last", "sequences_state"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_masking_in_bidirectional(name, mask, returns):
    layer = layers.Bidirectional(MAKERS[name](UNITS, **PLAIN[returns]))
    check_form(model_of(layer, masking=0.0), masked(mask)[0], count_changed=2)


@pytest.mark.parametrize("name", MAKERS)
def test_embedding_mask(name):
    tokens = np.array([[3, 8, 2, 0, 0], [0, 5, 0, 9, 1], [4, 4, 7, 1, 6]], np.int32)
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = MAKERS[name](UNITS)(layers.Embedding(11, 13, mask_zero=True)(inputs))
    model = seeded(keras.Model(inputs, x))
    check_form(model, tokens)
    with mobile_form(model, 512):
        assert_close(model(tokens[:1]), model(np.array([[3, 0, 8, 2, 0]], np.int32)))  # where it is masked


def test_explicit_mask():
    inputs, mask = keras.Input((LENGTH, WIDTH)), keras.Input((LENGTH,), dtype="bool")
    outputs = layers.LSTM(UNITS, return_sequences=True)(inputs, mask=mask)
    model = seeded(keras.Model([inputs, mask], outputs))
    keep = masked("middle")[1]
    check_form(model, [sequences(), keep])


def test_masked_values_cannot_matter():
    inputs, mask = keras.Input((LENGTH, WIDTH)), keras.Input((LENGTH,), dtype="bool")
    outputs = layers.GRU(UNITS, return_sequences=True)(inputs, mask=mask)
    model = seeded(keras.Model([inputs, mask], outputs))
    keep = masked("both_ends")[1]
    changed = np.where(keep[..., None], sequences(), sequences(seed=55) * 100)
    with mobile_form(model, 512):
        assert_close(model([changed, keep]), model([sequences(), keep]))


# --- where the layers sit


def test_nested_models():
    inner_in = keras.Input((LENGTH, WIDTH))
    inner = keras.Model(inner_in, layers.LSTM(UNITS, return_sequences=True)(inner_in), name="inner")
    outer = keras.Sequential([keras.Input((LENGTH, WIDTH)), inner, layers.GRU(5)])
    lowering = check_form(seeded(outer), sequences(), count_changed=2)
    assert any("lstm" in path for path in lowering.changes)


def test_shared_layer():
    one, two = keras.Input((LENGTH, WIDTH)), keras.Input((2, WIDTH))
    shared = layers.LSTM(UNITS)
    model = seeded(keras.Model([one, two], layers.Subtract()([shared(one), shared(two)])))
    check_form(model, [sequences(), sequences(length=2, seed=8)])


@pytest.mark.parametrize("with_mask", [False, True])
def test_time_distributed(with_mask):
    inputs = keras.Input((2, LENGTH, WIDTH))
    x = layers.Masking(0.0)(inputs) if with_mask else inputs
    model = seeded(keras.Model(inputs, layers.TimeDistributed(layers.LSTM(UNITS))(x)))
    values = sequences(6).reshape(3, 2, LENGTH, WIDTH)
    if with_mask:
        values[:, :, 3:] = 0.0
    check_form(model, values)


class Own(keras.Model):
    """Layers in attributes, lists and dicts, called by a loop of the user's."""

    def __init__(self):
        super().__init__()
        self.first = layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))
        self.more = [layers.GRU(5, return_sequences=True), {"last": layers.SimpleRNN(UNITS)}]

    def call(self, inputs, training=None):
        return self.more[1]["last"](self.more[0](self.first(inputs, training=training)))


def test_subclassed_model():
    model = Own()
    model(sequences())
    check_form(seeded(model), sequences(), count_changed=4)


def test_rnn_inside_an_own_layer():
    class Block(layers.Layer):
        def __init__(self):
            super().__init__()
            self.memory = layers.LSTM(UNITS)

        def call(self, inputs):
            return self.memory(inputs) + 1.0

    check_form(model_of(Block()), sequences())


# --- half precision


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", MAKERS)
def test_mixed_policy_computes_in_float32(name, policy):
    make = MAKERS[name]
    half = model_of(layers.Bidirectional(make(UNITS, return_sequences=True, dtype=policy), dtype=policy))
    full = model_of(layers.Bidirectional(make(UNITS, return_sequences=True)))
    full.set_weights(half.get_weights())
    expected = full.predict(sequences(), verbose=0)
    assert np.abs(to_numpy(half(sequences()))[0] - expected).max() > 1e-4, "half precision shows"
    with mobile_form(half, 512) as lowering:
        outputs = half(sequences())
        assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
        assert_close(outputs, [expected])
    assert f"policy {policy}" in lowering.changes


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "float64"])
def test_weights_of_other_types_are_read_as_float32(policy):
    model = model_of(layers.LSTM(UNITS, recurrent_initializer="zeros", dtype=policy))
    full = model_of(layers.LSTM(UNITS))
    full.set_weights([w.astype(np.float32) for w in model.get_weights()])
    with mobile_form(model, 512):
        outputs = model(sequences())
        assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
        assert_close(outputs, full(sequences()))
    assert keras.backend.standardize_dtype(model(sequences()).dtype) == policy


# --- sequences that are too long


@pytest.mark.parametrize("name", [*MAKERS, "custom"])
def test_long_sequence_keeps_its_loop(name):
    make = (lambda units, **kw: layers.RNN(Decay(units), **kw)) if name == "custom" else MAKERS[name]
    layer = make(UNITS, return_sequences=True)
    model = model_of(layer)
    expected = model(sequences())
    for limit, kept in ((4, {layer.path: 5}), (5, {}), (0, {layer.path: 5})):
        with mobile_form(model, limit) as lowering:
            assert_close(model(sequences(1)), first(expected))
        assert lowering.loops == kept
        assert len(lowering.changes) == 1 - len(kept)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_long_bidirectional_keeps_its_loops(name):
    for returns in ("last", "sequences_state"):
        model = model_of(layers.Bidirectional(MAKERS[name](UNITS, **PLAIN[returns])), masking=0.0)
        inputs = masked("end")[0]
        expected = model(inputs)
        with mobile_form(model, 4) as lowering:
            assert_close(model(inputs), expected)
        assert sorted(lowering.loops.values()) == [5, 5] and not lowering.changes


def test_only_the_long_one_keeps_its_loop():
    inputs = keras.Input((LENGTH, WIDTH))
    long = layers.LSTM(UNITS, return_sequences=True)
    short = layers.GRU(UNITS)
    model = seeded(keras.Model(inputs, short(layers.MaxPooling1D(2)(long(inputs)))))
    expected = model(sequences())
    with mobile_form(model, 3) as lowering:
        assert_close(model(sequences()), expected)
    assert lowering.loops == {long.path: 5}
    assert lowering.changes == {short.path: "2 recurrent steps unrolled"}


# --- afterwards


def snapshot(model):
    """Every layer's own attributes, by identity."""
    return {
        (layer.name, name): id(value) for layer in all_layers(model) for name, value in vars(layer).items()
    }


def every_kind():
    inputs = keras.Input((LENGTH, WIDTH))
    x = layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True), dtype="mixed_float16")(inputs)
    x = layers.RNN(stacked(), return_sequences=True)(layers.Masking()(x))
    x = layers.GRU(UNITS, return_sequences=True, dtype="float16")(x)
    x = layers.SimpleRNN(UNITS, unroll=True, return_sequences=True)(x)
    return seeded(keras.Model(inputs, OwnLSTM(5)(layers.Dense(5, dtype="bfloat16")(x))))


class Abort(BaseException):
    """Neither an Exception nor expected."""


@pytest.mark.parametrize("end", ["normally", "exception", "abort", "without_a_call", "failed_call"])
def test_model_is_as_before(end):
    model = every_kind()
    inputs = sequences()
    expected = to_numpy(model(inputs))
    rnns = [layer for layer in all_layers(model) if isinstance(layer, layers.RNN)]
    before = snapshot(model)
    policies = [layer.dtype_policy for layer in all_layers(model)]
    assert len(rnns) == 6 and not any("inner_loop" in vars(layer) for layer in rnns)

    def work():
        with mobile_form(model, 512):
            assert all("inner_loop" in vars(layer) for layer in rnns)
            assert {layer.compute_dtype for layer in all_layers(model)} == {"float32"}
            if end == "failed_call":
                model(np.zeros((1, LENGTH, WIDTH + 1), np.float32))
            if end != "without_a_call":
                assert np.abs(to_numpy(model(inputs))[0] - expected[0]).max() > 0  # another computation
            if end == "exception":
                raise ZeroDivisionError
            if end == "abort":
                raise Abort

    if end in ("normally", "without_a_call"):
        work()
    else:
        kinds = {"exception": ZeroDivisionError, "abort": Abort, "failed_call": Exception}
        with pytest.raises(kinds[end]):
            work()
    assert snapshot(model) == before
    assert [layer.dtype_policy for layer in all_layers(model)] == policies
    for layer in all_layers(model):
        assert not {"call", "inner_loop"} & set(vars(layer))
    for got, wanted in zip(to_numpy(model(inputs)), expected, strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_forms_within_forms():
    model = every_kind()
    model(sequences())  # sets Keras' own `_called`
    before = snapshot(model)
    with mobile_form(model, 512):
        outer = snapshot(model)
        expected = to_numpy(model(sequences()))
        with mobile_form(model, 0) as inner:
            assert_close(model(sequences()), expected)
        assert len(inner.loops) >= 5
        assert snapshot(model) == outer
        assert to_numpy(model(sequences()))[0].tobytes() == expected[0].tobytes()
    assert snapshot(model) == before


def test_training_after_the_form():
    model = model_of(layers.LSTM(5))
    with mobile_form(model, 512):
        model(sequences())
    model.compile("sgd", "mse", run_eagerly=True)
    before = [w.copy() for w in model.get_weights()]
    model.fit(sequences(), np.ones((3, 5)), verbose=0)
    changed = [not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True)]
    assert changed == [True] * 3


DROPPING = {
    "lstm": lambda: layers.LSTM(UNITS, dropout=0.3),
    "gru": lambda: layers.GRU(UNITS, recurrent_dropout=0.3, return_sequences=True),
    "simple": lambda: layers.SimpleRNN(UNITS, dropout=0.2, recurrent_dropout=0.3),
    "both_ways": lambda: layers.Bidirectional(layers.GRU(UNITS, dropout=0.3)),
    "cells": lambda: layers.RNN([layers.LSTMCell(UNITS, dropout=0.3), layers.GRUCell(4, dropout=0.2)]),
}


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_draws_nothing_at_inference(name):
    """Keras draws the masks at inference too, and each draw writes the state of the random numbers."""
    layer = DROPPING[name]()
    inputs = keras.Input((LENGTH, WIDTH))
    model = keras.Model(inputs, layer(inputs))
    values = np.random.default_rng(2).normal(size=(1, LENGTH, WIDTH)).astype("float32")
    expected = model.predict(values, verbose=0)
    cells = [one for one in all_layers(model) if hasattr(one, "get_dropout_mask")]
    rates = [(cell.dropout, cell.recurrent_dropout) for cell in cells]
    before = [np.array(one.seed_generator.state) for one in cells]
    with mobile_form(model, 512):
        np.testing.assert_allclose(model(values, training=False), expected, atol=TOLERANCE)
    for cell, state in zip(cells, before, strict=True):
        np.testing.assert_array_equal(np.array(cell.seed_generator.state), state)
    assert rates == [(cell.dropout, cell.recurrent_dropout) for cell in cells]
    assert any(rate > 0 for pair in rates for rate in pair)
