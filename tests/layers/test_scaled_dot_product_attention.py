import math

import keras
import numpy as np
import pytest
import reference
from contract import MASKS
from contract import assert_close
from contract import make_masks
from contract import normal
from contract import to_numpy

from keras_attention import ScaledDotProductAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS, VALUE_CHANNELS, NUM_HEADS = 2, 5, 7, 11, 13, 3
SIZES = (BATCH, QUERY_LENGTH, KEY_LENGTH)


def make_inputs(rng, heads=()):
    return [
        normal(rng, BATCH, *heads, QUERY_LENGTH, CHANNELS),
        normal(rng, BATCH, *heads, KEY_LENGTH, VALUE_CHANNELS),
        normal(rng, BATCH, *heads, KEY_LENGTH, CHANNELS),
    ]


def test_golden_two_keys():
    # Query (2, 0), keys (1, 0) and (0, 1): products 2 and 0. With scale 1/2 the logits are 1 and 0, so the
    # scores are e/(e+1) and 1/(e+1); values 10 and 20 give 20 - 10 e/(e+1).
    share = math.e / (math.e + 1)
    query, key, value = np.array([[[2.0, 0]]]), np.array([[[1.0, 0], [0, 1]]]), np.array([[[10.0], [20.0]]])
    layer = ScaledDotProductAttention(scale=0.5)
    context, scores = layer(query, value, key, return_attention_scores=True)
    assert_close(scores, np.array([[[share, 1 - share]]], "float32"))
    assert_close(context, np.array([[[20 - 10 * share]]], "float32"))


def test_golden_default_scale():
    # Four channels: scale 1/2. Query of ones times keys of ones and zeros: logits 4/2 = 2 and 0.
    share = math.exp(2) / (math.exp(2) + 1)
    key = np.array([[[1.0] * 4, [0.0] * 4]])
    _, scores = ScaledDotProductAttention()(np.ones((1, 1, 4)), key, return_attention_scores=True)
    assert_close(scores, np.array([[[share, 1 - share]]], "float32"))


def test_golden_causal_mean():
    # Equal keys: every position averages the values up to itself, 1, (1+3)/2, (1+3+8)/3.
    value = np.array([[[1.0], [3.0], [8.0]]])
    context = ScaledDotProductAttention()(np.ones((1, 3, 1)), value, np.ones((1, 3, 1)), use_causal_mask=True)
    assert_close(context, np.array([[[1.0], [2.0], [4.0]]], "float32"))


@pytest.mark.parametrize("names", MASKS, ids="+".join)
@pytest.mark.parametrize("scale", [None, 0.7])
def test_reference(rng, names, scale):
    query, value, key = make_inputs(rng)
    masks = make_masks(rng, names, *SIZES)
    layer = ScaledDotProductAttention(scale=scale)
    actual = layer(query, value, key, return_attention_scores=True, **masks)
    assert_close(actual, reference.scaled_dot_product(query, value, key, scale, **masks))
    assert_close(layer(query, value, key, **masks), actual[0], atol=0, rtol=0)


@pytest.mark.parametrize("names", MASKS, ids="+".join)
def test_rank_4_is_one_rank_3_per_head(rng, names):
    inputs = make_inputs(rng, (NUM_HEADS,))
    masks = make_masks(rng, names, *SIZES)
    layer = ScaledDotProductAttention()
    context, scores = layer(*inputs, return_attention_scores=True, **masks)
    for head in range(NUM_HEADS):
        expected = layer(*[x[:, head] for x in inputs], return_attention_scores=True, **masks)
        assert_close((context[:, head], scores[:, head]), expected)


def test_key_defaults_to_value(rng):
    query, _, key = make_inputs(rng)
    layer = ScaledDotProductAttention()
    assert_close(layer(query, key), layer(query, key, key), atol=0)


def test_learned_scale_starts_at_the_default(rng):
    query, value, key = make_inputs(rng)
    learned = ScaledDotProductAttention(use_scale=True)
    assert_close(learned(query, value, key), ScaledDotProductAttention()(query, value, key))
    learned.set_weights([np.float32(0.7)])
    assert_close(learned(query, value, key), ScaledDotProductAttention(scale=0.7)(query, value, key))


def test_same_as_keras_attention(rng):
    query, value, key = make_inputs(rng)
    masks = make_masks(rng, ("value_mask",), *SIZES)
    expected = keras.layers.Attention()([query, value, key], mask=[None, masks["value_mask"], None])
    assert_close(ScaledDotProductAttention(scale=1.0)(query, value, key, **masks), expected)


def test_dropout_only_in_training(rng):
    query, value, key = make_inputs(rng)
    layer = ScaledDotProductAttention(dropout=0.5, seed=3)
    plain = ScaledDotProductAttention()(query, value, key)
    assert_close(layer(query, value, key, training=False), plain, atol=0)
    first, scores = layer(query, value, key, training=True, return_attention_scores=True)
    assert np.abs(to_numpy(first) - to_numpy(plain)).max() > 0.01
    assert_close(to_numpy(scores).sum(-1), np.ones((BATCH, QUERY_LENGTH), "float32"))
    again = ScaledDotProductAttention(dropout=0.5, seed=3)(query, value, key, training=True)
    assert_close(first, again, atol=0)


INVALID = [
    ({"dropout": 1.0}, ValueError, r"`dropout` must be in \[0, 1\).*Received: dropout=1.0"),
    ({"dropout": "a"}, TypeError, "`dropout` must be a number.*Received: dropout='a'"),
    ({"use_scale": 1}, TypeError, "`use_scale` must be True or False. Received: use_scale=1"),
    ({"scale": "big"}, TypeError, "`scale` must be a number.*Received: scale='big'"),
    ({"scale": math.inf}, ValueError, "`scale` must be finite. Received: scale=inf"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        ScaledDotProductAttention(**config)


INVALID_SHAPES = [
    ([(2, 5, 11), (2, 7, 13)], "same number of channels.*Received: 11 and 13"),
    ([(2, 11), (2, 7, 11)], r"rank 3.*Received: query.shape=\(2, 11\)"),
    ([(2, 5, 11), (3, 7, 11)], r"same batch size. Received.*\(3, 7, 11\)"),
    ([(2, 5, 11), (2, 7, 13), (2, 3, 11)], r"each key has one value. Received.*key.shape=\(2, 3, 11\)"),
    ([(2, 3, 5, 11), (2, 4, 7, 11)], "same number of heads"),
]


@pytest.mark.parametrize(("shapes", "message"), INVALID_SHAPES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_shapes(shapes, message, symbolic):
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    with pytest.raises(ValueError, match=message):
        ScaledDotProductAttention()(*inputs)


INVALID_MASKS = [
    ({"query_mask": (2, 7)}, r"`query_mask` must have shape \(2, 5\).*Received: query_mask.shape=\(2, 7\)"),
    ({"value_mask": (2, 5)}, r"`value_mask` must have shape \(2, 7\)"),
    ({"key_mask": (2, 7, 1)}, r"`key_mask` must have shape \(2, 7\)"),
    ({"attention_mask": (2, 7, 5)}, r"`attention_mask` must broadcast.*\(2, 5, 7\).*Received.*\(2, 7, 5\)"),
    ({"attention_mask": (7,)}, "`attention_mask` must broadcast"),
]


@pytest.mark.parametrize(("shapes", "message"), INVALID_MASKS)
def test_invalid_masks(shapes, message):
    masks = {name: np.ones(shape, bool) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=message):
        ScaledDotProductAttention()(np.zeros((2, 5, 11)), np.zeros((2, 7, 11)), **masks)
