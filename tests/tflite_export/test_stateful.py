"""Stateful recurrent layers: the state goes into the file and comes out, and Keras' own stays as it was."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from keras import layers

from keras_attention.tflite import ConversionError
from keras_attention.tflite import convert
from keras_attention.tflite import fidelity
from keras_attention.tflite import runtime
from keras_attention.tflite import streaming
from keras_attention.tflite.lowering import mobile_form
from keras_attention.tflite.lowering import stateful
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.samples import Samples

LENGTH, WIDTH, UNITS = 5, 3, 7


def twice(x):
    """A layer that is called twice takes up its state where it left it."""
    shared = layers.SimpleRNN(WIDTH, stateful=True, return_sequences=True)
    return shared(shared(x))


LAYERS = {
    "lstm": lambda: layers.LSTM(UNITS, stateful=True),
    "gru_sequences": lambda: layers.GRU(UNITS, stateful=True, return_sequences=True),
    "simple_backwards": lambda: layers.SimpleRNN(UNITS, stateful=True, go_backwards=True),
    "lstm_state": lambda: layers.LSTM(UNITS, stateful=True, return_state=True),
    "stack": lambda: layers.RNN([layers.LSTMCell(UNITS), layers.GRUCell(2)], stateful=True),
    "both_ways": lambda: layers.Bidirectional(layers.GRU(UNITS, stateful=True)),
    "twice": lambda: twice,
}


def model_of(layer, *, masking=False, seed=5):
    inputs = keras.Input(batch_shape=(1, LENGTH, WIDTH), name="window")
    model = keras.Model(inputs, layer(layers.Masking()(inputs) if masking else inputs))
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.6)
    return model


def windows(count, seed=11):
    """Random windows, each a walk of its own, so that the states matter."""
    values = np.random.default_rng(seed).normal(size=(count, LENGTH, WIDTH)).astype(np.float32)
    values[:, -1:] *= np.arange(count)[:, None, None] % 3 > 0  # some last steps are masked where masks count
    return values


@pytest.mark.parametrize("masking", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_mobile_form_carries_the_state_as_keras_does(name, masking):
    model = model_of(LAYERS[name](), masking=masking)
    data = windows(7)
    signature = read_signature(model)
    expected = fidelity.predict(model, signature, Samples({"window": data}), carry=True)
    alone = fidelity.predict(model, signature, Samples({"window": data}))
    assert all(np.abs(a[1:] - b[1:]).max() > 1e-3 for a, b in zip(expected, alone, strict=True))
    before = stateful.read(model)

    holders = stateful.layers_of(model)
    counts = [len(stateful.variables_of(layer)) for layer in holders]
    states = [np.zeros((1, *spec.shape), np.float32) for spec in signature.states]
    for number, window in enumerate(data):
        with mobile_form(model, 512) as lowering:
            given = iter(states)
            for layer, count in zip(holders, counts, strict=True):
                lowering.states[id(layer)] = [next(given) for _ in range(count)]
            outputs = keras.tree.flatten(model(window[None]))
            states = [np.asarray(s) for layer_states in lowering.states.values() for s in layer_states]
        for got, wanted in zip([*outputs, *states], expected, strict=True):
            np.testing.assert_allclose(np.asarray(got)[0], wanted[number], atol=1e-5)
        assert all("state made an input and an output" in text for text in lowering.changes.values())
    for got, wanted in zip(stateful.read(model), before, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_names_are_unique_and_say_the_layer():
    window = keras.Input(batch_shape=(1, LENGTH, WIDTH), name="memory_state_1")
    model = keras.Model(window, layers.LSTM(UNITS, stateful=True, name="memory")(window))
    signature = read_signature(model)
    assert [spec.name for spec in signature.states] == ["memory_state_0", "memory_state_1_1"]
    assert signature.output_names(["memory"]) == ["memory", "memory_next_state_0", "memory_next_state_1_1"]
    assert [spec.shape for spec in signature.states] == [(UNITS,), (UNITS,)]


def test_a_model_without_state_has_none():
    model = model_of(layers.LSTM(UNITS))
    assert read_signature(model).states == ()
    samples = Samples({"window": windows(3)})
    assert streaming.with_carried_states(model, samples, read_signature(model)) is samples


def test_calibration_sees_the_states_that_keras_carries():
    model = model_of(layers.LSTM(UNITS, stateful=True, name="memory"))
    data = windows(13)
    samples = streaming.with_carried_states(model, Samples({"window": data}), read_signature(model))
    assert list(samples.inputs) == ["window", "memory_state_0", "memory_state_1"]
    assert not samples.inputs["memory_state_0"][0].any()
    stateful.reset(model)
    for number in range(12):
        answer = np.asarray(model.predict_on_batch(data[number : number + 1]))
        np.testing.assert_allclose(samples.inputs["memory_state_0"][number + 1], answer[0], atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_file_streams_like_keras(precision, tmp_path):
    inputs = keras.Input(batch_shape=(1, LENGTH, WIDTH), name="window")
    x = layers.LSTM(41, stateful=True, name="memory")(inputs)
    model = keras.Model(inputs, layers.Dense(3, name="answer")(x))
    data, evaluation = windows(64), windows(29, seed=12)
    model.predict_on_batch(data[:1])
    before = stateful.read(model)
    path = tmp_path / "stream.tflite"
    result = convert(model, path, precision=precision, calibration=data, evaluation=evaluation, verbose=0)
    for got, wanted in zip(stateful.read(model), before, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert [text.split(":")[0] for text in result.report.inputs] == [
        "window",
        "memory_state_0",
        "memory_state_1",
    ]
    assert [text.split(":")[0] for text in result.report.outputs] == [
        "answer",
        "memory_next_state_0",
        "memory_next_state_1",
    ]
    assert result.report.task == ("classification",)

    run = Interpreter(model_path=str(path)).get_signature_runner("serve")
    states = {f"memory_state_{index}": np.zeros((1, 41), np.float32) for index in range(2)}
    answers = []
    for window in evaluation:
        outputs = run(window=window[None], **states)
        states = {f"memory_state_{index}": outputs[f"memory_next_state_{index}"] for index in range(2)}
        answers.append(outputs["answer"][0])
    stateful.reset(model)
    expected = np.concatenate([np.asarray(model.predict_on_batch(window[None])) for window in evaluation])
    noise = np.square(expected - answers).sum() / np.square(expected).sum()
    assert noise < (1e-9 if precision == "float32" else 1e-2)
    samples = {"window": evaluation, **{name: np.zeros((29, 41), np.float32) for name in states}}
    (carried, *_) = runtime.run_samples(path.read_bytes(), samples, num_carried=2)
    np.testing.assert_array_equal(carried, answers)


def test_a_file_that_carries_its_state_otherwise_is_refused(tmp_path):
    model = model_of(layers.GRU(UNITS, stateful=True))
    signature = read_signature(model)
    samples = Samples({"window": windows(5)})
    right = fidelity.predict(model, signature, samples, carry=True)
    wrong = fidelity.predict(model, signature, samples)
    names = ["answer", "gru_next_state_0"]
    measured = fidelity.compare(right, right, None, None, names, 1)
    np.savez(tmp_path / "float32_stream.npz", *right)
    np.savez(tmp_path / "model_stream.npz", *wrong)
    folders = tmp_path, tmp_path
    worse = streaming.compare(model, signature, samples, folders, measured, {}, None, names)
    assert worse["sqnr_db"] < 40.0 < measured["sqnr_db"]
    assert worse["agreement"] < measured["agreement"] == 1.0
    assert worse["max_abs_error"] > measured["max_abs_error"] == 0.0
    np.savez(tmp_path / "float32_stream.npz", *wrong)
    with pytest.raises(ConversionError, match=r"something else once converted.* dB in (output|state) '"):
        streaming.compare(model, signature, samples, folders, measured, {}, None, names)
    np.savez(tmp_path / "float32_stream.npz", right[0], wrong[1])
    with pytest.raises(ConversionError, match=r"dB in state 'gru_next_state_0' against Keras"):
        streaming.compare(model, signature, samples, folders, measured, {}, None, names)


def test_a_given_state_beside_its_own_is_refused():
    window = keras.Input(batch_shape=(1, LENGTH, WIDTH), name="window")
    start = keras.Input(batch_shape=(1, UNITS), name="start")
    outputs = layers.GRU(UNITS, stateful=True, name="memory")(window, initial_state=start)
    model = keras.Model([window, start], outputs)
    with (
        mobile_form(model, 512),
        pytest.raises(ConversionError, match="Layer 'memory' is stateful and is handed an initial_state"),
    ):
        model([windows(1), np.zeros((1, UNITS), np.float32)])
