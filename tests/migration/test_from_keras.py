"""Attention layers of Keras as layers of ours: same weights, same outputs, alone and in models."""

import keras
import numpy as np
import pytest
from moved import assert_same
from moved import classes
from moved import randomize

from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention import ScaledDotProductAttention
from keras_attention import from_keras
from keras_attention import to_keras

BATCH, QUERIES, KEYS, CHANNELS = 3, 7, 5, 8
WORDS = np.array([[1, 2, 3, 4, 5], [3, 4, 0, 0, 0], [1, 2, 3, 0, 0]])  # 0 is padding

LISTS = [
    (keras.layers.Attention, {}, ScaledDotProductAttention),
    (keras.layers.Attention, {"use_scale": True, "trainable": False}, ScaledDotProductAttention),
    (keras.layers.Attention, {"score_mode": "concat"}, BahdanauAttention),
    (keras.layers.Attention, {"score_mode": "concat", "use_scale": True}, BahdanauAttention),
    (keras.layers.AdditiveAttention, {"dropout": 0.25, "seed": 3}, BahdanauAttention),
    (keras.layers.AdditiveAttention, {"use_scale": False}, BahdanauAttention),
    (keras.layers.Attention, {"use_scale": True, "dtype": "mixed_float16"}, ScaledDotProductAttention),
]
# With dropout where values have another width: else Keras takes a kernel of JAX there that cannot do it.
HEADS = [
    (keras.layers.MultiHeadAttention, {"num_heads": 2, "key_dim": 3}),
    (
        keras.layers.MultiHeadAttention,
        {"num_heads": 2, "key_dim": 3, "value_dim": 4, "output_shape": 6, "dropout": 0.1},
    ),
    (keras.layers.MultiHeadAttention, {"num_heads": 3, "key_dim": 2, "use_bias": False, "use_gate": True}),
    (keras.layers.MultiHeadAttention, {"num_heads": 2, "key_dim": 3, "dropout": 0.5, "sliding_window": 2}),
    (keras.layers.GroupQueryAttention, {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}),
    (
        keras.layers.GroupQueryAttention,
        {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 1, "use_gate": True, "use_bias": False},
    ),
]


def name_of(value):
    return value.__name__ if isinstance(value, type) else None


@pytest.fixture
def inputs(rng):
    shapes = [(BATCH, QUERIES, CHANNELS), (BATCH, KEYS, CHANNELS), (BATCH, KEYS, CHANNELS)]
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize(("cls", "options", "expected"), LISTS, ids=name_of)
def test_layers_that_take_lists(cls, options, expected, inputs, rng):
    old = cls(name="old", **options)
    old(inputs)
    randomize(old, rng)
    new = from_keras(old)
    assert type(new) is expected
    assert (new.name, new.trainable, new.dtype_policy.name) == ("old", old.trainable, old.dtype_policy.name)
    assert (new.dropout, new.seed) == (old.dropout, old.seed)
    query, value, _ = inputs
    masks = [np.arange(QUERIES) < np.array([[7], [5], [3]]), np.arange(KEYS) < np.array([[5], [4], [2]])]
    assert_same(new(*inputs), old(inputs))
    assert_same(new(query, value), old([query, value]))
    found = new(*inputs, value_mask=masks[1], return_attention_scores=True, use_causal_mask=True)
    arguments = {"return_attention_scores": True, "use_causal_mask": True}
    assert_same(found, old(inputs, mask=[None, masks[1]], **arguments))
    assert_same(new(*inputs, *masks), old(inputs, mask=masks))


@pytest.mark.parametrize(("cls", "options"), HEADS, ids=name_of)
def test_layers_with_heads(cls, options, inputs, rng):
    old = cls(name="old", **options)
    old(*inputs)
    old._key_dense.trainable = False
    randomize(old, rng)
    new = from_keras(old)
    assert type(new) is MultiHeadAttention and new.name == "old"
    assert (new.query_dense.trainable, new.key_dense.trainable) == (True, False)
    assert_same(new(*inputs), old(*inputs))
    arguments = {"return_attention_scores": True, "use_causal_mask": True}
    mask = np.arange(KEYS) < np.array([[5], [4], [2]])
    assert_same(new(*inputs, value_mask=mask, **arguments), old(*inputs, value_mask=mask, **arguments))


@pytest.mark.parametrize(("cls", "options"), HEADS, ids=name_of)
def test_a_layer_that_is_not_built_yet(cls, options):
    new = from_keras(cls(**options))
    assert type(new) is MultiHeadAttention and not new.built
    assert new.key_dim == options.get("key_dim", options.get("head_dim"))
    back = to_keras(new)
    assert type(back) is cls
    same = {name: value for name, value in cls(**options).get_config().items() if name != "name"}
    assert {name: back.get_config()[name] for name in same} == same


def test_products_without_weights_need_not_be_built():
    new = from_keras(keras.layers.Attention(use_scale=True, dropout=0.5))
    assert (new.use_scale, new.scale, new.dropout, new.built) == (True, 1.0, 0.5, False)


def words_model():
    """Masks that Keras attaches, lists, a shared layer, scores, sums, inner models, a causal mask."""
    query = keras.Input((QUERIES, CHANNELS), name="query")
    words = keras.Input((KEYS,), name="words")
    value = keras.layers.Embedding(10, CHANNELS, mask_zero=True, name="embedding")(words)
    x = keras.layers.Attention(use_scale=True, name="products")([query, value])
    key = keras.layers.Dense(CHANNELS, name="key")(value)
    x = keras.layers.AdditiveAttention(name="additive")([x, value, key])
    heads = keras.layers.MultiHeadAttention(2, 4, name="heads")
    x, scores = heads(x, value, return_attention_scores=True)
    x = keras.layers.Add(name="sum")([x, heads(query, query, use_causal_mask=True)])
    inner_inputs = keras.Input((QUERIES, CHANNELS), name="inner_inputs")
    inner_outputs = keras.layers.Attention(name="inner_attention")([inner_inputs, inner_inputs])
    inner = keras.Model(inner_inputs, keras.layers.Dropout(0.1)(inner_outputs), name="inner")
    x = keras.ops.add(inner(x), inner(query))
    x = keras.Sequential([keras.layers.Dense(4, activation="relu")], name="sequence")(x)
    return keras.Model([query, words], [x, scores], name="words_model")


def test_a_model(rng):
    model = words_model()
    randomize(model, rng)
    model.get_layer("inner").trainable = False
    inputs = [rng.normal(size=(BATCH, QUERIES, CHANNELS)).astype("float32"), WORDS]
    expected = [output.copy() for output in map(np.asarray, model.predict(inputs, verbose=0))]
    new = from_keras(model)
    assert_same(new(inputs), expected)
    assert_same(model(inputs), expected)
    assert [layer.name for layer in new.layers] == [layer.name for layer in model.layers]
    assert sum(name.endswith("*") for name in classes(new)) == 3
    assert classes(new.get_layer("inner"))[1] == "ScaledDotProductAttention*"
    assert [layer.trainable for layer in new.layers] == [layer.trainable for layer in model.layers]
    # nothing is shared between the two
    randomize(new, rng)
    assert_same(model(inputs), expected)


def test_a_moved_model_is_saved_and_moved_back(rng, tmp_path):
    model = words_model()
    randomize(model, rng)
    inputs = [rng.normal(size=(BATCH, QUERIES, CHANNELS)).astype("float32"), WORDS]
    new = from_keras(model)
    new.save(tmp_path / "new.keras")
    assert_same(keras.saving.load_model(tmp_path / "new.keras")(inputs), new(inputs))
    back = to_keras(new)
    assert classes(back) == classes(model)
    assert_same(back(inputs), model(inputs))


def masked_twice(cls):
    """Keras' MultiHeadAttention takes the mask off the embedded words, for all that come after it."""
    words = keras.Input((KEYS,), name="words")
    value = keras.layers.Embedding(10, CHANNELS, mask_zero=True)(words)
    query = keras.layers.Dense(CHANNELS)(keras.layers.Reshape((KEYS, 1))(words))
    outputs = [cls(2, 4, name=name)(query, value) for name in ("first", "second")]
    return keras.Model(words, keras.layers.Add()(outputs))


def test_masks_that_keras_loses_stay_lost(rng):
    model = masked_twice(keras.layers.MultiHeadAttention)
    randomize(model, rng)
    with pytest.warns(UserWarning, match=r"The layers \['second'\] do not see the masks of their inputs"):
        new = from_keras(model)
    assert classes(new).count("SetMask*") == 1
    assert_same(new(WORDS), model(WORDS))
    # and the mask does matter: both layers of ours see it
    ours = masked_twice(MultiHeadAttention)
    ours.set_weights(model.get_weights())
    assert np.abs(np.asarray(ours(WORDS) - model(WORDS))[1]).max() > 1e-2


def test_ours_with_masks_in_both_places_has_no_equal(rng):
    words = keras.Input((KEYS,), name="words")
    value = keras.layers.Embedding(10, CHANNELS, mask_zero=True)(words)
    x = keras.layers.Add()(
        [MultiHeadAttention(2, 4, name=name)(value, value) for name in ("first", "second")]
    )
    with pytest.raises(ValueError, match="'second' cannot be moved: it is called on a tensor with a mask"):
        to_keras(keras.Model(words, x))


def test_masks_given_in_the_call(rng):
    """Float masks; masks of queries or values alone, where others are attached; a mask of keys alone."""
    query, value = keras.Input((QUERIES, CHANNELS)), keras.Input((KEYS, CHANNELS))
    mask = keras.Input((KEYS,), name="mask")
    pairs = keras.Input((QUERIES, KEYS), name="pairs")
    masked = keras.layers.Masking()(value)
    outputs = [
        keras.layers.Attention()([query, value], mask=[None, mask]),
        keras.layers.Attention()([masked, masked], mask=[None, mask]),
        keras.layers.Attention()([query, value, masked]),
        keras.layers.Attention()([query, masked, value]),
        keras.layers.MultiHeadAttention(2, 4)(query, value, value_mask=mask, attention_mask=pairs),
    ]
    model = keras.Model([query, value, mask, pairs], outputs)
    randomize(model, rng)
    values = rng.normal(size=(BATCH, KEYS, CHANNELS)).astype("float32")
    values[1, 3:] = 0
    inputs = [
        rng.normal(size=(BATCH, QUERIES, CHANNELS)).astype("float32"),
        values,
        (np.arange(KEYS) < np.array([[5], [2], [4]])).astype("float32"),
        np.tril(np.ones((BATCH, QUERIES, KEYS), "float32")),
    ]
    assert_same(from_keras(model)(inputs), model(inputs))


def test_sequences_around_a_model(rng):
    """A model inside TimeDistributed, inside a sequential model, compiled."""
    inner_inputs = keras.Input((QUERIES, CHANNELS))
    attended = keras.layers.Attention()([inner_inputs, inner_inputs])
    inner = keras.Model(inner_inputs, keras.layers.GlobalAveragePooling1D()(attended))
    model = keras.Sequential(
        [
            keras.Input((2, QUERIES, CHANNELS)),
            keras.layers.TimeDistributed(inner, name="each"),
            keras.layers.Dense(3),
        ]
    )
    model.compile("adam", "mse")
    randomize(model, rng)
    new = from_keras(model)
    inputs = rng.normal(size=(BATCH, 2, QUERIES, CHANNELS)).astype("float32")
    assert_same(new(inputs), model(inputs))
    assert new.compiled and new.get_layer("each").layer.layers[1].__module__.startswith("keras_attention.")


class Holder(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 4, name="held")

    def call(self, inputs):
        return self.attention(inputs, inputs)


class Nameless(keras.layers.Layer):
    def __init__(self, size):
        super().__init__(name="nameless")

    def call(self, inputs):
        return inputs


def model_of(*layers):
    inputs = keras.Input((QUERIES, CHANNELS))
    x = keras.layers.Attention()([inputs, inputs])
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, x, name="m")


def with_lora():
    layer = keras.layers.MultiHeadAttention(2, 4, name="tuned")
    layer.build((None, QUERIES, CHANNELS), (None, KEYS, CHANNELS))
    layer._query_dense.enable_lora(2)
    return layer


class Special(keras.layers.MultiHeadAttention):
    pass


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: 3, TypeError, "`from_keras` takes a layer or a model of Keras 3. Received: <class 'int'>"),
        (lambda: keras.layers.Dense(3, name="d"), ValueError, "Received: `Dense` layer 'd'"),
        (
            lambda: Special(2, 4, name="s"),
            ValueError,
            "but not subclasses of them. Received: `Special` layer 's'",
        ),
        (
            lambda: keras.layers.AdditiveAttention(name="a"),
            ValueError,
            "The `AdditiveAttention` layer 'a' cannot be moved: as long as it is not built",
        ),
        (with_lora, ValueError, "'tuned' cannot be moved: 'query' has LoRA weights"),
        (
            lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="plain"),
            ValueError,
            "The model 'plain' holds none of the layers that `from_keras` moves: `Attention`",
        ),
        (
            lambda: model_of(Holder(name="holder")),
            ValueError,
            "The `MultiHeadAttention` layer 'held' is a part of the `Holder` layer 'holder', whose code",
        ),
        (
            lambda: model_of(Nameless(4)),
            ValueError,
            "The `Nameless` layer 'nameless' cannot be copied: give its class a `get_config`",
        ),
        (
            lambda: keras.Sequential([keras.layers.Dense(2), Holder()], name="late"),
            ValueError,
            "The model 'late' has no weights yet: call it once",
        ),
    ],
)
def test_what_cannot_be_moved(make, error, message):
    with pytest.raises(error) as caught:
        from_keras(make())
    assert message in str(caught.value)
