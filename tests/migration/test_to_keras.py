"""Layers of ours as layers of Keras, and what Keras does not have."""

import keras
import numpy as np
import pytest
from moved import assert_same
from moved import randomize

import keras_attention
from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention import RotaryEmbedding
from keras_attention import ScaledDotProductAttention
from keras_attention import to_keras

SHAPE = (3, 7, 8)


def built(layer, rng):
    x = rng.normal(size=SHAPE).astype("float32")
    layer(x, x)
    randomize(layer, rng)
    return layer


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"scale": 1.0}, {"use_scale": True}], ids=str)
def test_products(options, rng):
    layer = built(ScaledDotProductAttention(name="products", dropout=0.25, **options), rng)
    new = to_keras(layer)
    x = rng.normal(size=SHAPE).astype("float32")
    assert type(new) is keras.layers.Attention and (new.name, new.dropout) == ("products", 0.25)
    assert_same(new([x, x]), layer(x, x))
    # what ours does not learn is not learned there either
    assert len(new.trainable_weights) == len(layer.trainable_weights)


def test_additive(rng):
    layer = built(BahdanauAttention(8), rng)
    layer.query_kernel.assign(np.eye(8))
    layer.key_kernel.assign(np.eye(8))
    x = rng.normal(size=SHAPE).astype("float32")
    new = to_keras(layer)
    assert type(new) is keras.layers.AdditiveAttention
    assert_same(new([x, x]), layer(x, x))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"value_dim": 5, "output_shape": 6, "use_gate": True, "dropout": 0.1},
            keras.layers.MultiHeadAttention,
        ),
        ({"num_key_value_heads": 4}, keras.layers.MultiHeadAttention),
        ({"num_key_value_heads": 2, "sliding_window": 3}, keras.layers.GroupQueryAttention),
    ],
    ids=str,
)
def test_heads(options, expected, rng):
    layer = built(MultiHeadAttention(4, 3, **options), rng)
    layer.value_dense.trainable = False
    new = to_keras(layer)
    x = rng.normal(size=SHAPE).astype("float32")
    assert type(new) is expected
    assert_same(new(x, x, use_causal_mask=True), layer(x, x, use_causal_mask=True))
    assert (new._value_dense.trainable, new._query_dense.trainable) == (False, True)


def other_layer():
    names = ["LuongAttention", "AttentionPooling"]
    return getattr(keras_attention, names[0])(name="other")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ScaledDotProductAttention(name="p"),
            "The `ScaledDotProductAttention` layer 'p' cannot be moved: Keras' `Attention` has no scale but "
            "a learned one. Call the layer first: its scale then becomes such a weight, frozen. ",
        ),
        (lambda: BahdanauAttention(8, name="b"), "Keras' `AdditiveAttention` has no projections and no bias"),
        (lambda: other_layer(), "'other' cannot be moved: Keras has no such layer"),
        (
            lambda: MultiHeadAttention(4, 6, rotary=RotaryEmbedding(), name="h"),
            "'h' cannot be moved: Keras' layer has no `rotary`. Received: rotary=",
        ),
        (
            lambda: MultiHeadAttention(4, 3, num_key_value_heads=2, value_dim=5),
            "`GroupQueryAttention` has no `value_dim`. Received: value_dim=5",
        ),
        (lambda: keras.layers.Dense(2, name="d"), "`to_keras` moves `ScaledDotProductAttention`"),
    ],
)
def test_what_keras_does_not_have(make, message):
    with pytest.raises(ValueError) as caught:
        to_keras(make())
    assert message in str(caught.value)


def test_calls_that_keras_does_not_have():
    inputs, pairs = keras.Input((7, 8)), keras.Input((7, 7), dtype="bool")
    heads = keras.Input((2, 7, 8))
    for outputs, message in (
        (ScaledDotProductAttention(name="p")(inputs, inputs, attention_mask=pairs), "`attention_mask`"),
        (ScaledDotProductAttention(name="p")(heads, heads), "queries of rank 3"),
    ):
        with pytest.raises(ValueError, match=f"'p' cannot be moved.*{message}"):
            to_keras(keras.Model([inputs, pairs, heads], outputs))
