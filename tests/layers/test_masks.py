"""Masks as functions: golden values, arrays and tensors alike, in models, and what they refuse."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import MultiHeadAttention
from keras_attention import causal_mask
from keras_attention import combine_masks
from keras_attention import padding_mask
from keras_attention import sliding_window_mask

IDS = np.array([[5, 3, 0, 0], [7, 0, 2, 1]])


def tensor(x, dtype="int32"):
    return keras.ops.convert_to_tensor(x, dtype)


def same(actual, expected, is_constant):
    assert isinstance(actual, np.ndarray) == is_constant
    actual = to_numpy(actual)
    assert actual.dtype == bool
    np.testing.assert_array_equal(actual, expected)


def test_padding_of_ids():
    expected = [[True, True, False, False], [True, False, True, True]]
    same(padding_mask(IDS), expected, True)
    same(padding_mask(IDS.tolist()), expected, True)
    same(padding_mask(tensor(IDS)), expected, False)
    same(padding_mask(IDS, padding_value=3), IDS != 3, True)


def test_padding_of_sequences():
    sequence = np.zeros((1, 3, 2))
    sequence[0, 0], sequence[0, 1, 1] = 4.0, -1.0  # one channel that is not zero makes a real step
    same(padding_mask(sequence), [[True, True, False]], True)
    same(padding_mask(tensor(sequence, "float32")), [[True, True, False]], False)
    masking = keras.layers.Masking().compute_mask(tensor(sequence, "float32"))
    np.testing.assert_array_equal(to_numpy(masking), [[True, True, False]])


def test_padding_of_lengths():
    expected = [[True, True, False], [False, False, False], [True, True, True]]
    same(padding_mask(lengths=[2, 0, 3], max_length=3), expected, True)
    same(padding_mask(lengths=tensor([2, 0, 3]), max_length=3), expected, False)


def test_causal():
    same(causal_mask(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]], True)
    same(causal_mask(2, 3), [[1, 0, 0], [1, 1, 0]], True)
    same(causal_mask(tensor(3), tensor(2)), [[1, 0], [1, 1], [1, 1]], False)


def test_sliding_window():
    same(sliding_window_mask(4, 2), [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]], True)
    same(sliding_window_mask(3, 2, use_causal_mask=True), [[1, 0, 0], [1, 1, 0], [0, 1, 1]], True)
    same(sliding_window_mask(tensor(2), 1, 3), [[1, 0, 0], [0, 1, 0]], False)


@pytest.mark.parametrize("sliding_window", [None, 2])
@pytest.mark.parametrize("use_causal_mask", [False, True])
def test_the_layers_make_the_same(rng, sliding_window, use_causal_mask):
    sequence = normal(rng, 2, 7, 5)
    layer = MultiHeadAttention(3, 5, sliding_window=sliding_window)
    expected = layer(sequence, sequence, use_causal_mask=use_causal_mask)
    mask = combine_masks(
        causal_mask(7) if use_causal_mask else None,
        sliding_window_mask(7, sliding_window) if sliding_window else None,
    )
    plain = MultiHeadAttention(3, 5)
    plain.build(sequence.shape, sequence.shape)
    plain.set_weights(layer.get_weights())
    assert_close(plain(sequence, sequence, attention_mask=mask), expected)


def test_combine():
    keys = np.expand_dims(padding_mask(IDS), 1)
    expected = np.array([row & np.tril(np.ones((4, 4), bool)) for row in padding_mask(IDS)])
    same(combine_masks(keys, None, causal_mask(4)), expected, True)
    same(combine_masks(tensor(keys, "bool"), causal_mask(4)), expected, False)
    same(combine_masks([[1, 0, 2]], np.array([[True, True, False]])), [[True, False, False]], True)
    assert combine_masks(None, None) is None
    assert combine_masks() is None


def test_in_a_model(rng):
    """Masks of symbolic inputs are part of the model, also where the length is unknown."""
    ids = keras.Input((None,), dtype="int32")
    embedding, masked = keras.layers.Embedding(11, 5), keras.layers.Embedding(11, 5, mask_zero=True)
    embedded, layer, mask = embedding(ids), MultiHeadAttention(3, 5), padding_mask(ids)
    model = keras.Model(ids, layer(embedded, embedded, query_mask=mask, value_mask=mask))
    masked.build((None, None))
    masked.set_weights(embedding.get_weights())
    sequence = masked(IDS)
    assert_close(model(IDS), layer(sequence, sequence))


INVALID = [
    (
        lambda: padding_mask(),
        "either `inputs`, or `lengths` and `max_length`. Received: inputs=None, lengths=None",
    ),
    (
        lambda: padding_mask(IDS, lengths=[1], max_length=2),
        "Received: inputs=ndarray, lengths=list, max_length=2",
    ),
    (lambda: padding_mask(lengths=[1]), "Received: inputs=None, lengths=list, max_length=None"),
    (lambda: padding_mask(IDS, max_length=2), "Received: inputs=ndarray, lengths=None, max_length=2"),
    (lambda: padding_mask(lengths=[1], max_length=0), "`max_length` must be a positive integer"),
    (lambda: padding_mask([1, 2]), r"`inputs` must have shape \(batch, length\).*inputs.shape=\(2,\)"),
    (lambda: padding_mask(lengths=[[1]], max_length=2), r"`lengths` must have shape \(batch,\).*\(1, 1\)"),
    (
        lambda: sliding_window_mask(3, 0),
        "`sliding_window` must be a positive integer. Received: sliding_window=0",
    ),
    (lambda: causal_mask(-1), "`query_length` must not be negative. Received: query_length=-1"),
    (lambda: sliding_window_mask(3, 2, -1), "`key_length` must not be negative. Received: key_length=-1"),
    (
        lambda: combine_masks(np.ones((2, 5), bool), np.ones((5, 3), bool)),
        r"broadcast.*\(2, 5\) and \(5, 3\)",
    ),
]


@pytest.mark.parametrize(("call", "message"), INVALID)
def test_invalid(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_additive_masks_are_refused():
    with pytest.raises(TypeError, match=r"`masks` must be boolean.*Received: masks.dtype=float32"):
        combine_masks(np.zeros((2, 3), "float32"))


@pytest.mark.parametrize("length", [3.0, "3", True, [3]])
def test_lengths_are_integers(length):
    with pytest.raises(TypeError, match="`query_length` must be an integer or a scalar tensor"):
        causal_mask(length)
    assert isinstance(causal_mask(np.int64(3)), np.ndarray)
