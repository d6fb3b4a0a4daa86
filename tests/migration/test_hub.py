"""keras-hub's TransformerEncoder as TransformerEncoderBlock, and back."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from moved import assert_same
from moved import randomize

from keras_attention import MultiHeadAttention
from keras_attention import TransformerEncoderBlock
from keras_attention import from_keras
from keras_attention import to_keras

SHAPE = (3, 7, 8)
PADDING = np.arange(7) < np.array([[7], [3], [6]])


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip("keras_hub")


@pytest.mark.parametrize(
    "options",
    [{}, {"normalize_first": True, "activation": "gelu", "layer_norm_epsilon": 1e-3, "dropout": 0.25}],
    ids=["paper", "norms first"],
)
def test_an_encoder(hub, options, rng):
    x = rng.normal(size=SHAPE).astype("float32")
    old = hub.layers.TransformerEncoder(12, 2, name="encoder", **options)
    unbuilt = from_keras(old)
    assert type(unbuilt) is TransformerEncoderBlock and not unbuilt.built
    old(x)
    old._feedforward_output_dense.trainable = False
    randomize(old, rng)
    new = from_keras(old)
    assert_same(new(x), old(x))
    assert (new.name, new.dropout, new.epsilon) == ("encoder", old.dropout, old.layer_norm_epsilon)
    assert [len(layer.trainable_weights) for layer in (new, old)] == [14, 14]
    back = to_keras(new)
    assert type(back) is type(old) and back.get_config() == old.get_config()
    assert_same(back(x), old(x))


@pytest.mark.parametrize("normalize_first", [False, True])
def test_masks_in_a_model(hub, normalize_first, rng):
    """Padding that is given hides keys; attached padding hides queries too, where it does not matter."""
    inputs = keras.Input(SHAPE[1:])
    padding = keras.Input(SHAPE[1:2], dtype="bool")
    pairs = keras.Input((SHAPE[1], SHAPE[1]), dtype="int32")
    options = {"normalize_first": normalize_first}
    given = hub.layers.TransformerEncoder(12, 2, **options)
    outputs = [
        given(inputs, padding_mask=padding),
        given(inputs, padding_mask=padding, attention_mask=pairs),
        hub.layers.TransformerEncoder(12, 4, **options)(keras.layers.Masking()(inputs)),
    ]
    model = keras.Model([inputs, padding, pairs], outputs)
    randomize(model, rng)
    x = rng.normal(size=SHAPE).astype("float32")
    x[~PADDING] = 0
    data = [x, PADDING, np.tril(np.ones((3, 7, 7), "int32"))]
    found, expected = from_keras(model)(data), model(data)
    assert_same(found[:2], expected[:2])
    assert_same(found[2], expected[2], where=PADDING)


def test_a_sequential_model(hub, rng):
    model = keras.Sequential(
        [keras.Input(SHAPE[1:]), hub.layers.TransformerEncoder(12, 2), keras.layers.Dense(3)]
    )
    randomize(model, rng)
    x = rng.normal(size=SHAPE).astype("float32")
    assert_same(from_keras(model)(x), model(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization": "rms"}, "does not have this option. Received: normalization='rms'"),
        ({"activation": "swiglu"}, "Received: activation='swiglu'"),
        ({"use_bias": False}, "Received: use_bias=False"),
        (
            {"num_heads": None, "attention": MultiHeadAttention(2, 4)},
            "Received: attention=<MultiHeadAttention",
        ),
    ],
    ids=str,
)
def test_options_that_keras_hub_does_not_have(hub, options, message):
    with pytest.raises(ValueError, match="'block' cannot be moved: keras-hub's") as caught:
        to_keras(TransformerEncoderBlock(12, **{"num_heads": 2, "name": "block", **options}))
    assert message in str(caught.value)


def test_a_causal_block_has_no_equal(hub):
    inputs = keras.Input(SHAPE[1:])
    model = keras.Model(inputs, TransformerEncoderBlock(12, num_heads=2)(inputs, use_causal_mask=True))
    with pytest.raises(ValueError, match="`use_causal_mask=True`, which keras-hub's layer lacks"):
        to_keras(model)


def test_only_its_user_imports_keras_hub():
    program = """
import sys, keras
from keras_attention import TransformerEncoderBlock, from_keras, to_keras
inputs = keras.Input((7, 8))
from_keras(keras.Model(inputs, keras.layers.Attention()([inputs, inputs])))
try:
    to_keras(TransformerEncoderBlock(12, num_heads=2, name="block"))
except ValueError as error:
    print(error)
assert "keras_hub" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (
        "layer 'block' cannot be moved: its equal is keras-hub's `TransformerEncoder`: `import keras_hub`"
        in (done.stdout)
    )
