import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import LinearAttention
from keras_attention import MultiHeadAttention
from keras_attention.long_sequences import _kernels

BATCH, LENGTH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 37, 11, 3, 5

# One head of width 2, identity kernels, and the sequence (1, 0), (0, 1).
# elu + 1: features (2, 1) and (1, 2), products 5 of a position with itself and 4 with the other.
# relu + 0.001: features (1.001, 0.001) and (0.001, 1.001), products 1.002002 and 0.002002.
GOLDEN = [
    ("elu", {}, [[5 / 9, 4 / 9], [4 / 9, 5 / 9]]),
    ("elu", {"use_causal_mask": True}, [[1, 0], [4 / 9, 5 / 9]]),
    ("relu", {}, [[1.002002 / 1.004004, 0.002002 / 1.004004], [0.002002 / 1.004004, 1.002002 / 1.004004]]),
]


@pytest.mark.parametrize(("feature_map", "masks", "expected"), GOLDEN)
def test_golden_identity_kernels(feature_map, masks, expected):
    sequence = np.eye(2, dtype="float32")[None]
    layer = LinearAttention(1, 2, feature_map, use_bias=False)
    layer.build(sequence.shape, sequence.shape)
    layer.set_weights([np.eye(2).reshape(w.shape) for w in layer.weights])
    output, scores = layer(sequence, sequence, return_attention_scores=True, **masks)
    assert_close(scores, np.array(expected, "float32")[None, None])
    assert_close(output, np.array(expected, "float32")[None])  # the values are the identity too
    assert_close(layer(sequence, sequence, **masks), output)


def performer_error(rng, num_features):
    """Mean distance between the weights of a Performer and those of a softmax, over a few seeds."""
    sequence = 0.5 * normal(rng, BATCH, LENGTH, CHANNELS)
    whole = MultiHeadAttention(NUM_HEADS, KEY_DIM)
    _, expected = whole(sequence, sequence, return_attention_scores=True)
    errors = []
    for seed in range(5):
        layer = LinearAttention(NUM_HEADS, KEY_DIM, "performer", num_features, seed=seed)
        layer.build(sequence.shape, sequence.shape)
        for weight, other in zip(layer.trainable_weights, whole.weights, strict=True):
            weight.assign(other)
        _, scores = layer(sequence, sequence, return_attention_scores=True)
        errors.append(np.abs(to_numpy(scores) - to_numpy(expected)).mean() * LENGTH)
    return np.mean(errors)


def test_performer_approximates_the_softmax(rng):
    few, many = (performer_error(np.random.default_rng(1), n) for n in (16, 1024))
    assert many < 0.1  # of the mean weight
    assert 4 < few / many < 16, "the error falls as the root of the number of features: 8"


def test_random_features_are_orthogonal_seeded_and_of_normal_lengths():
    layers = [LinearAttention(2, 8, "performer", 24, seed=seed) for seed in (3, 3, 4)]
    for layer in layers:
        layer.build((None, 5, 8), (None, 5, 8))
    first, same, other = (to_numpy(layer.non_trainable_weights[0].value) for layer in layers)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.1
    for group in np.split(first, 3, axis=1):
        products = group.T @ group
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-4)
    wide = to_numpy(_kernels.orthogonal_projection((8, 4000), 1, "float32"))
    squares = (wide**2).sum(axis=0)  # chi-squared with 8 degrees of freedom: mean 8, variance 16
    np.testing.assert_allclose([squares.mean(), squares.var()], [8, 16], rtol=0.1)
    np.testing.assert_allclose(wide @ wide.T / 4000, np.eye(8), atol=0.1)


def test_default_number_of_features():
    for key_dim, expected in ((1, 1), (2, 2), (16, 45)):  # 16 ln 16 = 44.4
        layer = LinearAttention(1, key_dim, "performer")
        layer.build((None, 5, 8), (None, 5, 8))
        assert layer.non_trainable_weights[0].shape == (key_dim, expected)
        assert layer.num_features is None


def test_long_keys_of_a_performer_keep_their_weight(rng):
    # exp(-|k|^2 / 2) alone would be below the least float32 for every key
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    layer = LinearAttention(NUM_HEADS, KEY_DIM, "performer", 64, seed=1)
    layer.build(sequence.shape, sequence.shape)
    layer.key_dense.bias.assign(np.full((NUM_HEADS, KEY_DIM), 12.0))
    _, scores = layer(sequence, sequence, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(scores).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 64, 65, 64 * 64 + 3])
def test_sums_before(rng, count):
    x = rng.normal(size=(2, count, 3))
    expected = np.cumsum(x, axis=1) - x
    actual = _kernels.sums_before(keras.ops.convert_to_tensor(x, "float32"))
    assert_close(actual, np.float32(expected), atol=2e-4)


@pytest.mark.parametrize("length", [63, 64, 65, 300])
def test_chunks_equal_all_pairs(rng, length):
    sequence = normal(rng, BATCH, length, CHANNELS)
    layer = LinearAttention(NUM_HEADS, KEY_DIM)
    expected, _ = layer(sequence, sequence, use_causal_mask=True, return_attention_scores=True)
    assert_close(layer(sequence, sequence, use_causal_mask=True), expected)


INVALID = [
    ({"feature_map": "softmax"}, ValueError, "`feature_map` must be .*Received: feature_map='softmax'"),
    ({"num_features": 8}, ValueError, "`num_features` are .*num_features=8, feature_map='elu'"),
    ({"feature_map": "performer", "num_features": 0}, ValueError, "`num_features` must be .*num_features=0"),
    ({"dropout": 1.5}, ValueError, r"`dropout` must be in \[0, 1\).*Received: dropout=1.5"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        LinearAttention(2, 3, **config)
