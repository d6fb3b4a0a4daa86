"""ALiBi and RelativePositionBias: golden values, blocks of queries, parity with others, errors."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import ALiBi
from keras_attention import RelativePositionBias
from keras_attention.positions import _functional

NUM_HEADS, LENGTH, KEY_LENGTH, HEIGHT, WIDTH = 3, 11, 13, 3, 4

BIASES = {
    "alibi": (lambda: ALiBi(NUM_HEADS), LENGTH, KEY_LENGTH),
    "relative": (lambda: RelativePositionBias(NUM_HEADS, 16, 9), LENGTH, KEY_LENGTH),
    "relative_causal": (lambda: RelativePositionBias(NUM_HEADS, bidirectional=False), LENGTH, KEY_LENGTH),
    "window": (
        lambda: RelativePositionBias(NUM_HEADS, window_size=(HEIGHT, WIDTH)),
        HEIGHT * WIDTH,
        HEIGHT * WIDTH,
    ),
}


@pytest.mark.parametrize("name", BIASES)
def test_a_block_of_queries_has_its_rows(name):
    """With a known start, as attention in blocks uses it, and with a traced one, as decoding does."""
    make, query_length, key_length = BIASES[name]
    layer = make()
    whole = to_numpy(layer.compute_bias(query_length, key_length))
    assert whole.shape == (1, NUM_HEADS, query_length, key_length)
    assert np.abs(np.diff(whole, axis=2)).max() > 1e-3
    for start in (0, 3, 7):
        for query_start in (start, keras.ops.convert_to_tensor(start, "int32")):
            rows = layer.compute_bias(4, key_length, query_start)
            assert_close(rows, whole[:, :, start : start + 4], atol=0)


def test_call_adds_the_bias(rng):
    layer = RelativePositionBias(NUM_HEADS)
    logits = normal(rng, 2, NUM_HEADS, 4, KEY_LENGTH)
    expected = logits + to_numpy(layer.compute_bias(4, KEY_LENGTH, 5))
    assert_close(layer(logits, query_start=5), expected)


def test_golden_alibi():
    # Two heads: slopes 2^-4 and 2^-8. Query at position 1, keys at 0, 1, 2: distances 1, 0, 1.
    bias = to_numpy(ALiBi(2).compute_bias(1, 3, 1))
    np.testing.assert_array_equal(bias[0, :, 0], [[-1 / 16, 0, -1 / 16], [-1 / 256, 0, -1 / 256]])
    # Three heads: 2^-4 and 2^-8 as with two, then the first of four, 2^-2.
    np.testing.assert_array_equal(_functional.alibi_slopes(3, 8), np.float32([2**-4, 2**-8, 2**-2]))
    np.testing.assert_array_equal(_functional.alibi_slopes(1, 8), np.float32([2**-8]))


@pytest.mark.parametrize("num_heads", [1, 3, 4, 12])
@pytest.mark.parametrize("max_bias", [8, 5])
def test_causal_scores_are_those_of_keras_hub(rng, num_heads, max_bias):
    """Its bias differs by the same number in each row, which softmax ignores."""
    keras_hub = pytest.importorskip("keras_hub")
    logits = normal(rng, 2, num_heads, LENGTH, LENGTH)
    biased = [ALiBi(num_heads, max_bias)(logits), keras_hub.layers.AlibiBias(max_bias)(logits)]
    mask = np.tril(np.ones((LENGTH, LENGTH), bool))
    ours, theirs = (keras.ops.softmax(keras.ops.where(mask, x, -1e9)) for x in biased)
    assert_close(ours, theirs, atol=1e-6)
    assert (
        np.abs(to_numpy(ours) - to_numpy(keras.ops.softmax(keras.ops.where(mask, logits, -1e9)))).max() > 1e-3
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (16, 50), (64, 1000)])
def test_buckets_are_those_of_t5(bidirectional, num_buckets, max_distance):
    pytest.importorskip("keras_hub")
    from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention

    distances = np.arange(-max_distance - 99, max_distance + 100)
    theirs = T5MultiHeadAttention._relative_position_bucket(
        keras.ops.convert_to_tensor(distances), bidirectional, num_buckets, max_distance
    )
    table = _functional.relative_buckets(num_buckets, max_distance, bidirectional)
    ours = table[np.clip(distances, -max_distance, max_distance) + max_distance]
    np.testing.assert_array_equal(ours, to_numpy(theirs))
    assert len(set(ours)) == num_buckets - int(bidirectional)  # the row of distance -0 is never used


def test_golden_relative():
    # Two buckets for keys at and before the query: distance 0, and 1 or more. Row 0 holds 1, row 1 holds 7.
    layer = RelativePositionBias(1, num_buckets=2, max_distance=5, bidirectional=False)
    layer.build()
    layer.set_weights([np.array([[1.0], [7.0]])])
    expected = [[1, 1, 1], [7, 1, 1], [7, 7, 1]]
    assert_close(layer.compute_bias(3, 3), np.float32(expected)[None, None])


def test_golden_window():
    # A window of 1 x 2 cells: offsets -1, 0 and 1 of the columns (query minus key) have the rows 0, 1 and 2.
    layer = RelativePositionBias(1, window_size=(1, 2))
    layer.build()
    layer.set_weights([np.array([[10.0], [20.0], [30.0]])])
    assert_close(layer.compute_bias(2, 2), np.float32([[[[20, 10], [30, 20]]]]))


INVALID = [
    (lambda: ALiBi(0), ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
    (
        lambda: ALiBi(2, max_bias=-1),
        ValueError,
        "`max_bias` must be finite and above 0. Received: max_bias=-1",
    ),
    (lambda: RelativePositionBias(2, num_buckets=30), ValueError, "multiple of 4.*Received: num_buckets=30"),
    (lambda: RelativePositionBias(2, 32, 8), ValueError, "`max_distance` more than 8.*max_distance=8"),
    (lambda: RelativePositionBias(2, bidirectional=1), TypeError, "`bidirectional` must be True or False"),
    (
        lambda: RelativePositionBias(2, window_size=3),
        ValueError,
        r"\(height, width\). Received: window_size=\(3,\)",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), INVALID)
def test_invalid_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("shape", [(2, 4, 5, 7), (2, 5, 7)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_logits(shape, symbolic):
    logits = keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")
    with pytest.raises(
        ValueError, match=r"\(batch, num_heads=3, query_length, key_length\). Received: logits"
    ):
        ALiBi(NUM_HEADS)(logits)


def test_a_window_has_its_size():
    layer = RelativePositionBias(NUM_HEADS, window_size=(HEIGHT, WIDTH))
    with pytest.raises(ValueError, match=r"`key_length` must be 12.*Received: key_length=13"):
        layer.compute_bias(12, 13)
    with pytest.raises(ValueError, match=r"12 queries in a window.*Received: query_length=5, query_start=8"):
        layer.compute_bias(5, 12, 8)
