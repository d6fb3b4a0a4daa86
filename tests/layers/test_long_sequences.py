"""What holds for all attention to long sequences: its cost, what cannot matter, and what it refuses."""

import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import gradients
from contract import mixed_mask
from contract import normal
from contract import to_numpy
from contract import weighted_sum

from keras_attention import LinearAttention
from keras_attention import LocalAttention
from keras_attention import MultiHeadAttention
from keras_attention import RotaryEmbedding
from keras_attention import SparseAttention

BATCH, LENGTH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 37, 11, 3, 5
BACKEND = keras.config.backend()


def _make(cls, *sizes, **options):
    return lambda **more: cls(NUM_HEADS, KEY_DIM, *sizes, use_bias=False, **{**options, **more})


LAYERS = {
    "local": _make(LocalAttention, 3),
    "local_global": _make(LocalAttention, 3, num_global_tokens=2),
    "linear_elu": _make(LinearAttention),
    "linear_relu": _make(LinearAttention, feature_map="relu"),
    "linear_performer": _make(LinearAttention, feature_map="performer"),
    "sparse_strided": _make(SparseAttention, 5),
    "sparse_fixed": _make(SparseAttention, 5, pattern="fixed"),
    "sparse_block": _make(SparseAttention, 5, pattern="block"),
    "sparse_top_k": _make(SparseAttention, 5, pattern="top_k", num_blocks=3),
}
CAUSAL = {"use_causal_mask": True}


@pytest.fixture(params=LAYERS)
def make_layer(request):
    return LAYERS[request.param]


def difference(first, second):
    return np.abs(to_numpy(first) - to_numpy(second))


@pytest.mark.parametrize("position", [0, 16, LENGTH - 1])
def test_causal_future_cannot_change_the_past(rng, make_layer, position):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    layer = make_layer()
    before = layer(sequence, sequence, **CAUSAL)
    sequence[:, position] += 1.0
    change = difference(layer(sequence, sequence, **CAUSAL), before).max(axis=(0, 2))
    assert np.all(change[:position] == 0), "not even by rounding"
    assert change[position] > 1e-4


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
def test_masked_positions_cannot_matter(rng, make_layer, masks):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    mask = mixed_mask(rng, BATCH, LENGTH)
    masks = {**masks, "query_mask": mask, "value_mask": mask}
    layer = make_layer()
    before = to_numpy(layer(sequence, sequence, **masks))
    assert np.all(before[~mask] == 0) and np.all(np.abs(before[mask]).max(-1) > 1e-4)
    sequence[~mask] = 100.0
    assert_close(layer(sequence, sequence, **masks), before)


def test_padding_equals_a_shorter_sequence(rng, make_layer):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    short = LENGTH - 9
    mask = np.broadcast_to(np.arange(LENGTH) < short, (BATCH, LENGTH))
    layer = make_layer()
    output = layer(sequence, sequence, query_mask=mask, value_mask=mask)
    assert_close(output[:, :short], layer(sequence[:, :short], sequence[:, :short]))


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
def test_true_masks_change_nothing(rng, make_layer, masks):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    everything = {n: np.ones((BATCH, LENGTH), bool) for n in ("query_mask", "value_mask", "key_mask")}
    layer = make_layer()
    assert_close(layer(sequence, sequence, **everything, **masks), layer(sequence, sequence, **masks))


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
def test_scores_are_probabilities_and_tell_the_output(rng, make_layer, masks):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    layer = make_layer()
    output, scores = layer(sequence, sequence, return_attention_scores=True, **masks)
    assert_close(output, layer(sequence, sequence, **masks))
    scores = to_numpy(scores)
    assert scores.min() >= 0 and scores.shape == (BATCH, NUM_HEADS, LENGTH, LENGTH)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    value = np.einsum("blc,chd->bhld", sequence, to_numpy(layer.value_dense.kernel))
    context = np.einsum("bhqk,bhkd->bqhd", scores, value)
    expected = np.einsum("bqhd,hdc->bqc", context, to_numpy(layer.output_dense.kernel))
    assert_close(output, np.float32(expected))


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
@pytest.mark.parametrize("length", [2, 5, 16, 17, 33])
def test_any_length(rng, make_layer, length, masks):
    sequence = normal(rng, BATCH, length, CHANNELS)
    layer = make_layer()
    expected, _ = layer(sequence, sequence, return_attention_scores=True, **masks)
    assert_close(layer(sequence, sequence, **masks), expected)


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
@pytest.mark.parametrize("length", [LENGTH, None])
def test_traced_with_an_unknown_batch(rng, make_layer, length, masks):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    mask = mixed_mask(rng, BATCH, LENGTH)
    layer = make_layer()
    inputs, mask_input = keras.Input((length, CHANNELS)), keras.Input((length,), dtype="bool")
    outputs = [layer(inputs, inputs, **masks), layer(inputs, inputs, value_mask=mask_input, **masks)]
    model = keras.Model([inputs, mask_input], outputs)
    expected = [layer(sequence, sequence, **masks), layer(sequence, sequence, value_mask=mask, **masks)]
    assert_close(model.predict_on_batch([sequence, mask]), expected)


def test_gradients_are_finite_where_nothing_is_allowed(rng, make_layer):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    mask = mixed_mask(rng, BATCH, LENGTH)
    mask[0] = False
    layer = make_layer()
    layer(sequence, sequence)
    factors = normal(rng, BATCH, LENGTH, CHANNELS)
    (gradient,) = gradients(lambda x: weighted_sum(layer(x, x, value_mask=mask), factors), [sequence])
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0] == 0) and np.any(gradient[1] != 0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_low_precision(rng, make_layer, policy):
    # products of about 1000 * 1000 leave the range of float16, 65504
    query, value = normal(rng, BATCH, LENGTH, CHANNELS) * 1000, normal(rng, BATCH, LENGTH, CHANNELS)
    layer = make_layer(dtype=policy)
    mask = mixed_mask(rng, BATCH, LENGTH)
    mask[0] = False
    for masks in ({}, CAUSAL, {"value_mask": mask}):
        output = to_numpy(keras.ops.cast(layer(query, value, query, **masks), "float32"))
        assert np.all(np.isfinite(output))
        assert np.all(output[0] == 0) or "value_mask" not in masks


def test_options_of_heads_are_those_of_multi_head_attention(rng):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)

    def options():
        return {"num_key_value_heads": 2, "use_query_key_norm": True, "rotary": RotaryEmbedding()}

    whole = MultiHeadAttention(4, 6, sliding_window=3, **options())
    expected = whole(sequence, sequence)
    layer = LocalAttention(4, 6, 3, **options())
    layer.build(sequence.shape, sequence.shape)
    layer.set_weights(whole.get_weights())
    assert_close(layer(sequence, sequence), expected)
    again = LocalAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_dropout_only_in_training(rng, make_layer):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    plain, layer = make_layer(seed=7), make_layer(dropout=0.5, seed=7)
    expected = to_numpy(plain(sequence, sequence))
    layer.build(sequence.shape, sequence.shape)
    for weight, other in zip(layer.trainable_weights, plain.trainable_weights, strict=True):
        weight.assign(other)
    assert_close(layer(sequence, sequence, training=False), expected)
    for with_scores in (False, True):
        result = layer(sequence, sequence, training=True, return_attention_scores=with_scores)
        assert difference(result[0] if with_scores else result, expected).max() > 0.01


# --- cost: the largest tensor of the traced graph, forwards and backwards ---


def largest_tensor(layer, length, **call):
    """Numbers in the largest tensor of the TensorFlow graph of a training step."""
    tf = pytest.importorskip("tensorflow")
    sequence = keras.random.normal((1, length, CHANNELS))
    layer(sequence, sequence, **call)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x, x, training=True, **call) ** 2)
        return tape.gradient(total, x)

    graph = step.get_concrete_function(tf.TensorSpec(sequence.shape)).graph
    return max(t.shape.num_elements() or 0 for op in graph.get_operations() for t in op.outputs)


# exponent of the cost: strides meet length / block_size keys, top_k compares all pairs of blocks
EXPONENTS = {"sparse_strided": 1.6, "sparse_fixed": 1.6, "sparse_block": 1.6, "sparse_top_k": 1.05}
SIZES = {name: 1024 if name in EXPONENTS else 256 for name in LAYERS}


@pytest.mark.skipif(BACKEND != "tensorflow", reason="reads the TensorFlow graph")
@pytest.mark.parametrize("call", [{}, CAUSAL], ids=["two_sided", "causal"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_tensor_grows_with_all_pairs(name, call):
    def make(length):
        if name in ("sparse_strided", "sparse_fixed", "sparse_block"):
            return SparseAttention(NUM_HEADS, KEY_DIM, math.isqrt(length), name.removeprefix("sparse_"))
        if name == "sparse_top_k":
            return SparseAttention(NUM_HEADS, KEY_DIM, 64, "top_k", num_blocks=3)
        return LAYERS[name]()

    short, long = (largest_tensor(make(n), n, **call) for n in (SIZES[name], 4 * SIZES[name]))
    exponent = math.log(long / short, 4)
    assert 0.9 < exponent < EXPONENTS.get(name, 1.05)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="reads the TensorFlow graph")
def test_the_measure_sees_all_pairs():
    layer = MultiHeadAttention(NUM_HEADS, KEY_DIM, sliding_window=3)
    short, long = (largest_tensor(layer, n) for n in (256, 1024))
    assert math.log(long / short, 4) > 1.95


# --- what is refused ---

SHAPE = (2, 5, 11)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_mask_of_all_pairs_is_refused(make_layer, symbolic):
    sequence = keras.Input(batch_shape=SHAPE) if symbolic else np.zeros(SHAPE, "float32")
    message = r"`attention_mask` is not for .*take `MultiHeadAttention`.*attention_mask.shape=\(5, 5\)"
    with pytest.raises(ValueError, match=message):
        make_layer()(sequence, sequence, attention_mask=np.ones((5, 5), bool))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
def test_two_sequences(make_layer, symbolic, masks):
    shapes = SHAPE, (2, 7, 13)
    query, value = (keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes)
    layer = make_layer()
    if isinstance(layer, LinearAttention) and not masks:
        assert layer(query, value).shape == SHAPE
        return
    with pytest.raises(ValueError, match=r"must have the same length.*value.shape=\(2, 7, 13\)"):
        layer(query, value, **masks)


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask"])
def test_wrong_masks_are_refused_by_name(make_layer, name):
    sequence = np.zeros(SHAPE, "float32")
    with pytest.raises(ValueError, match=rf"`{name}` must have shape \(2, 5\)"):
        make_layer()(sequence, sequence, **{name: np.ones((2, 7), bool)})
    with pytest.raises(TypeError, match=f"`{name}` must be boolean"):
        make_layer()(sequence, sequence, **{name: np.ones((2, 5), "float32")})
