"""Decoding with a cache of keys and values: the same numbers as causal attention over the whole sequence."""

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

BATCH, LENGTH, MAX_LENGTH, CHANNELS, NUM_HEADS, KEY_DIM = 3, 11, 17, 13, 6, 14
CAUSAL = {"use_causal_mask": True, "return_attention_scores": True}

CONFIGS = {
    "plain": lambda: {},
    "grouped": lambda: {"num_key_value_heads": 2, "use_gate": True, "value_dim": 7, "output_shape": 19},
    "window": lambda: {"num_key_value_heads": 1, "sliding_window": 3, "use_query_key_norm": True},
    "rotary": lambda: {"num_key_value_heads": 3, "rotary": RotaryEmbedding()},
    "alibi": lambda: {"position_bias": ALiBi(NUM_HEADS), "dropout": 0.3},
    "relative": lambda: {"position_bias": RelativePositionBias(NUM_HEADS, num_buckets=8, max_distance=5)},
}


@pytest.fixture(params=CONFIGS)
def layer(request, rng):
    layer = MultiHeadAttention(NUM_HEADS, KEY_DIM, **CONFIGS[request.param]())
    layer.build((None, LENGTH, CHANNELS), (None, LENGTH, CHANNELS))
    layer.set_weights([normal(rng, *w.shape) * 0.3 if w.dtype == "float32" else w for w in layer.weights])
    return layer


def index_as(kind, index):
    return {
        "int": index,
        "scalar": np.int32(index),
        "one": np.array([index], "int64"),
        "each": np.full(BATCH, index, "int32"),
    }[kind]


@pytest.mark.parametrize("kind", ["int", "scalar", "one", "each"])
@pytest.mark.parametrize("steps", [(1,) * LENGTH, (5, 1, 1, 3, 1), (LENGTH,)], ids=str)
def test_steps_equal_the_whole_sequence(rng, layer, steps, kind):
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    expected, expected_scores = (to_numpy(y) for y in layer(x, x, **CAUSAL))
    cache, index = layer.make_cache(BATCH, MAX_LENGTH), 0
    for size in steps:
        new = x[:, index : index + size]
        output, scores, cache = layer(
            new, new, cache=cache, cache_index=index_as(kind, index), return_attention_scores=True
        )
        rows = slice(index, index + size)
        assert_close(output, expected[:, rows])
        assert_close(scores[..., :LENGTH], expected_scores[:, :, rows])
        assert np.all(to_numpy(scores)[..., LENGTH:] == 0)
        index += size
    assert index == LENGTH
    for tensor in cache:
        assert np.all(to_numpy(tensor)[:, :, LENGTH:] == 0) and np.all(to_numpy(tensor)[:, :, :LENGTH] != 0)


def test_sequences_at_positions_of_their_own(rng, layer):
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    expected = to_numpy(layer(x, x, use_causal_mask=True))
    starts = np.array([2, 7, 0], "int32")
    _, (keys, values) = layer(x, x, cache=layer.make_cache(BATCH, MAX_LENGTH), cache_index=0)
    is_past = (np.arange(MAX_LENGTH) < starts[:, None])[:, None, :, None]
    cache = [np.where(is_past, to_numpy(tensor), 5.0).astype("float32") for tensor in (keys, values)]
    new = np.stack([x[b, start : start + 2] for b, start in enumerate(starts)])
    output, _ = layer(new, new, cache=cache, cache_index=starts)  # what lies behind must not matter
    assert_close(output, np.stack([expected[b, start : start + 2] for b, start in enumerate(starts)]))


@pytest.mark.parametrize("length", [2, None])
@pytest.mark.parametrize("batch", [BATCH, None])
def test_symbolic_calls(rng, layer, length, batch):
    cache = layer.make_cache(BATCH, MAX_LENGTH)
    shapes = [(batch, *x.shape[1:]) for x in cache]
    tokens = keras.Input(batch_shape=(batch, length, CHANNELS))
    symbols = [tokens, *(keras.Input(batch_shape=shape) for shape in shapes)]
    symbols.append(keras.Input(batch_shape=(batch,), dtype="int32"))
    results = layer(tokens, tokens, cache=symbols[1:3], cache_index=symbols[3], return_attention_scores=True)
    output, scores, (keys, values) = results
    assert output.shape[:2] == (batch, length) and keys.shape == shapes[0] and values.shape == shapes[1]
    assert scores.shape == (batch, NUM_HEADS, length, MAX_LENGTH)
    model = keras.Model(symbols, [output, scores, keys, values])
    new, index = normal(rng, BATCH, 2, CHANNELS), np.array([3, 4, 5], "int32")
    expected = layer(new, new, cache=cache, cache_index=index, return_attention_scores=True)
    assert_close(model([new, *to_numpy(cache), index]), expected)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_cache_has_the_dtype_of_the_computation(rng, policy):
    layer = MultiHeadAttention(2, 4, dtype=policy, rotary=RotaryEmbedding(), position_bias=ALiBi(2))
    new = normal(rng, BATCH, 2, CHANNELS)
    output, cache = layer(new, new, cache=layer.make_cache(BATCH, 5), cache_index=1)
    dtypes = {keras.backend.standardize_dtype(x.dtype) for x in (output, *cache)}
    assert dtypes == {policy.removeprefix("mixed_")}


def test_masks_of_keys_are_over_the_cache(rng, layer):
    x = normal(rng, BATCH, LENGTH, CHANNELS)
    mask = mixed_mask(rng, BATCH, MAX_LENGTH)
    query_mask = mixed_mask(rng, BATCH, LENGTH)
    expected = layer(x, x, value_mask=mask[:, :LENGTH], query_mask=query_mask, **CAUSAL)
    output, scores, _ = layer(
        x,
        x,
        cache=layer.make_cache(BATCH, MAX_LENGTH),
        cache_index=0,
        value_mask=mask,
        query_mask=query_mask,
        return_attention_scores=True,
    )
    assert_close((output, scores[..., :LENGTH]), expected)
    assert np.all(to_numpy(scores).transpose(0, 2, 1, 3)[~query_mask] == 0)


Q = (BATCH, 2, CHANNELS)
KEYS = (BATCH, 3, MAX_LENGTH, 7)
INVALID = {
    "no_index": (Q, Q, [KEYS, KEYS], None, ValueError, "`cache` and `cache_index`.*go together"),
    "no_cache": (Q, Q, None, 1, ValueError, "`cache` and `cache_index`.*Received: cache=None, cache_index=1"),
    "rank": ((BATCH, 2, 5, CHANNELS),) * 2 + ([KEYS, KEYS], 0, ValueError, "`cache` needs inputs of rank 3"),
    "lengths": (Q, (BATCH, 5, CHANNELS), [KEYS, KEYS], 0, ValueError, "the same new tokens.*5, 13"),
    "one": (Q, Q, [KEYS], 0, ValueError, r"`cache` must be a pair.*here \(3, 3, max_length, 7\)"),
    "heads": (Q, Q, [(BATCH, 6, MAX_LENGTH, 7)] * 2, 0, ValueError, r"a pair.*Received: shapes \[\(3, 6, 17"),
    "batch": (Q, Q, [(2, 3, MAX_LENGTH, 7)] * 2, 0, ValueError, r"`cache` must be a pair.*\(2, 3, 17, 7\)"),
    "two_lengths": (
        Q,
        Q,
        [KEYS, (BATCH, 3, 19, 7)],
        0,
        ValueError,
        r"`cache` must be a pair.*\(3, 3, 19, 7\)",
    ),
    "full": (Q, Q, [KEYS, KEYS], 16, ValueError, "at most max_length=17. Received: cache_index=16, 2 new"),
    "float_index": (Q, Q, [KEYS, KEYS], 1.0, TypeError, "integer tensor. Received: .* of type float"),
    "list_index": (Q, Q, [KEYS, KEYS], [1, 2], TypeError, "integer tensor. Received: .* of type list"),
    "flag_index": (Q, Q, [KEYS, KEYS], True, TypeError, "integer tensor. Received: .* of type bool"),
    "negative": (Q, Q, [KEYS, KEYS], -1, ValueError, "Received: cache_index=-1"),
    "index_shape": (Q, Q, [KEYS, KEYS], np.zeros((2,), int), ValueError, r"`cache_index` must be an integer"),
    "index_dtype": (Q, Q, [KEYS, KEYS], np.zeros((1,)), TypeError, "`cache_index` must hold integers"),
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(name, symbolic):
    query, value, cache, index, error, message = INVALID[name]

    def tensor(shape, dtype="float32"):
        return keras.Input(batch_shape=shape, dtype=dtype) if symbolic else np.zeros(shape, dtype)

    layer = MultiHeadAttention(6, 7, num_key_value_heads=3, attention_axes=1 if name == "rank" else None)
    cache = None if cache is None else [tensor(shape) for shape in cache]
    if isinstance(index, np.ndarray):
        index = tensor(index.shape, str(index.dtype))
    with pytest.raises(error, match=message):
        layer(tensor(query), tensor(value), cache=cache, cache_index=index)


def test_a_mask_of_the_new_tokens_alone_is_refused(rng):
    layer, x = MultiHeadAttention(2, 4), normal(rng, *Q)
    with pytest.raises(ValueError, match=r"`value_mask` must have shape \(3, 17\).*shape=\(3, 2\)"):
        layer(x, x, cache=layer.make_cache(BATCH, MAX_LENGTH), cache_index=0, value_mask=np.ones(Q[:2], bool))


@pytest.mark.parametrize(("batch", "max_length"), [(0, 5), (2, 1.5)])
def test_make_cache_checks_its_sizes(batch, max_length):
    with pytest.raises((ValueError, TypeError), match="must be a positive integer"):
        MultiHeadAttention(2, 4).make_cache(batch, max_length)


def test_a_cache_of_integers_is_refused():
    layer = MultiHeadAttention(6, 7, num_key_value_heads=3)
    tokens, cache = np.zeros(Q), [np.zeros(KEYS, "int32")] * 2
    with pytest.raises(TypeError, match=r"`cache` must hold floats.*dtypes \['int32', 'int32'\]"):
        layer(tokens, tokens, cache=cache, cache_index=0)
