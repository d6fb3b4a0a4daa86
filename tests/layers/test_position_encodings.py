"""SinusoidalPositionEncoding and LearnedPositionEmbedding: golden values, steps, parity, errors."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import LearnedPositionEmbedding
from keras_attention import SinusoidalPositionEncoding

BATCH, LENGTH, CHANNELS = 2, 7, 5

LAYERS = {
    "sinusoidal": lambda: SinusoidalPositionEncoding(max_wavelength=100),
    "learned": lambda: LearnedPositionEmbedding(13),
}


def test_golden_sinusoidal():
    # Four channels: sin(t), cos(t), sin(t / 100), cos(t / 100), since 10000^(-2/4) = 1/100.
    t = np.arange(3.0)
    expected = np.stack([np.sin(t), np.cos(t), np.sin(t / 100), np.cos(t / 100)], axis=-1)[None] + 7
    assert_close(SinusoidalPositionEncoding()(np.full((1, 3, 4), 7.0)), np.float32(expected))


def test_golden_learned(rng):
    layer = LearnedPositionEmbedding(4)
    layer.build((None, 3, 2))
    layer.set_weights([np.arange(8.0).reshape(4, 2)])
    assert_close(layer(np.ones((1, 3, 2))), np.float32([[[1, 2], [3, 4], [5, 6]]]))
    assert_close(layer(np.ones((1, 3, 2)), start_index=1), np.float32([[[3, 4], [5, 6], [7, 8]]]))


@pytest.mark.parametrize("name", LAYERS)
def test_steps_and_positions(rng, name):
    layer = LAYERS[name]()
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    whole = to_numpy(layer(x))
    for t in (0, 4):
        for start in (t, keras.ops.convert_to_tensor(t, "int32")):
            assert_close(layer(x[:, t : t + 2], start_index=start), whole[:, t : t + 2], atol=1e-6)
    order = np.array([3, 1, 4, 0, 5, 2, 6])
    assert_close(layer(x[:, order], positions=order), whole[:, order], atol=1e-6)
    assert_close(layer(x[:, order], positions=np.stack([order] * BATCH)), whole[:, order], atol=1e-6)


def test_same_as_keras_hub(rng):
    keras_hub = pytest.importorskip("keras_hub")
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    theirs, ours = keras_hub.layers.SinePositionEncoding(500), SinusoidalPositionEncoding(500)
    assert_close(to_numpy(ours(x)) - x, theirs(x), atol=1e-6)
    assert_close(to_numpy(ours(x, start_index=9)) - x, theirs(x, start_index=9), atol=1e-5)
    theirs, ours = keras_hub.layers.PositionEmbedding(13), LearnedPositionEmbedding(13)
    theirs.build(x.shape)
    ours.build(x.shape)
    ours.set_weights(theirs.get_weights())
    assert_close(to_numpy(ours(x, start_index=3)) - x, theirs(x, start_index=3), atol=1e-6)


def test_invalid_arguments():
    with pytest.raises(
        TypeError, match=r"`sequence_length` must be a positive integer. Received: sequence_length=None"
    ):
        LearnedPositionEmbedding(None)
    with pytest.raises(
        ValueError, match=r"`max_wavelength` must be finite and above 0. Received: max_wavelength=inf"
    ):
        SinusoidalPositionEncoding(float("inf"))


INVALID_CALLS = [
    (
        "learned",
        (2, 14, 5),
        {},
        r"must lie within the table.*\(2, 14, 5\), start_index=0, sequence_length=13",
    ),
    (
        "learned",
        (2, 5, 3),
        {"start_index": 9},
        r"greater `sequence_length`.*start_index=9, sequence_length=13",
    ),
    ("learned", (2, 5, 3), {"start_index": -1}, r"must lie within the table.*start_index=-1"),
    ("learned", (2, 5), {}, r"`inputs` must have rank 3.*Received: inputs.shape=\(2, 5\)"),
    ("sinusoidal", (2, 5, 3, 7), {}, r"`inputs` must have rank 3.*Received: inputs.shape=\(2, 5, 3, 7\)"),
]


@pytest.mark.parametrize(("name", "shape", "call", "message"), INVALID_CALLS)
def test_invalid_calls(name, shape, call, message):
    with pytest.raises(ValueError, match=message):
        LAYERS[name]()(np.zeros(shape, "float32"), **call)
    if not call:
        with pytest.raises(ValueError, match=message):
            LAYERS[name]()(keras.Input(batch_shape=shape))
