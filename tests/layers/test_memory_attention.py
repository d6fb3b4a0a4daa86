import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import MemoryAttention
from keras_attention import MultiHeadAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS, NUM_HEADS, KEY_DIM, NUM_SLOTS = 2, 5, 7, 11, 3, 13, 17


def make_inputs(rng):
    return [normal(rng, BATCH, n, CHANNELS) for n in (QUERY_LENGTH, KEY_LENGTH)]


def make_layer(**options):
    return MemoryAttention(NUM_HEADS, KEY_DIM, NUM_SLOTS, **options)


def test_golden_one_slot():
    # Projections 1; slot key 2 and slot value 3 with the factors sqrt(1) and sqrt(1). Query 1: the key 0 has
    # the logit 0, the slot 2, so the slot's score is s = 1 / (1 + e^-2) and the output 5 (1 - s) + 3 s.
    share = 1 / (1 + math.exp(-2.0))
    layer = MemoryAttention(1, 1, 1, use_bias=False, kernel_initializer="ones")
    query, value, key = np.array([[[1.0]]]), np.array([[[5.0]]]), np.array([[[0.0]]])
    layer.build(query.shape, value.shape, key.shape)
    layer.slot_keys.assign([[[[2.0]]]])
    layer.slot_values.assign([[[[3.0]]]])
    output, scores = layer(query, value, key, return_attention_scores=True)
    assert_close(scores, np.array([[[[1 - share, share]]]], "float32"))
    assert_close(output, np.array([[[5 * (1 - share) + 3 * share]]], "float32"))


def test_slots_start_as_in_the_paper():
    layer = MemoryAttention(5, 16, 400)
    layer.build((1, 3, 8), (1, 3, 8))
    np.testing.assert_allclose(to_numpy(layer.slot_keys).std(), 1 / math.sqrt(16), rtol=0.02)
    np.testing.assert_allclose(to_numpy(layer.slot_values).std(), 1 / math.sqrt(400), rtol=0.02)


def test_slots_that_nothing_attends_to_leave_multi_head_attention(rng):
    # With query biases of 1 and slot keys of -1e4, the slots' scores are zero.
    query, value = make_inputs(rng)
    layer, other = make_layer(), MultiHeadAttention(NUM_HEADS, KEY_DIM, flash_attention=False)
    for each in (layer, other):
        each.build(query.shape, value.shape)
    weights = {w.path.split("/", 1)[1]: w for w in layer.weights}
    weights["query/bias"].assign(np.full((NUM_HEADS, KEY_DIM), 10.0))
    layer.slot_keys.assign(np.full((1, NUM_HEADS, NUM_SLOTS, KEY_DIM), -1e4))
    other.set_weights(layer.get_weights()[2:])  # the slots come first
    masks = {"value_mask": mixed_mask(rng, BATCH, KEY_LENGTH), "use_causal_mask": True}
    output, scores = layer(query, value, return_attention_scores=True, **masks)
    assert np.all(to_numpy(scores)[..., KEY_LENGTH:] == 0)
    expected = other(query, value, return_attention_scores=True, **masks)
    assert_close((output, scores[..., :KEY_LENGTH]), expected)


def test_a_query_without_allowed_keys_attends_to_the_slots(rng):
    query, value = make_inputs(rng)
    layer = make_layer(use_bias=False)
    for masks in (
        {"value_mask": np.zeros((BATCH, KEY_LENGTH), bool)},
        {"key_mask": np.zeros((BATCH, KEY_LENGTH), bool)},
        {"attention_mask": np.zeros((QUERY_LENGTH, KEY_LENGTH), bool)},
    ):
        output, scores = layer(query, value, return_attention_scores=True, **masks)
        scores = to_numpy(scores)
        assert np.all(scores[..., :KEY_LENGTH] == 0)
        np.testing.assert_allclose(scores[..., KEY_LENGTH:].sum(-1), 1, atol=1e-5)
        value = value + 1.0  # no key, no value: nothing of the sequence is left
        assert_close(layer(query, value, **masks), output)


def test_a_query_that_is_masked_gets_zeros(rng):
    query, value = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH)
    layer = make_layer(use_bias=False)
    output, scores = layer(query, value, query_mask=mask, return_attention_scores=True)
    assert np.all(to_numpy(output)[~mask] == 0)
    assert np.all(to_numpy(scores).transpose(0, 2, 1, 3)[~mask] == 0)
    assert_close(to_numpy(output)[mask], to_numpy(layer(query, value))[mask])


def test_every_kind_of_mask_may_be_combined(rng):
    query, value = make_inputs(rng)
    pairs = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    causal = np.tril(np.ones((QUERY_LENGTH, KEY_LENGTH), bool))
    layer = make_layer()
    actual = layer(query, value, attention_mask=pairs, use_causal_mask=True, return_attention_scores=True)
    expected = layer(query, value, attention_mask=pairs & causal, return_attention_scores=True)
    assert_close(actual, expected)
    constant = layer(query, value, use_causal_mask=True, return_attention_scores=True)
    assert_close(constant, layer(query, value, attention_mask=causal, return_attention_scores=True))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_masked_scores_in_low_precision(rng, policy):
    query, value = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, KEY_LENGTH)
    _, scores = make_layer(dtype=policy)(
        query * 1000, value * 1000, value_mask=mask, return_attention_scores=True
    )
    assert keras.backend.standardize_dtype(scores.dtype) == policy.removeprefix("mixed_")
    scores = to_numpy(keras.ops.cast(scores, "float32"))
    assert np.all(np.isfinite(scores))
    assert np.all(scores[..., :KEY_LENGTH].transpose(0, 3, 1, 2)[~mask] == 0)


@pytest.mark.parametrize(("num_slots", "error"), [(0, ValueError), (2.0, TypeError), (None, TypeError)])
def test_invalid_arguments(num_slots, error):
    with pytest.raises(error, match=r"`num_slots` must be a positive integer.*Received: num_slots="):
        MemoryAttention(2, 3, num_slots)


@pytest.mark.parametrize("symbolic", [False, True])
def test_masks_know_no_slots(symbolic):
    shapes = [(2, 5, 11), (2, 7, 11)]
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    with pytest.raises(ValueError, match=r"`attention_mask` must broadcast .*\(2, 3, 5, 7\).*\(5, 24\)"):
        make_layer()(*inputs, attention_mask=np.ones((QUERY_LENGTH, KEY_LENGTH + NUM_SLOTS), bool))
