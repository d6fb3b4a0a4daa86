import keras
import numpy as np
import pytest
from contract import assert_close
from contract import make_masks
from contract import normal
from contract import to_numpy

from keras_attention import LocalAttention
from keras_attention import MultiHeadAttention

BATCH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 11, 3, 5
VALUES = np.array([1.0, 2.0, 4.0, 8.0, 16.0], "float32").reshape((1, 5, 1))

# Queries of zeros weigh all keys alike: each output is the mean of the values that the position meets.
GOLDEN = [
    ({}, {}, [3 / 2, 7 / 3, 14 / 3, 28 / 3, 24 / 2]),
    ({}, {"use_causal_mask": True}, [1, 3 / 2, 6 / 2, 12 / 2, 24 / 2]),
    ({"num_global_tokens": 1}, {}, [31 / 5, 7 / 3, 15 / 4, 29 / 4, 25 / 3]),
    ({"num_global_tokens": 1}, {"use_causal_mask": True}, [1, 3 / 2, 7 / 3, 13 / 3, 25 / 3]),
]


@pytest.mark.parametrize(("config", "masks", "expected"), GOLDEN, ids=str)
def test_golden_means(config, masks, expected):
    layer = LocalAttention(1, 1, window_size=2, use_bias=False, **config)
    layer.build(VALUES.shape, VALUES.shape)
    layer.set_weights([np.ones(w.shape) for w in layer.weights])
    output = layer(np.zeros_like(VALUES), VALUES, **masks)
    assert_close(output, np.array(expected, "float32").reshape((1, 5, 1)))


MASKS = [(), ("use_causal_mask",), ("query_mask", "value_mask", "key_mask", "use_causal_mask")]


@pytest.mark.parametrize("names", MASKS, ids="+".join)
@pytest.mark.parametrize(("length", "window_size"), [(7, 3), (48, 1), (53, 16), (53, 17), (53, 101)])
def test_same_as_multi_head_attention_with_a_window(rng, length, window_size, names):
    inputs = [normal(rng, BATCH, length, n) for n in (CHANNELS, 13, 17)]
    masks = make_masks(rng, names, BATCH, length, length)
    layer = LocalAttention(NUM_HEADS, KEY_DIM, window_size, use_gate=True)
    whole = MultiHeadAttention(NUM_HEADS, KEY_DIM, sliding_window=window_size, use_gate=True)
    layer.build(*[x.shape for x in inputs])
    whole.build(*[x.shape for x in inputs])
    assert [w.path.split("/")[-2:] for w in layer.weights] == [w.path.split("/")[-2:] for w in whole.weights]
    layer.set_weights([normal(rng, *w.shape) for w in layer.weights])
    whole.set_weights(layer.get_weights())
    assert_close(layer(*inputs, **masks), whole(*inputs, **masks), atol=1e-4)


@pytest.mark.parametrize("position", [0, 20, 52])
@pytest.mark.parametrize("num_global_tokens", [0, 2])
def test_positions_outside_the_window_cannot_matter(rng, position, num_global_tokens):
    sequence = normal(rng, BATCH, 53, CHANNELS)
    layer = LocalAttention(NUM_HEADS, KEY_DIM, 4, num_global_tokens)
    before = to_numpy(layer(sequence, sequence))
    sequence[:, position] += 1.0
    change = np.abs(to_numpy(layer(sequence, sequence)) - before).max(axis=(0, 2))
    index = np.arange(53)
    meets = abs(index - position) < 4
    meets |= (index < num_global_tokens) | (position < num_global_tokens)
    assert np.all(change[~meets] == 0) and np.all(change[meets] > 1e-5)


def test_more_global_tokens_than_positions_is_full_attention(rng):
    sequence = normal(rng, BATCH, 7, CHANNELS)
    layer = LocalAttention(NUM_HEADS, KEY_DIM, 2, num_global_tokens=9)
    whole = MultiHeadAttention(NUM_HEADS, KEY_DIM)
    expected = whole(sequence, sequence)
    layer.build(sequence.shape, sequence.shape)
    layer.set_weights(whole.get_weights())
    assert_close(layer(sequence, sequence), expected)


INVALID = [
    ({"window_size": 0}, ValueError, "`window_size` must be a positive integer. Received: window_size=0"),
    ({"window_size": 2.0}, TypeError, "`window_size` must be a positive integer. Received: window_size=2.0"),
    ({"num_global_tokens": -1}, ValueError, "`num_global_tokens` must be .*num_global_tokens=-1"),
    ({"num_global_tokens": None}, TypeError, "`num_global_tokens` must be .*num_global_tokens=None"),
    ({"num_heads": 0}, ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        LocalAttention(**{"num_heads": 2, "key_dim": 3, "window_size": 4, **config})


def test_lengths_that_change_while_the_graph_stays(rng):
    inputs = keras.Input((None, CHANNELS))
    layer = LocalAttention(NUM_HEADS, KEY_DIM, 3, num_global_tokens=1)
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
    for length in (2, 16, 17, 40):
        sequence = normal(rng, BATCH, length, CHANNELS)
        assert_close(model.predict_on_batch(sequence), layer(sequence, sequence, use_causal_mask=True))
