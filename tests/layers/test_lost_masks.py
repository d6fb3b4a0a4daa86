"""Attention says when an operation on the way to it has lost a mask, and only then."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers
from keras import ops

from keras_attention import LearnedPositionEmbedding
from keras_attention import MultiHeadAttention
from keras_attention import TransformerDecoderBlock
from keras_attention import TransformerEncoderBlock
from keras_attention import causal_mask

LENGTH, CHANNELS = 7, 8


@pytest.fixture
def ids():
    return keras.Input((LENGTH,), dtype="int32")


@pytest.fixture
def embedded(ids):
    return layers.Embedding(11, CHANNELS, mask_zero=True, name="words")(ids)


def attend(query, value=None, **masks):
    layer = MultiHeadAttention(2, 4, name="attention")
    return layer(query, query if value is None else value, **masks)


def plain():
    return keras.Input((LENGTH, CHANNELS))


LOST = {
    "product": ("multiply", lambda x: x * 2.0),
    "operation": ("relu", lambda x: ops.relu(x)),
    "sum of a masked and an unmasked sequence": ("sum", lambda x: layers.Add(name="sum")([x, plain()])),
    "residual sum": ("add", lambda x: x + attend(x)),
    "positions": ("add", lambda x: x + np.ones((LENGTH, CHANNELS), "float32")),
    "far up": (
        "multiply",
        lambda x: layers.LayerNormalization()(layers.LSTM(CHANNELS, return_sequences=True)(x * 2.0)),
    ),
    "behind a layer that passes masks": ("multiply", lambda x: layers.Dense(CHANNELS)(x) * 2.0),
}


@pytest.mark.parametrize("name", LOST)
def test_lost(embedded, name):
    culprit, lose = LOST[name]
    message = (
        rf"'attention' attends to padding: 'words' makes a mask that '{culprit}[_\d]*' .*`value_mask=...`"
    )
    with pytest.warns(UserWarning, match=message):
        attend(lose(embedded))


@pytest.mark.parametrize("block", [TransformerEncoderBlock, TransformerDecoderBlock])
def test_lost_before_a_block(embedded, block):
    with pytest.warns(UserWarning, match="'attention' attends to padding: 'words'"):
        block(16, 2)(embedded * 2.0)


def test_lost_in_the_encoder(embedded):
    with pytest.warns(UserWarning, match="'cross_attention' attends to padding: 'words'"):
        TransformerDecoderBlock(16, 2)(plain(), embedded * 2.0)


FINE = {
    "mask attached": lambda x, ids: attend(x),
    "no mask at all": lambda x, ids: attend(plain() * 2.0),
    "through layers": lambda x, ids: attend(layers.LayerNormalization()(layers.Dense(CHANNELS)(x))),
    "through a recurrent layer": lambda x, ids: attend(layers.GRU(CHANNELS, return_sequences=True)(x)),
    "sum of two masked sequences": lambda x, ids: attend(layers.Add()([x, attend(x)])),
    "positions by a layer": lambda x, ids: attend(LearnedPositionEmbedding(LENGTH)(x)),
    "value mask given": lambda x, ids: attend(x * 2.0, value_mask=ids != 0),
    "attention mask given": lambda x, ids: attend(x * 2.0, attention_mask=causal_mask(LENGTH)),
    "only the query": lambda x, ids: attend(x * 2.0, x),
    "pooled on purpose": lambda x, ids: attend(
        layers.Lambda(lambda y: ops.repeat(y[:, None], LENGTH, 1))(layers.GlobalAveragePooling1D()(x))
    ),
    "last state": lambda x, ids: attend(layers.RepeatVector(LENGTH)(layers.LSTM(CHANNELS)(x))),
    "other positions": lambda x, ids: attend(ops.reshape(x, (-1, LENGTH * 2, CHANNELS // 2))),
    "mean over positions": lambda x, ids: attend(plain() + ops.mean(x, axis=1, keepdims=True)),
    "values of another query": lambda x, ids: attend(layers.MultiHeadAttention(2, 4)(plain(), x)),
    "a product with scores": lambda x, ids: attend(ops.matmul(ops.matmul(plain(), ops.ones((8, 7))), x)),
    "block with a mask": lambda x, ids: TransformerEncoderBlock(16, 2)(x),
    "block, mask given": lambda x, ids: TransformerEncoderBlock(16, 2)(x * 2.0, mask=ids != 0),
}


@pytest.mark.parametrize("name", FINE)
def test_fine(embedded, ids, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FINE[name](embedded, ids)


def test_keras_has_warned_already(embedded):
    with pytest.warns(UserWarning, match="does not support masking") as caught:
        attend(layers.Conv1D(CHANNELS, 3, padding="same")(embedded) * 2.0)
    assert len(caught) == 1


def test_eager_calls_are_left_alone():
    sequence = layers.Embedding(11, CHANNELS, mask_zero=True)(np.ones((2, LENGTH), "int32"))
    assert attend(sequence * 2.0).shape == (2, LENGTH, CHANNELS)
