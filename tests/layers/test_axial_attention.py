import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import AxialAttention

BATCH, HEIGHT, WIDTH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 5, 7, 11, 3, 13


def test_golden_means():
    # Query kernels of zeros weigh all keys alike: the mean of each row, then the mean of those.
    image = np.arange(6, dtype="float32").reshape((1, 2, 3, 1))
    layer = AxialAttention(1, 1, use_bias=False)
    layer.build(image.shape)
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape) if "query" in weight.path else np.ones(weight.shape))
    rows = layer.row_attention(image, image)
    assert_close(rows, np.broadcast_to(np.array([1.0, 4.0], "float32")[None, :, None, None], image.shape))
    assert_close(layer(image), np.full(image.shape, 2.5, "float32"))


def test_every_place_sees_every_other(rng):
    image = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    layer = AxialAttention(NUM_HEADS, KEY_DIM)
    before, rows = to_numpy(layer(image)), to_numpy(layer.row_attention(image, image))
    image[:, 1, 2] += 3.0
    change = np.abs(to_numpy(layer(image)) - before).max(axis=(0, 3))
    assert np.all(change > 1e-6)
    change = np.abs(to_numpy(layer.row_attention(image, image)) - rows).max(axis=(0, 2, 3))
    assert change[1] > 1e-3 and np.all(np.delete(change, 1) == 0)


def test_scores_of_each_axis(rng):
    image = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    layer = AxialAttention(NUM_HEADS, KEY_DIM)
    output = layer(image)
    rows, scores = layer.row_attention(image, image, return_attention_scores=True)
    assert scores.shape == (BATCH, HEIGHT, NUM_HEADS, WIDTH, WIDTH)
    columns, scores = layer.column_attention(rows, rows, return_attention_scores=True)
    assert scores.shape == (BATCH, WIDTH, NUM_HEADS, HEIGHT, HEIGHT)
    assert_close(columns, output)


def test_masked_places_cannot_matter(rng):
    image = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    mask = np.ones((BATCH, HEIGHT, WIDTH), bool)
    mask[:, -1], mask[:, :, -2:] = False, False
    layer = AxialAttention(NUM_HEADS, KEY_DIM, use_bias=False)
    output = to_numpy(layer(image, mask=mask))
    assert np.all(output[~mask] == 0)
    assert_close(output[:, :-1, :-2], layer(image[:, :-1, :-2]))
    image[~mask] = 100.0
    assert_close(layer(image, mask=mask), output)


def test_the_two_steps_have_weights_of_their_own():
    layer = AxialAttention(2, 3, kernel_initializer=keras.initializers.RandomNormal(), seed=5)
    layer.build((None, HEIGHT, WIDTH, CHANNELS))
    first, second = layer.row_attention.query_dense.kernel, layer.column_attention.query_dense.kernel
    assert np.abs(to_numpy(first - second)).max() > 0.01
    assert len({w.path for w in layer.weights}) == len(layer.weights)


def test_regularizers_count_once(rng):
    layer = AxialAttention(2, 3, kernel_regularizer="l2", activity_regularizer="l1")
    layer(normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS))
    assert len(layer.losses) == 16  # four kernels and four activities in each step


INVALID = [
    ({"num_heads": 0}, ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
    ({"dropout": 1}, ValueError, r"`dropout` must be in \[0, 1\).*Received: dropout=1"),
    ({"output_shape": (3, 0)}, ValueError, r"`output_shape` must hold positive.*output_shape=\(3, 0\)"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        AxialAttention(**{"num_heads": 2, "key_dim": 3, **config})


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_sequence_is_refused(symbolic):
    shape = (2, 5, 11)
    inputs = keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")
    with pytest.raises(ValueError, match=r"`inputs` must have rank 4.*inputs.shape=\(2, 5, 11\)"):
        AxialAttention(2, 3)(inputs)


def test_a_wrong_mask_is_refused_by_name(rng):
    image = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    with pytest.raises(ValueError, match=r"mask` must have shape \(2, 5, 7\)"):
        AxialAttention(2, 3)(image, mask=np.ones((BATCH, WIDTH, HEIGHT), bool))
