import math

import keras
import numpy as np
import pytest
import reference_pooling
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import AttentionPooling
from keras_attention import BahdanauAttention
from keras_attention import LuongAttention
from keras_attention import MultiHeadAttention

BATCH, LENGTH, CHANNELS, NUM_HEADS, KEY_DIM, OUTPUT_UNITS = 2, 7, 11, 3, 5, 13
CONFIGS = {
    "learned": {},
    "additive": {"score": "additive", "use_bias": True},
    "last": {"query": "last", "score": "general", "output_units": OUTPUT_UNITS},
    "last_additive": {"query": "last", "score": "additive"},
    "heads": {"num_heads": NUM_HEADS, "key_dim": KEY_DIM},
    "heads_last": {"num_heads": NUM_HEADS, "key_dim": KEY_DIM, "query": "last"},
}


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


def test_golden_learned_query():
    # w = 2 on the positions 0, 0.5 and 1: logits 0, 1 and 2, scores e^i / (1 + e + e^2)
    weights = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    layer = AttentionPooling()
    layer.build((1, 3, 1))
    layer.set_weights([np.array([[2.0]])])
    output, scores = layer(np.array([[[0.0], [0.5], [1.0]]]), return_attention_scores=True)
    assert_close(scores, np.float32(weights.reshape(1, 1, 3)))
    assert_close(output, np.array([[0.5 * weights[1] + weights[2]]], "float32"))


def test_golden_last_position():
    # The last position that counts is 1, W_k = 2: logits 0 and 2, and W_c = [1; 3].
    share = 1 / (1 + math.exp(-2.0))
    layer = AttentionPooling(query="last", score="general", output_units=1)
    layer.build((1, 3, 1))
    layer.set_weights([np.array([[2.0]]), np.array([[1.0], [3.0]])])
    inputs, mask = np.array([[[0.0], [1.0], [9.0]]]), np.array([[True, True, False]])
    output, scores = layer(inputs, mask=mask, return_attention_scores=True)
    assert_close(scores, np.array([[[1 - share, share, 0.0]]], "float32"))
    assert_close(output, np.array([[math.tanh(share + 3.0)]], "float32"))


def test_last_position_is_the_last_that_is_not_masked(rng):
    inputs = normal(rng, 4, LENGTH, CHANNELS)
    ends = [LENGTH, 4, 2, 0]
    mask = np.arange(LENGTH)[None] < np.array(ends)[:, None]
    mask[0, 2] = False  # a gap is no end
    layer = AttentionPooling(query="last", score="general", output_units=OUTPUT_UNITS)
    actual = layer(inputs, mask=mask)
    for index, end in enumerate(ends[1:3], start=1):
        assert_close(actual[index], layer(inputs[index : index + 1, :end])[0])
    assert np.all(to_numpy(actual)[3] == 0)
    inputs[1, 4:] = 1e4
    assert_close(layer(inputs, mask=mask), actual)


@pytest.mark.parametrize("masked", [False, True])
def test_heads_equal_multi_head_attention(rng, masked):
    # A query of one position that is projected to the learned query of each head.
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    layer = AttentionPooling(NUM_HEADS, KEY_DIM, use_bias=True)
    layer.build(inputs.shape)
    layer.set_weights([normal(rng, *w.shape) for w in layer.weights])
    other = MultiHeadAttention(NUM_HEADS, KEY_DIM, output_shape=CHANNELS)
    query = np.ones((BATCH, 1, 1), "float32")
    other.build(query.shape, inputs.shape)
    weights = {w.path.split("/")[-1]: w.numpy() for w in layer.weights}
    zeros = np.zeros((NUM_HEADS, KEY_DIM))
    other.set_weights([
        weights["query_vectors"][None], zeros, weights["key_kernel"], zeros, weights["value_kernel"], zeros,
        weights["merge_kernel"], weights["merge_bias"],
    ])  # fmt: skip
    mask = mixed_mask(rng, BATCH, LENGTH) if masked else None
    output, scores = other(query, inputs, value_mask=mask, return_attention_scores=True)
    assert_close(layer(inputs, mask=mask, return_attention_scores=True), (output[:, 0], scores[:, :, 0]))


@pytest.mark.parametrize(("score", "other"), [
    ("general", lambda: LuongAttention("general")),
    ("additive", lambda: BahdanauAttention(CHANNELS)),
])  # fmt: skip
def test_last_position_as_the_query_of_a_decoder_step(rng, score, other):
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    layer, other = AttentionPooling(query="last", score=score), other()
    layer.build(inputs.shape)
    layer.set_weights([normal(rng, *w.shape) for w in layer.weights])
    weights = {w.path.split("/")[-1]: w.numpy() for w in layer.weights}
    other.build((BATCH, CHANNELS), inputs.shape)
    if score == "general":
        other.set_weights([weights["key_kernel"].T])
    else:
        other.set_weights([weights["query_kernel"], weights["key_kernel"], weights["score_kernel"].T])
    output, scores = other(inputs[:, -1], inputs, return_attention_scores=True)
    assert_close(layer(inputs, return_attention_scores=True), (output, scores[:, None]))


def test_scores_are_probabilities_over_what_is_not_masked(rng, config):
    inputs, mask = normal(rng, BATCH, LENGTH, CHANNELS), mixed_mask(rng, BATCH, LENGTH)
    _, scores = AttentionPooling(**config)(inputs, mask=mask, return_attention_scores=True)
    scores = to_numpy(scores)
    assert scores.min() >= 0
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    assert np.all(scores.transpose(0, 2, 1)[~mask] == 0)


def test_masked_positions_equal_a_shorter_sequence(rng, config):
    inputs, mask = normal(rng, BATCH, LENGTH, CHANNELS), np.arange(LENGTH)[None] < np.array([[4], [4]])
    inputs[:, 4:] = 1e4
    layer = AttentionPooling(**config)
    assert_close(layer(inputs, mask=mask), layer(inputs[:, :4]))


def test_order_cannot_matter_to_a_learned_query(rng):
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    for name in ("learned", "additive", "heads"):
        layer = AttentionPooling(**CONFIGS[name])
        assert_close(layer(inputs[:, ::-1]), layer(inputs))
    layer = AttentionPooling(query="last")
    assert np.abs(to_numpy(layer(inputs[:, ::-1])) - to_numpy(layer(inputs))).max() > 1e-3


def test_the_mask_of_a_masking_layer_is_used_and_ends_here(rng):
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    inputs[:, 4:] = 0
    symbol = keras.Input((LENGTH, CHANNELS))
    layer = AttentionPooling()
    output = layer(keras.layers.Masking()(symbol))
    assert getattr(output, "_keras_mask", None) is None
    actual = keras.Model(symbol, output).predict_on_batch(inputs)
    assert_close(actual, layer(inputs, mask=np.any(inputs != 0, axis=-1)))
    assert np.abs(actual - to_numpy(layer(inputs))).max() > 1e-3


def test_nothing_to_attend_to_is_the_output_of_a_zero_context(rng):
    inputs, mask = normal(rng, BATCH, LENGTH, CHANNELS), np.zeros((BATCH, LENGTH), bool)
    layer = AttentionPooling(NUM_HEADS, KEY_DIM, use_bias=True, bias_initializer="ones")
    output, scores = layer(inputs, mask=mask, return_attention_scores=True)
    assert np.all(to_numpy(scores) == 0)
    assert_close(output, np.ones((BATCH, CHANNELS), "float32"))


def test_dropout_only_in_training(rng, config):
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    plain, layer = AttentionPooling(**config), AttentionPooling(**config, dropout=0.5, seed=3)
    for each in (plain, layer):
        each.build(inputs.shape)
    layer.set_weights([*plain.get_weights()])
    assert_close(layer(inputs, training=False), plain(inputs), atol=0, rtol=0)
    assert np.abs(to_numpy(layer(inputs, training=True)) - to_numpy(plain(inputs))).max() > 1e-3


def test_scores_find_the_step_that_the_label_depends_on():
    # One step of eight is flagged by the first channel; the class is the sign of its second channel.
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    inputs, flagged = normal(rng, 512, 8, 4), rng.integers(0, 8, 512)
    inputs[..., 0] = 0
    inputs[np.arange(512), flagged, 0] = 1
    labels = (inputs[np.arange(512), flagged, 1] > 0).astype("int32")
    symbol = keras.Input((8, 4))
    vector, scores = AttentionPooling()(keras.layers.Dense(8)(symbol), return_attention_scores=True)
    model = keras.Model(symbol, keras.layers.Dense(1, activation="sigmoid")(vector))
    model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy", metrics=["accuracy"])
    model.fit(inputs, labels, epochs=20, batch_size=64, verbose=0)
    assert model.evaluate(inputs, labels, verbose=0)[1] > 0.95
    found = keras.Model(symbol, scores).predict(inputs, verbose=0)
    assert (found[:, 0].argmax(axis=-1) == flagged).mean() > 0.95


def test_reference_is_not_blind(rng):
    inputs = normal(rng, BATCH, LENGTH, CHANNELS)
    layer = AttentionPooling(NUM_HEADS, KEY_DIM)
    layer.build(inputs.shape)
    weights = {w.path.split("/")[-1]: np.float64(w.numpy()) for w in layer.weights}
    weights["value_kernel"] = weights["value_kernel"][:, ::-1]  # each head with the values of another
    output, _ = reference_pooling.pool(
        np.float64(inputs), weights=weights, num_heads=NUM_HEADS, key_dim=KEY_DIM
    )
    assert np.abs(output - to_numpy(layer(inputs))).max() > 1e-2


INVALID = [
    ({"num_heads": 2}, ValueError, "`num_heads` above 1 needs `key_dim`.*num_heads=2, key_dim=None"),
    ({"num_heads": 0}, ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
    ({"key_dim": 1.5}, TypeError, "`key_dim` must be a positive integer or `None`. Received: key_dim=1.5"),
    ({"query": "first"}, ValueError, "`query` must be one of 'learned', 'last'. Received: query='first'"),
    ({"score": "concat"}, ValueError, "`score` must be one of 'dot', 'general', 'additive'.*'concat'"),
    ({"score": "general"}, ValueError, '`score="general"` is for query="last".*query=\'learned\''),
    (
        {"score": "general", "query": "last", "key_dim": 3},
        ValueError,
        "`score=\"general\"` is for .*Received: query='last', key_dim=3",
    ),
    ({"use_bias": True}, ValueError, "`use_bias=True` needs .*Received: use_bias=True, score='dot'"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        AttentionPooling(**config)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("shape", "mask", "error", "message"), [
    ((2, 11), None, ValueError, r"`inputs` must have rank 3.*inputs.shape=\(2, 11\)"),
    ((2, 7, 11), np.ones((2, 5), bool), ValueError, r"`mask` must have shape \(2, 7\).*\(2, 5\)"),
    ((2, 7, 11), np.ones((2, 7), "float32"), TypeError, "`mask` must be boolean.*mask.dtype=float32"),
])  # fmt: skip
def test_invalid_calls(shape, mask, error, message, symbolic):
    inputs = keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")
    with pytest.raises(error, match=message):
        AttentionPooling()(inputs, mask=mask)
