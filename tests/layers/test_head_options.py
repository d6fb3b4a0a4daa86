"""The options of layers with heads that are layers or share heads: golden values, paths, configs, errors."""

import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import ALiBi
from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import RotaryEmbedding
from keras_attention import _functional

BATCH, LENGTH, CHANNELS, NUM_HEADS = 2, 5, 11, 6


def test_golden_shared_head():
    # Two query heads (channels 1 and 2 of the query) share one key head (channel 1 of the key) and one value
    # head. Query (1, 2), keys 1 and 0: logits (1, 0) and (2, 0) as without sharing; values 10 and 20.
    layer = MultiHeadAttention(num_heads=2, key_dim=1, use_bias=False, num_key_value_heads=1)
    query, key, value = np.array([[[1.0, 2.0]]]), np.array([[[1.0], [0.0]]]), np.array([[[10.0], [20.0]]])
    layer.build(query.shape, value.shape, key.shape)
    one = np.ones((1, 1, 1))
    layer.set_weights([np.eye(2).reshape(2, 2, 1), one, one, np.eye(2).reshape(2, 1, 2)])
    output, scores = layer(query, value, key, return_attention_scores=True)
    first, second = math.e / (math.e + 1), math.exp(2) / (math.exp(2) + 1)
    assert_close(scores, np.array([[[[first, 1 - first]], [[second, 1 - second]]]], "float32"))
    assert_close(output, np.array([[[20 - 10 * first, 20 - 10 * second]]], "float32"), atol=1e-4)


def test_golden_query_key_norm():
    # key_dim 2: query (3, 4) has the root mean square sqrt(12.5), key (1, 7) has 5. Their product after
    # normalization with scales (2, 1) and (1, 1) is (2*3*1 + 4*7) / (5 sqrt(12.5)), over sqrt(key_dim).
    layer = MultiHeadAttention(num_heads=1, key_dim=2, use_bias=False, use_query_key_norm=True)
    query, key = np.array([[[3.0, 4.0]]]), np.array([[[1.0, 7.0], [0.0, 0.0]]])
    layer.build(query.shape, key.shape)
    eye = np.eye(2).reshape(2, 1, 2)
    weights = {"query_norm": [2.0, 1.0], "key_norm": [1.0, 1.0], "attention_output": np.eye(2)[None]}
    for weight in layer.weights:
        weight.assign(weights.get(weight.path.split("/")[-2], eye))
    _, scores = layer(query, key, return_attention_scores=True)
    logit = 34 / (5 * math.sqrt(12.5)) / math.sqrt(2)
    expected = math.exp(logit) / (math.exp(logit) + 1)
    assert_close(scores, np.array([[[[expected, 1 - expected]]]], "float32"))


def test_golden_position_bias():
    # Zero queries: the logits are the bias alone. ALiBi(1) has the slope 2^-8.
    layer = MultiHeadAttention(1, 1, use_bias=False, position_bias=ALiBi(1))
    _, scores = layer(np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), return_attention_scores=True)
    near = 1 / (1 + math.exp(-(2**-8)))
    assert_close(scores, np.array([[[[near, 1 - near], [1 - near, near]]]], "float32"), atol=1e-7)


def test_rotation_makes_scores_depend_on_distances(rng):
    x = np.repeat(normal(rng, 1, 1, CHANNELS), LENGTH, axis=1)  # the same token everywhere
    layer = MultiHeadAttention(2, 8, rotary=RotaryEmbedding())
    _, scores = layer(x, x, return_attention_scores=True)
    logits = np.log(to_numpy(scores))
    ratios = logits[..., 1:] - logits[..., :-1]  # without the sum of a row
    assert_close(ratios[0, :, 1, 1:], ratios[0, :, 0, :-1], atol=1e-4)
    assert np.ptp(ratios) > 0.01


@pytest.mark.parametrize("num_shared", [1, 2, 3])
def test_grouped_matmul_equals_repeated_heads(rng, num_shared):
    x, shared = normal(rng, 2, 6, 5, 7), normal(rng, 2, num_shared, 7, 11)
    expected = x @ np.repeat(shared, 6 // num_shared, axis=1)
    assert_close(_functional.grouped_matmul(x, shared), expected)


CONFIGS = {
    "grouped": lambda: {"num_key_value_heads": 2},
    "multi_query": lambda: {"num_key_value_heads": 1, "use_query_key_norm": True},
    "bias": lambda: {"position_bias": ALiBi(NUM_HEADS), "num_key_value_heads": 3},
    "learned_bias": lambda: {"position_bias": RelativePositionBias(NUM_HEADS), "rotary": RotaryEmbedding()},
}


@pytest.mark.parametrize("masks", ["none", "keys", "heads", "causal"])
@pytest.mark.parametrize("name", CONFIGS)
def test_paths_agree(rng, name, masks):
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    mask = mixed_mask(rng, BATCH, NUM_HEADS, LENGTH, LENGTH)
    mask[0, :, 1] = False
    given = {
        "none": {},
        "keys": {"value_mask": mixed_mask(rng, BATCH, LENGTH)},
        "heads": {"attention_mask": mask},
        "causal": {"use_causal_mask": True},
    }[masks]
    layer = MultiHeadAttention(NUM_HEADS, 8, **CONFIGS[name]())
    fused = layer(x, x, **given)  # on PyTorch; elsewhere the same path
    output, scores = layer(x, x, **given, return_attention_scores=True)
    assert_close(fused, output)
    if masks == "heads":
        assert np.all(to_numpy(scores)[~mask] == 0)
    for config in ({"dropout": 0.5}, {"flash_attention": False}):
        other = MultiHeadAttention(NUM_HEADS, 8, **CONFIGS[name](), **config)
        other.build(x.shape, x.shape)
        other.set_weights(layer.get_weights() + [w for w in other.get_weights() if w.dtype == "uint32"])
        assert_close(other(x, x, **given), output)


def test_one_bias_serves_several_layers(rng, tmp_path):
    # as in T5: the table exists once, learns from both layers, and is saved
    bias = RelativePositionBias(2)
    inputs = keras.Input((LENGTH, CHANNELS))
    x = MultiHeadAttention(2, 3, position_bias=bias)(inputs, inputs)
    model = keras.Model(inputs, MultiHeadAttention(2, 3, position_bias=bias)(x, x))
    assert sum(w is bias.embeddings for w in model.trainable_weights) == 1
    assert len(model.trainable_weights) == 8 + 8 + 1
    bias.embeddings.assign(normal(rng, *bias.embeddings.shape))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.trainable_weights) == 8 + 8 + 1
    batch = normal(rng, BATCH, LENGTH, CHANNELS)
    assert_close(loaded(batch), model(batch), atol=0, rtol=0)


def test_a_bias_of_other_heads_is_refused_built_or_not(rng):
    built = ALiBi(1)
    built.build()
    for bias in (ALiBi(1), built, RelativePositionBias(3)):
        with pytest.raises(ValueError, match=r"`position_bias` must have as many heads.*num_heads=2"):
            MultiHeadAttention(2, 3, position_bias=bias)


def test_a_two_dimensional_bias_over_two_axes(rng):
    image = normal(rng, BATCH, 3, 5, CHANNELS)
    layer = MultiHeadAttention(2, 3, position_bias=RelativePositionBias(2, window_size=(3, 5)))
    _, scores = layer(image, image, return_attention_scores=True)
    assert scores.shape == (BATCH, 2, 3, 5, 3, 5)


INVALID = [
    ({"num_key_value_heads": 4}, ValueError, "multiple of `num_key_value_heads`.*num_heads=6.*heads=4"),
    ({"num_key_value_heads": 0}, ValueError, "`num_key_value_heads` must be a positive integer"),
    ({"use_query_key_norm": 1}, TypeError, "`use_query_key_norm` must be True or False"),
    ({"rotary": True}, TypeError, "`rotary` must be a Keras layer.*Received: rotary=True"),
    (
        {"rotary": keras.layers.Dense(4)},
        TypeError,
        "`rotary` must be a layer that is called with 'start_index'.*whose `call` takes inputs, training",
    ),
    ({"rotary": RotaryEmbedding}, TypeError, "`rotary` must be a Keras layer, an object and not a class"),
    ({"position_bias": RotaryEmbedding()}, TypeError, "`position_bias`.*with the method `compute_bias`"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        MultiHeadAttention(NUM_HEADS, 8, **config)


def test_rotation_needs_one_axis(rng):
    image = normal(rng, BATCH, 3, 5, CHANNELS)
    with pytest.raises(ValueError, match=r"`rotary` needs a single attention axis.*\(1, 2\)"):
        MultiHeadAttention(2, 4, rotary=RotaryEmbedding())(image, image)


def test_the_bias_must_have_the_heads_of_the_layer(rng):
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    with pytest.raises(ValueError, match="num_heads=4"):
        MultiHeadAttention(NUM_HEADS, 8, position_bias=ALiBi(4))(x, x)
