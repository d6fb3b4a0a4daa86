"""Attention in blocks of queries: the plain layer's answers and gradients, in memory linear in the length."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import check_gradients
from contract import float64
from contract import gradients
from contract import make_masks
from contract import normal
from contract import to_numpy
from contract import weighted_sum

from keras_attention import ALiBi
from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import _blockwise

BACKEND = keras.config.backend()
BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS, VALUE_CHANNELS = 2, 29, 31, 11, 13
NUM_HEADS, KEY_DIM, VALUE_DIM = 3, 5, 7
SHAPES = ((BATCH, QUERY_LENGTH, CHANNELS), (BATCH, KEY_LENGTH, VALUE_CHANNELS))
ALL = ("query_mask", "value_mask", "key_mask", "attention_mask", "use_causal_mask")
CASES = {
    "plain": {},
    "keys": {"names": ("value_mask", "key_mask")},
    "queries": {"names": ("query_mask",)},
    "pairs": {"names": ("attention_mask",)},
    "pairs_of_heads": {"shape": (BATCH, NUM_HEADS, QUERY_LENGTH, KEY_LENGTH)},
    "one_row_for_all": {"shape": (1, KEY_LENGTH)},
    "one_column_for_all": {"shape": (BATCH, QUERY_LENGTH, 1)},
    "causal": {"names": ("use_causal_mask",)},
    "window": {"config": {"sliding_window": 4}},
    "causal_window": {"config": {"sliding_window": 4}, "names": ("use_causal_mask",)},
    "wide_window": {"config": {"sliding_window": 30}, "names": ("value_mask",)},
    "all": {"config": {"sliding_window": 9}, "names": ALL},
    "value_dim": {"config": {"value_dim": VALUE_DIM}, "names": ("use_causal_mask",)},
    "bias": {"config": {"position_bias": lambda: ALiBi(NUM_HEADS)}, "names": ("attention_mask",)},
    "causal_bias": {"config": {"position_bias": lambda: ALiBi(NUM_HEADS)}, "names": ("use_causal_mask",)},
    "window_bias": {"config": {"position_bias": lambda: ALiBi(NUM_HEADS), "sliding_window": 4}},
    "small_value_dim": {"config": {"value_dim": 2, "use_gate": True}, "names": ("attention_mask",)},
}


def make_pair(block_size, build=SHAPES, **config):
    """The plain layer and the same in blocks, of equal weights."""
    configs = [{n: make() if callable(make) else make for n, make in config.items()} for _ in range(2)]
    plain = MultiHeadAttention(NUM_HEADS, KEY_DIM, **configs[0])
    blocks = MultiHeadAttention(NUM_HEADS, KEY_DIM, **configs[1], block_size=block_size)
    plain.build(*build)
    blocks.build(*build)
    blocks.set_weights(plain.get_weights())
    return plain, blocks


def inputs_and_masks(rng, names=(), shape=None):
    masks = make_masks(rng, names, BATCH, QUERY_LENGTH, KEY_LENGTH)
    if shape is not None:
        masks["attention_mask"] = rng.random(shape) < 0.6
    return [normal(rng, *s) for s in SHAPES], masks


def all_gradients(layer, inputs, factors, **masks):
    """Gradients of the inputs and of all weights."""

    def total(query, value, *weights):
        output, _ = layer.stateless_call(list(weights), [], query, value, **masks)
        return weighted_sum(output, factors)

    return gradients(total, [*inputs, *[w.numpy() for w in layer.trainable_variables]])


@pytest.mark.parametrize(
    ("name", "block_size"),
    [*((name, 7) for name in CASES), ("all", QUERY_LENGTH), ("all", 100), ("plain", 100)],
)
def test_equals_the_plain_layer(rng, name, block_size):
    case = dict(CASES[name])
    plain, blocks = make_pair(block_size, **case.pop("config", {}))
    inputs, masks = inputs_and_masks(rng, **case)
    assert_close(blocks(*inputs, **masks), plain(*inputs, **masks))
    factors = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    actual, expected = (all_gradients(layer, inputs, factors, **masks) for layer in (blocks, plain))
    assert len(actual) == 2 + len(plain.weights)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=1e-5 * max(1.0, np.abs(e).max()), rtol=1e-5)


@pytest.mark.parametrize("block_size", [1, 3, 4])
def test_causal_blocks_of_every_size(rng, block_size):
    plain, blocks = make_pair(block_size)
    inputs, masks = inputs_and_masks(rng, ("use_causal_mask",))
    assert_close(blocks(*inputs, **masks), plain(*inputs, **masks))


def test_scores_are_right_too(rng):
    plain, blocks = make_pair(7)
    inputs, masks = inputs_and_masks(rng, ALL)
    actual = blocks(*inputs, **masks, return_attention_scores=True)
    assert_close(actual, plain(*inputs, **masks, return_attention_scores=True))
    assert_close(actual[0], blocks(*inputs, **masks))


def test_several_attention_axes(rng):
    x = normal(rng, BATCH, 5, 7, CHANNELS)
    for axes in ((2,), (1, 2)):
        plain, blocks = make_pair(3, (x.shape, x.shape), attention_axes=axes)
        assert_close(blocks(x, x), plain(x, x))


@pytest.mark.parametrize("name", ["attention_mask", "value_mask"])
def test_nothing_to_attend_to(rng, name):
    _, layer = make_pair(7, use_bias=False)
    inputs, _ = inputs_and_masks(rng)
    mask = make_masks(rng, (name,), BATCH, QUERY_LENGTH, KEY_LENGTH)[name]
    rows = (0, 8) if name == "attention_mask" else (0,)
    mask[rows] = False
    output = to_numpy(layer(*inputs, **{name: mask}))
    assert np.all(output[rows] == 0) and np.any(output[1] != 0)
    of_query, *others = all_gradients(layer, inputs, normal(rng, *output.shape), **{name: mask})
    assert np.all(of_query[rows] == 0) and np.any(of_query[1] != 0)
    assert all(np.all(np.isfinite(gradient)) for gradient in others)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_extreme_logits_in_low_precision(rng, dtype):
    layer = MultiHeadAttention(NUM_HEADS, KEY_DIM, block_size=7, dtype=dtype)
    inputs, masks = inputs_and_masks(rng, ALL)
    inputs = [x * 300 for x in inputs]
    for given in ({}, masks):
        assert np.all(np.isfinite(to_numpy(keras.ops.cast(layer(*inputs, **given), "float32"))))


@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_float16", 0.01), ("mixed_bfloat16", 0.08)])
def test_gradients_in_low_precision(rng, policy, tolerance):
    plain, _ = make_pair(7)
    low = MultiHeadAttention(NUM_HEADS, KEY_DIM, block_size=2, dtype=policy)
    low.build(*SHAPES)
    low.set_weights(plain.get_weights())
    inputs, masks = inputs_and_masks(rng, ("use_causal_mask", "value_mask"))
    factors = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    actual, expected = (all_gradients(layer, inputs, factors, **masks) for layer in (low, plain))
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.float32(a), e, atol=tolerance * max(1.0, np.abs(e).max()))


@pytest.mark.parametrize("causal", [False, True])
def test_unknown_lengths(rng, causal):
    plain, blocks = make_pair(8, sliding_window=6 if causal else None)
    inputs = [keras.Input((None, CHANNELS)), keras.Input((None, VALUE_CHANNELS))]
    mask = keras.Input((None, None), dtype="bool")
    outputs = blocks(*inputs, attention_mask=mask, use_causal_mask=causal)
    model = keras.Model([*inputs, mask], outputs)
    model.compile("sgd", "mse")
    for length in (1, 21):
        query, value = normal(rng, 1, length, CHANNELS), normal(rng, 1, length + 2, VALUE_CHANNELS)
        allowed = rng.random((1, length, length + 2)) < 0.6
        expected = to_numpy(plain(query, value, attention_mask=allowed, use_causal_mask=causal))
        assert_close(model.predict_on_batch([query, value, allowed]), expected)
        loss = model.test_on_batch([query, value, allowed], np.zeros_like(expected))
        np.testing.assert_allclose(loss, np.mean(expected**2), rtol=1e-4)
    assert np.isfinite(model.train_on_batch([query, value, allowed], np.zeros_like(expected)))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="of TensorFlow's functions")
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("length", [None, QUERY_LENGTH])
def test_tensorflow_functions(rng, jit_compile, length):
    import tensorflow as tf

    plain, blocks = make_pair(7)
    query, value = inputs_and_masks(rng)[0]
    shapes = [(BATCH, length, CHANNELS), (BATCH, length and KEY_LENGTH, VALUE_CHANNELS)]

    def total(layer, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = tf.reduce_sum(layer(*inputs, use_causal_mask=True) ** 2)
        return result, tape.gradient(result, inputs)

    signature = [tf.TensorSpec(shape) for shape in shapes]
    compiled = tf.function(lambda *x: total(blocks, *x), signature, jit_compile=jit_compile)
    assert_close(compiled(query, value), total(plain, *map(tf.constant, (query, value))), rtol=1e-4)


def trained_once(layer, x):
    model = keras.Sequential([keras.Input(x.shape[1:]), SelfAttention(layer), keras.layers.Dense(1)])
    model.layers[-1].set_weights([np.ones((CHANNELS, 1)), np.zeros(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=BACKEND != "torch")
    losses = [model.train_on_batch(x, x[..., :1]) for _ in range(2)]
    return losses, [w.numpy() for w in layer.weights]


class SelfAttention(keras.layers.Layer):
    """Calls the layer with a mask that comes from what the gradient is taken of."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer

    def call(self, x):
        x = keras.ops.multiply(x, 1.5)
        return self.layer(x, x, value_mask=x[..., 0] > -1.0, use_causal_mask=True)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


def test_compiled_training_is_the_same(rng):
    x = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    plain, blocks = make_pair(7, (x.shape, x.shape))
    assert_close(trained_once(blocks, x), trained_once(plain, x), atol=1e-5)


@pytest.mark.parametrize("compiles", [False, True])
def test_dropout_drops_the_same_in_both_passes(rng, compiles):
    inputs = [np.float64(x) for x in inputs_and_masks(rng)[0]]
    factors = rng.normal(size=(BATCH, QUERY_LENGTH, CHANNELS))
    with float64():
        layer = MultiHeadAttention(NUM_HEADS, KEY_DIM, dropout=0.4, block_size=7, seed=3, dtype="float64")
        layer.build(*SHAPES)
        fixed = [v.value for v in layer.trainable_variables]
        state = [v.value for v in layer.non_trainable_variables]
        assert len(state) == 1, "the seed"

        def total(*tensors):
            output, _ = layer.stateless_call(fixed, state, *tensors, training=True)
            return weighted_sum(output, factors)

        check_gradients(total, inputs, compiles=compiles)


def test_dropout_drops_its_share(rng):
    rate, length = 0.3, 60
    layer = MultiHeadAttention(1, 1, dropout=rate, block_size=20, use_bias=False, seed=5)
    x = np.ones((1, length, 1), "float32")
    layer.build(x.shape, x.shape)
    layer.set_weights([np.ones(w.shape) for w in layer.weights])
    np.testing.assert_allclose(to_numpy(layer(x, x)), 1.0, rtol=1e-6)
    first, second = (to_numpy(layer(x, x, training=True))[0, :, 0] for _ in range(2))
    kept = first * length * (1 - rate)  # every score is 1 / length, those that stay are divided by 1 - rate
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-3)
    # 3,600 draws have a standard deviation of 0.0076
    assert abs(first.mean() - 1) < 0.04
    assert np.any(first != second), "each call draws anew"
    assert np.any(first[:20] != first[20:40]), "and so does each block"


@pytest.mark.parametrize("num_key_value_heads", [1, 2])
def test_shared_key_heads(rng, num_key_value_heads):
    query, key, value = (
        normal(rng, BATCH, 13, heads, size)
        for heads, size in ((6, KEY_DIM), (num_key_value_heads, KEY_DIM), (num_key_value_heads, VALUE_DIM))
    )
    factors = normal(rng, BATCH, 13, 6, VALUE_DIM)
    blocks = _blockwise.Blocks(4, 0.3, use_causal_mask=True)

    def total(query, key, value):
        return weighted_sum(_blockwise.attend(query, key, value, None, blocks), factors)

    def repeated(query, key, value):
        return total(query, *(keras.ops.repeat(x, 6 // num_key_value_heads, axis=2) for x in (key, value)))

    assert_close(gradients(total, [query, key, value]), gradients(repeated, [query, key, value]))


def sizes_in_tensorflow(function, x):
    """Numbers in each tensor of a traced function, loops and all."""
    import tensorflow as tf

    graph = tf.function(function).get_concrete_function(tf.TensorSpec(x.shape)).graph
    definition = graph.as_graph_def(add_shapes=True)
    nodes = [*definition.node, *(node for f in definition.library.function for node in f.node_def)]
    shapes = [s for node in nodes for s in node.attr["_output_shapes"].list.shape if not s.unknown_rank]
    return [np.prod([d.size for d in s.dim], dtype=int) for s in shapes]


def sizes_in_jax(function, x):
    import jax

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            yield from (variable.aval.size for variable in equation.outvars)
            for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from walk(inner)

    return list(walk(jax.make_jaxpr(function)(x).jaxpr))


@pytest.mark.skipif(BACKEND == "torch", reason="torch traces no graph")
@pytest.mark.parametrize(
    ("config", "num_keys"),
    [({}, 96), ({"use_causal_mask": True}, 96), ({"sliding_window": 5}, 16), ({"dropout": 0.1}, 96)],
    ids=["plain", "causal", "window", "dropout"],
)
def test_no_tensor_of_all_pairs(rng, config, num_keys):
    config = dict(config)
    call = {"use_causal_mask": config.pop("use_causal_mask", False), "training": True}
    length, block_size = 96, 8
    x = normal(rng, BATCH, length, CHANNELS)
    layers = make_pair(block_size, (x.shape, x.shape), **config)
    largest = []
    for layer in layers:
        if BACKEND == "tensorflow":
            import tensorflow as tf

            def step(x, layer=layer):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(layer(x, x, **call) ** 2)
                return tape.gradient(loss, layer.trainable_variables)

            largest.append(max(sizes_in_tensorflow(step, x)))
        else:
            import jax

            frozen = [v.value for v in layer.non_trainable_variables]

            def loss(weights, x, layer=layer, frozen=frozen):
                return (layer.stateless_call(weights, frozen, x, x, **call)[0] ** 2).sum()

            weights = [v.value for v in layer.trainable_variables]
            largest.append(max(sizes_in_jax(lambda x, w=weights, f=loss: jax.grad(f)(w, x), x)))
    assert largest[0] >= BATCH * NUM_HEADS * length**2, "the plain layer forms them: the count sees it"
    scores = BATCH * NUM_HEADS * block_size * num_keys
    linear = BATCH * NUM_HEADS * length * KEY_DIM
    assert largest[1] <= max(scores, linear)
    assert max(scores, linear) < length**2, "so the mask of all pairs is not formed either"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"block_size": 0}, ValueError, "`block_size` must be a positive integer. Received: block_size=0"),
        (
            {"block_size": 2.5},
            TypeError,
            "`block_size` must be a positive integer or `None`. Received: block_size=2.5 of type float",
        ),
        (
            {"block_size": 8, "flash_attention": True},
            ValueError,
            "`block_size` and `flash_attention=True` are two ways to the same end; set one of them to None. "
            "Received: block_size=8, flash_attention=True",
        ),
    ],
)
def test_invalid_arguments(arguments, error, match):
    with pytest.raises(error) as raised:
        MultiHeadAttention(2, 3, **arguments)
    assert str(raised.value) == match


def test_learned_position_biases_are_refused(rng):
    layer = MultiHeadAttention(2, 3, block_size=8, position_bias=RelativePositionBias(2, name="bias"))
    x = normal(rng, 2, 11, 5)
    with pytest.raises(ValueError, match=r"takes a `position_bias` without weights, such as `ALiBi`.*'bias'"):
        layer(x, x)
