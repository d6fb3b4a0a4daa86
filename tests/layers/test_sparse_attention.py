import numpy as np
import pytest
from contract import assert_close
from contract import gradients
from contract import normal
from contract import to_numpy
from contract import weighted_sum

from keras_attention import MultiHeadAttention
from keras_attention import SparseAttention

BATCH, LENGTH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 23, 11, 3, 5
VALUES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "float32").reshape((1, 6, 1))
CAUSAL = {"use_causal_mask": True}

# Queries of zeros weigh all keys alike: each output is the mean of 1, 2, ... 32 over what the position meets.
GOLDEN = [
    # 0: 0 1 2 4;  1: 0 1 2 3 5;  2: 0 1 2 3 4;  3: 1 2 3 4 5;  4: 0 2 3 4 5;  5: 1 3 4 5
    ("strided", 2, {}, [23 / 4, 47 / 5, 31 / 5, 62 / 5, 61 / 5, 58 / 4]),
    # 0: 0;  1: 0 1;  2: 0 1 2;  3: 1 2 3;  4: 0 2 3 4;  5: 1 3 4 5
    ("strided", 2, CAUSAL, [1, 3 / 2, 7 / 3, 14 / 3, 29 / 4, 58 / 4]),
    # its half, and one position of the other
    ("block", 3, {}, [15 / 4, 23 / 4, 39 / 4, 57 / 4, 58 / 4, 60 / 4]),
    ("block", 3, CAUSAL, [1, 3 / 2, 7 / 3, 9 / 2, 26 / 3, 60 / 4]),
    # its half, and the last position of the other
    ("fixed", 3, {}, [39 / 4, 39 / 4, 39 / 4, 60 / 4, 60 / 4, 60 / 4]),
    ("fixed", 3, CAUSAL, [1, 3 / 2, 7 / 3, 12 / 2, 28 / 3, 60 / 4]),
]


@pytest.mark.parametrize(("pattern", "block_size", "masks", "expected"), GOLDEN)
def test_golden_means(pattern, block_size, masks, expected):
    layer = SparseAttention(1, 1, block_size, pattern, use_bias=False)
    layer.build(VALUES.shape, VALUES.shape)
    layer.set_weights([np.ones(w.shape) for w in layer.weights])
    output = layer(np.zeros_like(VALUES), VALUES, **masks)
    assert_close(output, np.array(expected, "float32").reshape((1, 6, 1)))


# Pairs of positions with the means 1, -1, 1/2 and -3. Besides itself, block 0 likes block 2 best (1 * 1/2),
# block 1 likes 3 (-1 * -3), block 2 likes 0 (1/2 * 1), and block 3 likes 1 (-3 * -1). Causally, a block asks
# for the one before: block 1 can only take 0; block 2 asks with -1 and takes 1 (1 against -1); block 3 asks
# with 1/2 and takes 0 (1/2 against -1/2 and 1/4).
MEETS = [({}, [2, 3, 0, 1]), (CAUSAL, [None, 0, 1, 0])]


@pytest.mark.parametrize(("masks", "others"), MEETS)
def test_golden_choice_of_blocks(masks, others):
    sequence = np.repeat(np.array([1.0, -1.0, 0.5, -3.0], "float32"), 2).reshape((1, 8, 1))
    layer = SparseAttention(1, 1, 2, "top_k", num_blocks=2, use_bias=False)
    layer.build(sequence.shape, sequence.shape)
    layer.set_weights([np.ones(w.shape) for w in layer.weights])
    output, scores = layer(sequence, sequence, return_attention_scores=True, **masks)
    meets = to_numpy(scores)[0, 0] > 0
    expected = np.zeros((8, 8), bool)
    for block, other in enumerate(others):
        rows = slice(2 * block, 2 * block + 2)
        expected[rows, rows] = np.tril(np.ones((2, 2), bool)) if masks else True
        if other is not None:
            expected[rows, 2 * other : 2 * other + 2] = True
    np.testing.assert_array_equal(meets, expected)
    assert_close(layer(sequence, sequence, **masks), output)


@pytest.mark.parametrize("masks", [{}, CAUSAL], ids=["two_sided", "causal"])
@pytest.mark.parametrize(
    ("block_size", "options"),
    [(5, {"pattern": "top_k", "num_blocks": 5}), (5, {"pattern": "fixed", "num_columns": 5}), (31, {})],
    ids=str,
)
def test_patterns_that_hold_all_pairs_are_full_attention(rng, block_size, options, masks):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    whole = MultiHeadAttention(NUM_HEADS, KEY_DIM)
    expected = whole(sequence, sequence, **masks)
    layer = SparseAttention(NUM_HEADS, KEY_DIM, block_size, **options)
    layer.build(sequence.shape, sequence.shape)
    layer.set_weights(whole.get_weights())
    assert_close(layer(sequence, sequence, **masks), expected)


def test_gradients_flow_to_the_chosen_blocks_alone(rng):
    sequence = normal(rng, 1, 20, CHANNELS)
    layer = SparseAttention(1, KEY_DIM, 5, "top_k", num_blocks=2)
    _, scores = layer(sequence, sequence, return_attention_scores=True)
    chosen = to_numpy(scores)[0, 0, 0] > 0  # by the first block of queries
    assert chosen.sum() == 10
    factors = normal(rng, 1, 20, CHANNELS)
    factors[:, 5:] = 0
    for_keys = gradients(lambda v, k: weighted_sum(layer(sequence, v, k), factors), [sequence, sequence])
    for gradient in for_keys:
        size = np.abs(gradient[0]).max(-1)
        assert np.all(size[chosen] > 0) and np.all(size[~chosen] == 0)


INVALID = [
    ({"block_size": 0}, ValueError, "`block_size` must be a positive integer. Received: block_size=0"),
    ({"pattern": "random"}, ValueError, "`pattern` must be .*Received: pattern='random'"),
    ({"num_blocks": 2}, ValueError, "`num_blocks` is for .*num_blocks=2, pattern='strided'"),
    ({"num_columns": 2}, ValueError, "`num_columns` is for .*num_columns=2, pattern='strided'"),
    ({"pattern": "top_k", "num_blocks": 0}, ValueError, "`num_blocks` must be a positive.*num_blocks=0"),
    ({"pattern": "fixed", "num_columns": 5}, ValueError, "`num_columns` are .*num_columns=5, block_size=4"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        SparseAttention(**{"num_heads": 2, "key_dim": 3, "block_size": 4, **config})


def test_as_many_rows_as_chosen_blocks(rng):
    # 4 samples of 2 heads, 4 blocks that choose 2 each; Keras would take one for the bias of the other
    x = normal(rng, 4, 20, CHANNELS)
    layer = SparseAttention(2, KEY_DIM, 5, "top_k", num_blocks=2)
    together = to_numpy(layer(x, x))
    for index in range(4):
        assert_close(together[index], to_numpy(layer(x[index : index + 1], x[index : index + 1]))[0])
