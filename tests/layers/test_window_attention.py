"""Window attention: windows by hand, full attention under a mask, padding, sizes unknown, errors."""

import keras
import numpy as np
import pytest
import reference_windows
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import WindowAttention
from keras_attention.images import _windows

BATCH, CHANNELS, NUM_HEADS, KEY_DIM = 2, 11, 3, 13


def groups(labels):
    """For each cell of a line, those with the same label."""
    return [[i for i, other in enumerate(labels) if other == label] for label in labels]


@pytest.mark.parametrize(
    ("shift_size", "rows", "columns"),
    [
        (0, "aabb", "aaabbb"),
        # rolled by 1 and 2: rows 1 2 | 3 0 and columns 2 3 4 | 5 0 1, where 3, 0 and 5, 0 are no neighbours
        ((1, 2), "abbc", "aabbbc"),
        ((0, 1), "aabb", "abbbcc"),
    ],
)
def test_golden_means(shift_size, rows, columns):
    """Query kernels of zeros and kernels of ones: the mean over the cells that a cell attends to."""
    image = np.arange(24, dtype="float32").reshape((1, 4, 6, 1))
    layer = WindowAttention(1, 1, (2, 3), shift_size, use_bias=False, use_position_bias=False)
    layer.build(image.shape)
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape) if "query" in weight.path else np.ones(weight.shape))
    expected = [[image[0][np.ix_(r, c)].mean() for c in groups(columns)] for r in groups(rows)]
    assert_close(layer(image), np.float32(expected)[None, :, :, None])


GEOMETRIES = [
    ((4, 6), (2, 3), (1, 1)),
    ((6, 6), (3, 3), (1, 2)),
    ((5, 7), (2, 3), (0, 2)),
    ((5, 7), (3, 4), (2, 3)),
    ((3, 8), (5, 3), (2, 1)),
    ((2, 3), (7, 7), (3, 3)),
    ((9, 4), (8, 2), (7, 1)),
]


@pytest.mark.parametrize(("sizes", "window_size", "shift_size"), GEOMETRIES)
def test_full_attention_under_a_mask(rng, sizes, window_size, shift_size):
    image = normal(rng, BATCH, *sizes, CHANNELS)
    mask = mixed_mask(rng, BATCH, *sizes)
    layer = WindowAttention(NUM_HEADS, KEY_DIM, window_size, shift_size, use_position_bias=False)
    layer.build(image.shape)
    plain = MultiHeadAttention(NUM_HEADS, KEY_DIM)
    tokens = image.reshape((BATCH, -1, CHANNELS))
    plain.build(tokens.shape, tokens.shape)
    plain.set_weights(layer.get_weights())
    pairs = reference_windows.allowed_pairs(sizes, window_size, shift_size)
    cells = mask.reshape((BATCH, -1))
    for more, masks in (({}, {}), ({"mask": mask}, {"query_mask": cells, "value_mask": cells})):
        expected = to_numpy(plain(tokens, tokens, attention_mask=pairs, **masks)).reshape(image.shape)
        assert_close(layer(image, **more), expected)
        assert_close(layer(image, return_attention_scores=True, **more)[0], expected)


@pytest.mark.parametrize("shift_size", [0, (1, 2)])
def test_unknown_height_and_width(rng, shift_size):
    inputs, mask = keras.Input((None, None, CHANNELS)), keras.Input((None, None), dtype="bool")
    layer = WindowAttention(NUM_HEADS, KEY_DIM, (3, 4), shift_size)
    model = keras.Model([inputs, mask], layer(inputs, mask=mask))
    assert model.output_shape == (None, None, None, CHANNELS)
    assert layer(inputs, return_attention_scores=True)[1].shape == (None, None, None, None)
    for sizes in ((6, 8), (5, 9), (3, 4), (2, 3), (7, 3)):
        image, cells = normal(rng, BATCH, *sizes, CHANNELS), mixed_mask(rng, BATCH, *sizes)
        assert_close(model.predict_on_batch([image, cells]), layer(image, mask=cells))


def test_padding_is_a_mask(rng):
    image = normal(rng, BATCH, 5, 7, CHANNELS)
    padded, mask = np.full((BATCH, 6, 8, CHANNELS), 9.0, "float32"), np.zeros((BATCH, 6, 8), bool)
    padded[:, :5, :7], mask[:, :5, :7] = image, True
    layer = WindowAttention(NUM_HEADS, KEY_DIM, (3, 2), (1, 1))
    output, scores = layer(image, return_attention_scores=True)
    assert_close(to_numpy(layer(padded, mask=mask))[:, :5, :7], output)
    assert_close(layer(padded, mask=mask, return_attention_scores=True)[1], scores)
    sums = to_numpy(scores).sum(-1)
    assert set(np.unique(sums.round(4))) == {0.0, 1.0}
    assert (sums > 0.5).sum() == BATCH * NUM_HEADS * 5 * 7


def test_a_cell_is_seen_within_its_window(rng):
    image = normal(rng, 1, 6, 6, CHANNELS)
    for shift_size in (0, 1):
        layer = WindowAttention(NUM_HEADS, KEY_DIM, 3, shift_size)
        before = to_numpy(layer(image))
        moved = image.copy()
        moved[:, 4, 1] += 3.0
        change = np.abs(to_numpy(layer(moved)) - before).max(axis=(0, 3))
        seen = reference_windows.allowed_pairs((6, 6), (3, 3), (shift_size,) * 2)[4 * 6 + 1].reshape((6, 6))
        assert np.all(change[seen] > 1e-6) and np.all(change[~seen] == 0) and 0 < seen.sum() < 36


def test_masked_cells_cannot_matter(rng):
    image, mask = normal(rng, BATCH, 4, 6, CHANNELS), mixed_mask(rng, BATCH, 4, 6)
    layer = WindowAttention(NUM_HEADS, KEY_DIM, (2, 3), (1, 1), use_bias=False)
    output = to_numpy(layer(image, mask=mask))
    assert np.all(output[~mask] == 0) and np.abs(output[mask]).min() > 0
    image[~mask] = 100.0
    assert_close(layer(image, mask=mask), output)


def test_a_window_larger_than_the_image(rng):
    """It shrinks, is not shifted, and reads the middle of the table."""
    image = normal(rng, BATCH, 2, 3, CHANNELS)
    large, small = WindowAttention(NUM_HEADS, KEY_DIM, (4, 5), 3), WindowAttention(NUM_HEADS, KEY_DIM, (2, 3))
    for layer in (large, small):
        layer.build(image.shape)
    *weights, table = [normal(rng, *weight.shape) for weight in large.weights]
    large.set_weights([*weights, table])
    small.set_weights([*weights, table.reshape((7, 9, NUM_HEADS))[2:5, 2:7].reshape((-1, NUM_HEADS))])
    output, scores = large(image, return_attention_scores=True)
    assert_close((output, scores), small(image, return_attention_scores=True))
    assert scores.shape == (BATCH, NUM_HEADS, 6, 6)


def test_the_bias_of_a_smaller_window_is_part_of_the_table():
    bias = RelativePositionBias(NUM_HEADS, window_size=(3, 4))
    whole = to_numpy(bias.compute_bias(12, 12)).reshape((NUM_HEADS, 3, 4, 3, 4))
    part = to_numpy(bias.compute_window_bias(2, 3)).reshape((NUM_HEADS, 2, 3, 2, 3))
    assert_close(part, whole[:, :2, :3, :2, :3], atol=0)
    for table, sizes in ((bias, (4, 4)), (RelativePositionBias(NUM_HEADS), (2, 2))):
        with pytest.raises(ValueError, match=r"must not exceed those of `window_size`. Received: height=\d"):
            table.compute_window_bias(*sizes)


def test_without_shift_and_padding_there_are_no_regions():
    assert _windows.Windows.of((6, 8), (3, 4), (0, 0)).regions is None
    assert _windows.Windows.of((3, 4), (3, 4), (2, 2)).regions is None
    regions = _windows.Windows.of((5, 7), (3, 4), (2, 2)).regions
    assert isinstance(regions, np.ndarray) and regions.shape == (4, 12)
    pairs = _windows.pairs_within(regions)
    assert isinstance(pairs, np.ndarray), "a constant of the file"
    assert pairs.any(axis=-1).all(), "every cell attends to something, so that the mask can be added"


def test_dropout_and_regularizers(rng):
    image = normal(rng, BATCH, 4, 6, CHANNELS)
    layer = WindowAttention(NUM_HEADS, KEY_DIM, 2, 1, dropout=0.5, kernel_regularizer="l2", seed=3)
    assert_close(layer(image, training=False), layer(image), atol=0)
    assert np.abs(to_numpy(layer(image, training=True)) - to_numpy(layer(image))).max() > 0.01
    assert len(layer.losses) == 4


INVALID = [
    ({"num_heads": 0}, ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
    ({"window_size": 0}, ValueError, "`window_size` must hold positive integers. Received: window_size=0"),
    (
        {"window_size": (2, 3, 4)},
        ValueError,
        r"`window_size` must be an integer or \(height, width\). Received: window_size=\(2, 3, 4\)",
    ),
    ({"window_size": 2.5}, TypeError, "`window_size` must be an integer.*Received: window_size=2.5"),
    (
        {"window_size": (4, 3), "shift_size": 3},
        ValueError,
        r"`shift_size` must be at least 0 and less than `window_size`.*shift_size=3, window_size=\(4, 3\)",
    ),
    ({"shift_size": -1}, ValueError, "`shift_size` must be at least 0.*Received: shift_size=-1"),
    ({"shift_size": (1, 1, 1)}, ValueError, r"`shift_size` must be an integer or \(rows, columns\)"),
    ({"output_shape": (3, 2)}, TypeError, "`output_shape` must be a positive integer or `None`"),
    ({"use_position_bias": 1}, TypeError, "`use_position_bias` must be True or False"),
    ({"num_key_value_heads": 2}, ValueError, "`num_heads` must be a multiple of `num_key_value_heads`"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        WindowAttention(**{"num_heads": 3, "key_dim": 5, **config})


@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(symbolic):
    def tensor(*shape, dtype="float32"):
        return keras.Input(batch_shape=shape, dtype=dtype) if symbolic else np.zeros(shape, dtype)

    with pytest.raises(ValueError, match=r"`inputs` must have rank 4.*inputs.shape=\(2, 5, 11\)"):
        WindowAttention(2, 3)(tensor(2, 5, 11))
    with pytest.raises(ValueError, match=r"`mask` must have shape \(2, 4, 6\).*mask.shape=\(2, 6, 4\)"):
        WindowAttention(2, 3)(tensor(2, 4, 6, 11), mask=tensor(2, 6, 4, dtype="bool"))
    with pytest.raises(TypeError, match=r"`mask` must be boolean.*mask.dtype=float32"):
        WindowAttention(2, 3)(tensor(2, 4, 6, 11), mask=tensor(2, 4, 6))
