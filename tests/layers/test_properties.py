"""What holds for all three layers: masks, causality, permutations, and numbers at their limits."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import gradients
from contract import mixed_mask
from contract import normal
from contract import to_numpy
from contract import weighted_sum
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention import BahdanauAttention
from keras_attention import LuongAttention
from keras_attention import MultiHeadAttention
from keras_attention import ScaledDotProductAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS = 2, 5, 7, 11

LAYERS = {
    "bahdanau": lambda **kwargs: BahdanauAttention(13, **kwargs),
    "luong_general": lambda **kwargs: LuongAttention("general", **kwargs),
    "luong_concat": lambda **kwargs: LuongAttention("concat", 13, **kwargs),
    "scaled_dot_product": lambda **kwargs: ScaledDotProductAttention(**kwargs),
    "multi_head": lambda **kwargs: MultiHeadAttention(3, 13, use_bias=False, **kwargs),
    "multi_head_unfused": lambda **kwargs: MultiHeadAttention(
        3, 13, use_bias=False, flash_attention=False, **kwargs
    ),
}
CAUSAL = {"use_causal_mask": True}


@pytest.fixture(params=LAYERS)
def make_layer(request):
    return LAYERS[request.param]


def make_inputs(rng, query_length=QUERY_LENGTH, key_length=KEY_LENGTH):
    return [normal(rng, BATCH, n, CHANNELS) for n in (query_length, key_length, key_length)]


def difference(first, second):
    return np.abs(to_numpy(first) - to_numpy(second))


def test_scores_are_probabilities_over_allowed_keys(rng, make_layer):
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    _, scores = make_layer()(*make_inputs(rng), attention_mask=mask, return_attention_scores=True)
    scores = to_numpy(scores)
    assert scores.min() >= 0
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    scores = scores if scores.ndim == 4 else scores[:, None]
    assert np.all(scores.transpose(0, 2, 3, 1)[~mask] == 0)


def test_masked_values_cannot_matter(rng, make_layer):
    query, value, key = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, KEY_LENGTH)
    layer = make_layer()
    before = layer(query, value, key, value_mask=mask)
    value[~mask], key[~mask] = 1e4, -1e4
    assert_close(layer(query, value, key, value_mask=mask), before)
    value[mask] += 1.0
    assert difference(layer(query, value, key, value_mask=mask), before).min() > 1e-4


def test_masked_positions_equal_shorter_inputs(rng, make_layer):
    query, value, key = make_inputs(rng)
    mask = np.arange(KEY_LENGTH)[None] < np.array([[4], [4]])
    layer = make_layer()
    assert_close(layer(query, value, key, key_mask=mask), layer(query, value[:, :4], key[:, :4]))


@pytest.mark.parametrize("position", [0, 2, KEY_LENGTH - 1])
def test_causal_future_cannot_change_the_past(rng, make_layer, position):
    inputs = make_inputs(rng, KEY_LENGTH)
    layer = make_layer()
    before = layer(*inputs, **CAUSAL)
    for x in inputs[1:]:
        x[:, position] += 1.0
    change = difference(layer(*inputs, **CAUSAL), before).max(axis=(0, 2))
    assert np.all(change[:position] == 0)
    assert np.all(change[position:] > 1e-4), "a position sees itself and its past"


@pytest.mark.parametrize("lengths", [(QUERY_LENGTH, KEY_LENGTH), (KEY_LENGTH, QUERY_LENGTH)])
def test_causal_equals_the_explicit_mask(rng, make_layer, lengths):
    inputs = make_inputs(rng, *lengths)
    mask = np.tril(np.ones(lengths, bool))
    layer = make_layer()
    assert_close(layer(*inputs, **CAUSAL), layer(*inputs, attention_mask=mask))
    expected = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert_close(layer(*inputs, **CAUSAL, return_attention_scores=True), expected)


def test_all_true_masks_change_nothing(rng, make_layer):
    inputs = make_inputs(rng)
    masks = {
        "query_mask": np.ones((BATCH, QUERY_LENGTH), bool),
        "value_mask": np.ones((BATCH, KEY_LENGTH), bool),
        "key_mask": np.ones((BATCH, KEY_LENGTH), bool),
        "attention_mask": np.ones((QUERY_LENGTH, KEY_LENGTH), bool),
    }
    layer = make_layer()
    assert_close(layer(*inputs, **masks), layer(*inputs))
    assert_close(
        layer(*inputs, **masks, return_attention_scores=True), layer(*inputs, return_attention_scores=True)
    )


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_masks_of_numbers_mean_the_same(rng, make_layer, dtype):
    inputs = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    layer = make_layer()
    assert_close(layer(*inputs, attention_mask=mask.astype(dtype)), layer(*inputs, attention_mask=mask))


def test_attention_mask_broadcasts(rng, make_layer):
    inputs = make_inputs(rng)
    mask = mixed_mask(rng, QUERY_LENGTH, KEY_LENGTH)
    layer = make_layer()
    expected = layer(*inputs, attention_mask=np.stack([mask] * BATCH))
    assert_close(layer(*inputs, attention_mask=mask), expected)
    assert_close(layer(*inputs, attention_mask=mask[None]), expected)
    row = mixed_mask(rng, BATCH, 1, KEY_LENGTH)
    assert_close(layer(*inputs, attention_mask=row), layer(*inputs, key_mask=row[:, 0]))


def test_explicit_mask_beats_the_attached_one(rng, make_layer):
    query, value, _ = make_inputs(rng)
    attached, explicit = mixed_mask(rng, BATCH, KEY_LENGTH), mixed_mask(rng, BATCH, KEY_LENGTH)
    assert (attached != explicit).any()
    layer = make_layer()
    expected = to_numpy(layer(query, value, value_mask=explicit))
    with_attached = to_numpy(layer(query, value, value_mask=attached))
    value = keras.layers.Masking()(np.where(attached[..., None], value, 0))
    assert_close(layer(query, value), with_attached)
    # only the attached mask differs from here on: compare on values that the attached mask did not blank
    value = keras.ops.convert_to_tensor(make_inputs(np.random.default_rng(1))[1])
    expected = to_numpy(layer(query, value, value_mask=explicit))
    value._keras_mask = keras.ops.convert_to_tensor(attached)
    assert difference(layer(query, value), expected).max() > 1e-3
    assert_close(layer(query, value, value_mask=explicit), expected)


def test_masks_flow_through_a_model(rng, make_layer):
    query, value, _ = make_inputs(rng)
    query[:, -2:], value[:, -3:] = 0, 0
    inputs = [keras.Input(x.shape[1:]) for x in (query, value)]
    masked = [keras.layers.Masking()(x) for x in inputs]
    layer = make_layer()
    context = layer(*masked)
    model = keras.Model(inputs, [context, keras.layers.GlobalAveragePooling1D()(context)])
    actual, mean = model.predict_on_batch([query, value])
    masks = {"query_mask": np.any(query != 0, -1), "value_mask": np.any(value != 0, -1)}
    assert_close(actual, layer(query, value, **masks))
    assert np.all(actual[:, -2:] == 0)
    assert_close(mean, actual[:, :-2].mean(axis=1))  # the pooling sees the mask of the query


@settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(order=st.permutations(range(KEY_LENGTH)), query_order=st.permutations(range(QUERY_LENGTH)))
def test_order_of_keys_cannot_matter_and_queries_are_independent(rng, make_layer, order, query_order):
    query, value, key = make_inputs(rng)
    layer = make_layer()
    context, scores = (to_numpy(x) for x in layer(query, value, key, return_attention_scores=True))
    permuted = layer(query[:, query_order], value[:, order], key[:, order], return_attention_scores=True)
    assert_close(permuted, (context[:, query_order], scores[..., query_order, :][..., order]))


@settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(bits=st.lists(st.booleans(), min_size=15, max_size=15))
def test_any_mask_gives_finite_rows_and_zeros_where_nothing_is_allowed(rng, make_layer, bits):
    query, value, key = make_inputs(rng, 3, 5)
    mask = np.array(bits).reshape(1, 3, 5)
    layer = make_layer()
    context, scores = layer(query, value, key, attention_mask=mask, return_attention_scores=True)
    sums = to_numpy(scores).sum(-1)
    sums = sums if sums.ndim == 2 else sums.max(axis=1)
    np.testing.assert_allclose(sums, np.broadcast_to(mask.any(-1), sums.shape), atol=1e-5)
    without_scores = to_numpy(layer(query, value, key, attention_mask=mask))
    assert np.all(np.isfinite(without_scores))
    assert_close(without_scores, context)
    assert np.all(without_scores[:, ~mask[0].any(-1)] == 0)


@pytest.mark.parametrize("size", [1e3, 1e9])
@pytest.mark.parametrize("masked", [False, True])
def test_extreme_logits_stay_finite(rng, make_layer, size, masked):
    query, value, key = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    mask[0, 1] = False
    masks = {"attention_mask": mask} if masked else {}
    layer = make_layer()
    factors = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    inputs = [query * np.float32(size), value, key * np.float32(size)]
    layer(*inputs)
    output, scores = layer(*inputs, return_attention_scores=True, **masks)
    assert np.all(np.isfinite(to_numpy(output))) and np.all(np.isfinite(to_numpy(scores)))
    sums = to_numpy(scores).sum(-1)
    allowed = np.ones(mask.shape[:2], bool) if not masked else mask.any(-1)
    allowed = allowed if sums.ndim == 2 else allowed[:, None]
    np.testing.assert_allclose(sums, np.broadcast_to(allowed, sums.shape), atol=1e-5)
    for gradient in gradients(lambda *x: weighted_sum(layer(*x, **masks), factors), inputs):
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_low_precision_masks_and_overflow(rng, make_layer, policy):
    query, value, key = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    mask[0, 1] = False
    layer = make_layer(dtype=policy)
    # products of about 1000 * 1000 leave the range of float16, 65504
    inputs = [query * 1000, value, key * 1000]
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    for tensor in (output, scores, layer(*inputs, attention_mask=mask)):
        tensor = to_numpy(keras.ops.cast(tensor, "float32"))
        assert np.all(np.isfinite(tensor))
    assert np.all(to_numpy(keras.ops.cast(output, "float32"))[0, 1] == 0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_softmax_sees_float32(rng, monkeypatch, make_layer, policy):
    seen, softmax = [], keras.ops.softmax

    def spy(x, axis=-1):
        seen.append(keras.backend.standardize_dtype(x.dtype))
        return softmax(x, axis)

    monkeypatch.setattr(keras.ops, "softmax", spy)
    make_layer(dtype=policy)(*make_inputs(rng), return_attention_scores=True)
    assert seen == ["float32"]


def test_long_rows_of_float16(rng):
    # 4,099 equal keys: a float16 sum of exponentials stops growing at 2,048, for scores twice too large.
    key = np.zeros((1, 4099, 1), "float32")
    value = np.ones((1, 4099, 1), "float32")
    layer = ScaledDotProductAttention(dtype="float16")
    _, scores = layer(np.ones((1, 1, 1), "float32"), value, key, return_attention_scores=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "float16"
    np.testing.assert_allclose(to_numpy(keras.ops.cast(scores, "float32")), 1 / 4099, rtol=2e-3)


def test_float16_scores_are_rounded_once(rng):
    # logits 0 and -8: e^-8 / (1 + e^-8) to the precision of float16, which a float16 exp or sum would miss
    layer = ScaledDotProductAttention(scale=1.0, dtype="float16")
    key = np.array([[[0.0], [-7.0], [-6.5]]])
    _, scores = layer(np.ones((1, 1, 1)), np.ones((1, 3, 1)), key, return_attention_scores=True)
    expected = np.exp([0.0, -7.0, -6.5]) / np.exp([0.0, -7.0, -6.5]).sum()
    np.testing.assert_array_equal(to_numpy(scores)[0, 0], np.float16(expected))


@pytest.mark.parametrize(
    "mask", [{}, CAUSAL, {"value_mask": np.array([[False] * KEY_LENGTH] * BATCH)}], ids=str
)
def test_gradients_are_finite_and_zero_when_nothing_is_allowed(rng, make_layer, mask):
    inputs = make_inputs(rng)
    layer = make_layer()
    layer(*inputs)
    factors = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    for gradient in gradients(lambda *x: weighted_sum(layer(*x, **mask), factors), inputs):
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient != 0) == ("value_mask" not in mask)


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask", "attention_mask"])
@pytest.mark.parametrize("make", [lambda: BahdanauAttention(3), lambda: MultiHeadAttention(2, 3)])
def test_an_additive_mask_is_refused_by_name(make, name, rng):
    query = rng.normal(size=(2, 3, 5)).astype("float32")
    shape = (2, 3, 3) if name == "attention_mask" else (2, 3)
    with pytest.raises(TypeError, match=f"`{name}` must be boolean.*dtype=float32"):
        make()(query, query, **{name: np.zeros(shape, "float32")})
