import math

import keras
import numpy as np
import pytest
import reference
from contract import assert_close
from contract import make_masks
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import BahdanauAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS, VALUE_CHANNELS, KEY_CHANNELS, UNITS = 2, 5, 7, 11, 13, 17, 19
SIZES = (BATCH, QUERY_LENGTH, KEY_LENGTH)


def make_inputs(rng, query_sizes=(QUERY_LENGTH,)):
    return [
        normal(rng, BATCH, *query_sizes, CHANNELS),
        normal(rng, BATCH, KEY_LENGTH, VALUE_CHANNELS),
        normal(rng, BATCH, KEY_LENGTH, KEY_CHANNELS),
    ]


def random_weights(rng, layer, *inputs):
    """Builds the layer with random weights, biases too, and returns them by name in float64."""
    layer.build(*[x.shape for x in inputs])
    layer.set_weights([normal(rng, *w.shape) * 0.5 for w in layer.weights])
    return {w.name: np.float64(w.numpy()) for w in layer.weights}


def test_weight_shapes():
    layer = BahdanauAttention(UNITS, use_bias=True)
    layer.build((None, None, CHANNELS), (None, None, VALUE_CHANNELS), (None, None, KEY_CHANNELS))
    assert {w.name: tuple(w.shape) for w in layer.weights} == {
        "query_kernel": (CHANNELS, UNITS),
        "key_kernel": (KEY_CHANNELS, UNITS),
        "score_kernel": (UNITS, 1),
        "bias": (UNITS,),
    }


def test_kernels_start_differently():
    layer = BahdanauAttention(UNITS, kernel_initializer=keras.initializers.RandomNormal())
    layer.build((None, 3, CHANNELS), (None, 3, CHANNELS))
    assert np.abs(layer.query_kernel.numpy() - layer.key_kernel.numpy()).max() > 0.01


def test_golden_one_unit():
    # W_q = 1, W_k = 2, v = 3, query 0.5, keys 0 and -0.25: logits 3 tanh(0.5) and 3 tanh(0) = 0, so the first
    # score is 1 / (1 + exp(-3 tanh(0.5))) and the context 10 p + 20 (1 - p).
    share = 1 / (1 + math.exp(-3 * math.tanh(0.5)))
    query, key, value = np.array([[0.5]]), np.array([[[0.0], [-0.25]]]), np.array([[[10.0], [20.0]]])
    layer = BahdanauAttention(1)
    layer.build(query.shape, value.shape, key.shape)
    layer.set_weights([np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])])
    context, scores = layer(query, value, key, return_attention_scores=True)
    assert_close(scores, np.array([[share, 1 - share]], "float32"))
    assert_close(context, np.array([[20 - 10 * share]], "float32"))


def test_key_defaults_to_value(rng):
    query, _, key = make_inputs(rng)
    layer = BahdanauAttention(UNITS)
    weights = random_weights(rng, layer, query, key)
    assert_close(layer(query, key), layer(query, key, key), atol=0)
    assert_close(layer(query, key), reference.bahdanau(query, key, **weights)[0])


@pytest.mark.parametrize("names", [(), ("value_mask", "key_mask", "query_mask", "attention_mask")])
def test_step_is_a_sequence_of_one(rng, names):
    query, value, key = make_inputs(rng, ())
    layer = BahdanauAttention(UNITS)
    random_weights(rng, layer, query, value, key)
    masks = make_masks(rng, names, *SIZES)
    step = dict(masks)
    if names:
        masks["query_mask"] = np.array([[True], [False]])
        masks["attention_mask"] = mixed_mask(rng, BATCH, 1, KEY_LENGTH)
        step = {
            **masks,
            "query_mask": np.array([True, False]),
            "attention_mask": masks["attention_mask"][:, 0],
        }
    context, scores = layer(query, value, key, return_attention_scores=True, **step)
    expected = layer(query[:, None], value, key, return_attention_scores=True, **masks)
    assert_close((context[:, None], scores[:, None]), expected)
    if names:
        assert np.all(to_numpy(context)[1] == 0)


def test_same_as_keras_additive_attention(rng):
    # The built-in has v only: project with its formula by hand.
    query, value, key = make_inputs(rng)
    layer = BahdanauAttention(UNITS)
    weights = random_weights(rng, layer, query, value, key)
    builtin = keras.layers.AdditiveAttention()
    projected = [np.float32(query @ weights["query_kernel"]), value, np.float32(key @ weights["key_kernel"])]
    builtin.build([x.shape for x in projected])
    builtin.set_weights([np.float32(weights["score_kernel"][:, 0])])
    assert_close(layer(query, value, key), builtin(projected))


def test_dropout_only_in_training(rng):
    inputs = make_inputs(rng)
    plain, layer = BahdanauAttention(UNITS), BahdanauAttention(UNITS, dropout=0.5, seed=3)
    random_weights(rng, plain, *inputs)
    layer.build(*[x.shape for x in inputs])
    layer.set_weights(plain.get_weights())
    assert_close(layer(*inputs, training=False), plain(*inputs), atol=0, rtol=0)
    assert np.abs(to_numpy(layer(*inputs, training=True)) - to_numpy(plain(*inputs))).max() > 0.01


INVALID = [
    ({"units": 0}, ValueError, "`units` must be a positive integer. Received: units=0"),
    ({"units": 2.0}, TypeError, "`units` must be a positive integer. Received: units=2.0"),
    ({"units": 3, "dropout": -0.1}, ValueError, r"`dropout` must be in \[0, 1\).*Received: dropout=-0.1"),
    ({"units": 3, "use_bias": "no"}, TypeError, "`use_bias` must be True or False. Received: use_bias='no'"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        BahdanauAttention(**config)


INVALID_CALLS = [
    ([(2, 3, 5, 11), (2, 7, 13)], {}, r"`query` must have rank 3.*query.shape=\(2, 3, 5, 11\)"),
    ([(2, 5, 11), (2, 13)], {}, r"`value` rank 3.*value.shape=\(2, 13\)"),
    ([(2, 5, 11), (3, 7, 13)], {}, r"same batch size.*\(3, 7, 13\)"),
    ([(2, 5, 11), (2, 7, 13), (2, 5, 13)], {}, r"each key has one value.*key.shape=\(2, 5, 13\)"),
    ([(2, 5, 11), (2, 7, 13)], {"query_mask": (2, 7)}, r"`query_mask` must have shape \(2, 5\)"),
    ([(2, 11), (2, 7, 13)], {"query_mask": (2, 1)}, r"`query_mask` must have shape \(2,\)"),
    (
        [(2, 11), (2, 7, 13)],
        {"attention_mask": (2, 1, 7)},
        r"`attention_mask` must have shape \(batch, key_l",
    ),
    ([(2, 5, 11), (2, 7, 13)], {"attention_mask": (2, 7, 5)}, "`attention_mask` must broadcast"),
]


@pytest.mark.parametrize(("shapes", "masks", "message"), INVALID_CALLS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(shapes, masks, message, symbolic):
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    masks = {name: np.ones(shape, bool) for name, shape in masks.items()}
    with pytest.raises(ValueError, match=message):
        BahdanauAttention(3)(*inputs, **masks)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_step_has_no_causal_mask(symbolic):
    query = keras.Input(batch_shape=(2, 11)) if symbolic else np.zeros((2, 11))
    with pytest.raises(ValueError, match=r"`use_causal_mask` needs a `query` of rank 3.*Received"):
        BahdanauAttention(3)(query, np.zeros((2, 7, 13)), use_causal_mask=True)
