import math

import keras
import numpy as np
import pytest
import reference
from contract import MASKS
from contract import assert_close
from contract import check_gradients
from contract import float64
from contract import make_masks
from contract import mixed_mask
from contract import normal
from contract import to_numpy
from contract import weighted_sum

from keras_attention import MultiHeadAttention
from keras_attention import _functional
from keras_attention import _masks

BATCH, QUERY_LENGTH, KEY_LENGTH, NUM_HEADS = 2, 5, 7, 3
CHANNELS, VALUE_CHANNELS, KEY_CHANNELS, KEY_DIM, VALUE_DIM = 11, 13, 17, 19, 23
SIZES = (BATCH, QUERY_LENGTH, KEY_LENGTH)
BACKEND = keras.config.backend()
OWN_OPTIONS = ("num_key_value_heads", "use_query_key_norm", "rotary", "position_bias", "block_size")
torch_only = pytest.mark.skipif(BACKEND != "torch", reason="fused by default on PyTorch only")


def make_inputs(rng, query_sizes=(QUERY_LENGTH,), key_sizes=(KEY_LENGTH,)):
    return [
        normal(rng, BATCH, *query_sizes, CHANNELS),
        normal(rng, BATCH, *key_sizes, VALUE_CHANNELS),
        normal(rng, BATCH, *key_sizes, KEY_CHANNELS),
    ]


def make_layer(**config):
    return MultiHeadAttention(**{"num_heads": NUM_HEADS, "key_dim": KEY_DIM, **config})


def random_weights(rng, layer, *inputs):
    """Builds the layer with random weights, biases too, and returns them by path in float64."""
    layer.build(*[x.shape for x in inputs])
    layer.set_weights([normal(rng, *w.shape) * 0.3 for w in layer.weights])
    return {"/".join(w.path.split("/")[-2:]): np.float64(w.numpy()) for w in layer.weights}


def builtin_like(rng, layer, *inputs):
    """`keras.layers.MultiHeadAttention` from the config of ours; ours then takes over its weights."""
    config = {k: v for k, v in layer.get_config().items() if k not in ("name", *OWN_OPTIONS)}
    builtin = keras.layers.MultiHeadAttention(**config)
    builtin.build(*[x.shape for x in inputs])
    builtin.set_weights([normal(rng, *w.shape) * 0.3 for w in builtin.weights])
    layer.build(*[x.shape for x in inputs])
    layer.set_weights(builtin.get_weights())
    return builtin


def test_golden_identity_kernels():
    # Two heads of width 1 and identity kernels: head i is attention over channel i alone. Query (1, 2), keys
    # (1, 1) and (0, 0): logits (1, 0) and (2, 0). Values (10, 100) and (20, 200).
    layer = MultiHeadAttention(num_heads=2, key_dim=1, use_bias=False)
    query, key = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 1.0], [0.0, 0.0]]])
    value = np.array([[[10.0, 100.0], [20.0, 200.0]]])
    layer.build(query.shape, value.shape, key.shape)
    layer.set_weights([np.eye(2).reshape(2, 2, 1)] * 3 + [np.eye(2).reshape(2, 1, 2)])
    output, scores = layer(query, value, key, return_attention_scores=True)
    first, second = math.e / (math.e + 1), math.exp(2) / (math.exp(2) + 1)
    assert_close(scores, np.array([[[[first, 1 - first]], [[second, 1 - second]]]], "float32"))
    assert_close(output, np.array([[[20 - 10 * first, 200 - 100 * second]]], "float32"), atol=1e-4)


CONFIGS = [
    {},
    {"use_bias": False},
    {"value_dim": VALUE_DIM},
    {"output_shape": 29},
    {"use_gate": True, "value_dim": VALUE_DIM, "output_shape": (29, 31)},
    {"sliding_window": 2},
    {"num_heads": 1, "key_dim": 1},
    {"flash_attention": False},
]


@pytest.mark.parametrize("names", MASKS, ids="+".join)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_reference(rng, config, names):
    inputs = make_inputs(rng)
    masks = make_masks(rng, names, *SIZES)
    layer = make_layer(**config)
    weights = random_weights(rng, layer, *inputs)
    output, scores = layer(*inputs, return_attention_scores=True, **masks)
    expected, expected_scores, _ = reference.multi_head(
        *inputs, weights, sliding_window=layer.sliding_window, **masks
    )
    if "output_shape" not in config:
        assert output.shape[-1] == CHANNELS
    expected = np.float32(np.reshape(expected, output.shape))
    assert_close(scores, expected_scores)
    assert_close(output, expected, atol=1e-4)
    # without scores, PyTorch takes its fused kernel: the same numbers
    assert_close(layer(*inputs, **masks), expected, atol=1e-4)


@pytest.mark.parametrize("names", [(), ("value_mask",), ("key_mask", "attention_mask"), ("use_causal_mask",)])
@pytest.mark.parametrize("config", [*CONFIGS[:-1], {"dropout": 0.4}], ids=str)
@pytest.mark.parametrize("is_self", [False, True], ids=["cross", "self"])
def test_same_as_keras(rng, config, names, is_self):
    inputs = make_inputs(rng)
    if is_self:
        inputs = [inputs[0]] * 2
    masks = make_masks(rng, names, BATCH, QUERY_LENGTH, inputs[1].shape[1])
    layer = make_layer(**config)
    builtin = builtin_like(rng, layer, *inputs)
    assert [w.shape for w in layer.weights] == [w.shape for w in builtin.weights]
    names_of = [["/".join(w.path.split("/")[-2:]) for w in x.weights] for x in (layer, builtin)]
    assert names_of[0] == names_of[1]
    expected = builtin(*inputs, return_attention_scores=True, **masks)
    assert_close(layer(*inputs, return_attention_scores=True, **masks), expected)
    assert_close(layer(*inputs, **masks), expected[0])


@pytest.mark.parametrize("axes", [None, (1,), (2,), (-2,), (2, 1), 1], ids=str)
@pytest.mark.parametrize("mask_ndim", [None, "pairs", "batch", "full"])
def test_same_as_keras_with_attention_axes(rng, axes, mask_ndim):
    inputs = [normal(rng, BATCH, 3, 5, CHANNELS)] * 2
    layer = make_layer(attention_axes=axes, output_shape=(29, 31))
    builtin = builtin_like(rng, layer, *inputs)
    expected = builtin(*inputs, return_attention_scores=True)
    shape = tuple(expected[1].shape)
    num_pairs = 2 * len(layer.attention_axes or (1, 2))
    masks = {}
    if mask_ndim:
        leading = {"pairs": (), "batch": shape[:1], "full": shape[:-num_pairs]}[mask_ndim]
        masks["attention_mask"] = mixed_mask(rng, *leading, *shape[-num_pairs:])
        masks["attention_mask"][..., 0] = True
        expected = builtin(*inputs, return_attention_scores=True, **masks)
    assert_close(layer(*inputs, return_attention_scores=True, **masks), expected)
    assert_close(layer(*inputs, **masks), expected[0])
    symbols = [keras.Input(x.shape[1:]) for x in inputs]
    assert layer(*symbols, return_attention_scores=True)[1].shape == (None, *shape[1:])


def test_attention_axis_is_one_sequence_per_row_or_column(rng):
    query, value, key = make_inputs(rng, (5, 3), (7, 3))
    masks = {
        "query_mask": mixed_mask(rng, BATCH, 5, 3),
        "value_mask": mixed_mask(rng, BATCH, 7, 3),
        "use_causal_mask": True,
    }
    layer = make_layer(attention_axes=1)
    random_weights(rng, layer, query, value, key)
    output, scores = layer(query, value, key, return_attention_scores=True, **masks)
    sequences = make_layer()
    sequences.build((BATCH, 5, CHANNELS), (BATCH, 7, VALUE_CHANNELS), (BATCH, 7, KEY_CHANNELS))
    sequences.set_weights(layer.get_weights())
    for column in range(3):
        column_masks = {n: m if m is True else m[:, :, column] for n, m in masks.items()}
        inputs = [x[:, :, column] for x in (query, value, key)]
        expected = sequences(*inputs, return_attention_scores=True, **column_masks)
        assert_close((output[:, :, column], scores[:, column]), expected)


def test_weight_files_of_keras_load(rng, tmp_path):
    inputs = make_inputs(rng)
    layer = make_layer(use_gate=True)
    builtin = builtin_like(rng, layer, *inputs)
    models = []
    for attention in (builtin, make_layer(use_gate=True)):
        symbols = [keras.Input(x.shape[1:]) for x in inputs]
        models.append(keras.Model(symbols, attention(*symbols)))
    models[0].save_weights(tmp_path / "m.weights.h5")
    models[1].load_weights(tmp_path / "m.weights.h5")
    assert_close(models[1](inputs), models[0](inputs))


def test_config_of_keras_loads():
    builtin = keras.layers.MultiHeadAttention(3, 5, dropout=0.1, use_gate=True, kernel_regularizer="l2")
    layer = MultiHeadAttention.from_config(builtin.get_config())
    own = {"flash_attention", *OWN_OPTIONS}
    assert {k: v for k, v in layer.get_config().items() if k not in own} == builtin.get_config()


def test_regularizers_as_in_keras(rng):
    inputs = make_inputs(rng)
    layer = make_layer(kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2")
    builtin = builtin_like(rng, layer, *inputs)
    builtin(*inputs, return_attention_scores=True)
    layer(*inputs, return_attention_scores=True)
    expected, losses = [sorted(float(to_numpy(loss)) for loss in x.losses) for x in (builtin, layer)]
    assert len(losses) == 12
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_kernels_start_differently():
    layer = make_layer(kernel_initializer=keras.initializers.RandomNormal())
    layer.build((None, 3, CHANNELS), (None, 3, CHANNELS))
    query, key = layer.query_dense.kernel, layer.key_dense.kernel
    assert np.abs(to_numpy(query - key)).max() > 0.01


def test_lora(rng):
    inputs = make_inputs(rng)
    layer = make_layer()
    random_weights(rng, layer, *inputs)
    before = to_numpy(layer(*inputs))
    layer.query_dense.enable_lora(2)
    assert_close(layer(*inputs), before)  # LoRA starts at zero
    layer.query_dense.lora_kernel_b.assign(normal(rng, *layer.query_dense.lora_kernel_b.shape))
    assert np.abs(to_numpy(layer(*inputs)) - before).max() > 0.01


# --- the four defects of the built-in that this layer must not have ---


def test_defect_explicit_query_mask_is_honoured(rng):
    inputs = make_inputs(rng)
    query_mask = mixed_mask(rng, BATCH, QUERY_LENGTH)
    layer = make_layer()
    weights = random_weights(rng, layer, *inputs)
    output, scores = layer(*inputs, query_mask=query_mask, return_attention_scores=True)
    assert np.all(to_numpy(scores).transpose(0, 2, 1, 3)[~query_mask] == 0)
    assert np.all(to_numpy(scores).sum(-1).transpose(0, 2, 1)[query_mask] > 0.99)
    bias = np.float32(weights["attention_output/bias"])
    assert_close(to_numpy(output)[~query_mask], np.broadcast_to(bias, ((~query_mask).sum(), CHANNELS)))


def test_defect_symbolic_scores_of_cross_attention():
    query, value = keras.Input((QUERY_LENGTH, CHANNELS)), keras.Input((KEY_LENGTH, VALUE_CHANNELS))
    _, scores = make_layer()(query, value, return_attention_scores=True)
    assert scores.shape == (None, NUM_HEADS, QUERY_LENGTH, KEY_LENGTH)


PATHS = [
    {},
    {"return_attention_scores": True},
    {"training": True, "return_attention_scores": True},
    {"use_causal_mask": True},
]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("config", [{}, {"dropout": 0.5}, {"sliding_window": 2}, {"flash_attention": False}])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "traced"])
def test_defect_fully_masked_rows_are_zero_on_every_path(rng, path, config, jit):
    inputs = make_inputs(rng)
    layer = make_layer(use_bias=False, **config)
    random_weights(rng, layer, *inputs)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    mask[0, 1] = mask[1, 3] = False
    attends = mask.any(-1)
    assert attends.any() and not attends.all()
    if jit:
        symbols = [keras.Input(x.shape[1:]) for x in inputs]
        mask_input = keras.Input(mask.shape[1:], dtype="bool")
        model = keras.Model([*symbols, mask_input], layer(*symbols, attention_mask=mask_input, **path))
        result = model.predict_on_batch([*inputs, mask])
    else:
        result = layer(*inputs, attention_mask=mask, **path)
    output, *scores = result if isinstance(result, (list, tuple)) else [result]
    assert np.all(to_numpy(output)[~attends] == 0)
    for score in scores:
        assert np.all(to_numpy(score).transpose(0, 2, 3, 1)[~mask] == 0)


def test_defect_paths_agree(rng):
    inputs = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, QUERY_LENGTH, KEY_LENGTH)
    mask[0, 1] = False
    layer = make_layer()
    random_weights(rng, layer, *inputs)
    fused = layer(*inputs, attention_mask=mask)
    assert_close(fused, layer(*inputs, attention_mask=mask, return_attention_scores=True)[0])
    for config in ({"dropout": 0.5}, {"flash_attention": False}):
        other = make_layer(**config)
        other.build(*[x.shape for x in inputs])
        other.set_weights(layer.get_weights())
        assert_close(fused, other(*inputs, attention_mask=mask))
    everything = np.ones_like(mask)
    assert_close(layer(*inputs), layer(*inputs, attention_mask=everything))


def test_dropout_only_in_training(rng):
    inputs = make_inputs(rng)
    plain, layer = make_layer(), make_layer(dropout=0.5, seed=3)
    random_weights(rng, plain, *inputs)
    layer.build(*[x.shape for x in inputs])
    layer.set_weights(plain.get_weights())
    assert_close(layer(*inputs, training=False), plain(*inputs))
    assert np.abs(to_numpy(layer(*inputs, training=True)) - to_numpy(plain(*inputs))).max() > 0.01


@pytest.mark.parametrize("names", [(), MASKS[-1]], ids=["plain", "masked"])
@pytest.mark.parametrize(
    "config", [{}, {"flash_attention": False, "use_gate": True}], ids=["auto", "unfused"]
)
def test_gradients(rng, names, config):
    inputs = [np.float64(x) for x in make_inputs(rng)]
    masks = make_masks(rng, names, *SIZES)
    factors = rng.normal(size=(BATCH, QUERY_LENGTH, CHANNELS))
    with float64():
        layer = make_layer(dtype="float64", **config)
        random_weights(rng, layer, *inputs)
        check_gradients(lambda *x: weighted_sum(layer(*x, **masks), factors), inputs)


INVALID = [
    ({"num_heads": 0}, ValueError, "`num_heads` must be a positive integer. Received: num_heads=0"),
    ({"key_dim": 1.5}, TypeError, "`key_dim` must be a positive integer. Received: key_dim=1.5"),
    ({"value_dim": -1}, ValueError, "`value_dim` must be a positive integer. Received: value_dim=-1"),
    ({"dropout": 1}, ValueError, r"`dropout` must be in \[0, 1\).*Received: dropout=1"),
    ({"use_bias": None}, TypeError, "`use_bias` must be True or False. Received: use_bias=None"),
    ({"output_shape": "8"}, TypeError, "`output_shape` must be an integer.*Received: output_shape='8'"),
    ({"output_shape": (3, 0)}, ValueError, r"`output_shape` must hold positive.*output_shape=\(3, 0\)"),
    ({"attention_axes": 1.0}, TypeError, "`attention_axes` must be an integer.*attention_axes=1.0"),
    ({"sliding_window": 0}, ValueError, "`sliding_window` must be a positive integer.*sliding_window=0"),
    ({"flash_attention": "yes"}, TypeError, "`flash_attention` must be True or False.*'yes'"),
    (
        {"flash_attention": True, "dropout": 0.1},
        ValueError,
        "`flash_attention=True` has no dropout.*dropout=0.1",
    ),
    ({"use_gate": 1}, TypeError, "`use_gate` must be True or False. Received: use_gate=1"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        make_layer(**config)


Q, V = (2, 5, 11), (2, 7, 13)
INVALID_CALLS = [
    ({}, [(2, 11), (2, 7, 13)], {}, r"at least 3.*query.shape=\(2, 11\)"),
    ({}, [Q, (2, 1, 7, 13)], {}, r"the same rank.*value.shape=\(2, 1, 7, 13\)"),
    ({}, [Q, (3, 7, 13)], {}, r"same batch size.*\(3, 7, 13\)"),
    ({}, [Q, V, (2, 5, 13)], {}, r"each key has one value.*key.shape=\(2, 5, 13\)"),
    ({"attention_axes": 2}, [Q, V], {}, "`attention_axes` must be distinct axes.*attention_axes=\\(2,\\)"),
    ({"attention_axes": 1}, [(2, 5, 3, 11), (2, 5, 4, 11)], {}, r"must agree in axis 2.*\(2, 5, 4, 11\)"),
    ({"sliding_window": 2}, [(2, 5, 3, 11)] * 2, {}, "need a single attention axis.*sliding_window=2"),
    ({}, [Q, V], {"query_mask": (2, 7)}, r"`query_mask` must have shape \(2, 5\)"),
    ({}, [Q, V], {"value_mask": (2, 5)}, r"`value_mask` must have shape \(2, 7\)"),
    ({}, [Q, V], {"attention_mask": (2, 7, 5)}, r"`attention_mask` must broadcast.*\(2, 3, 5, 7\)"),
    ({}, [Q, V], {"attention_mask": (2, 2, 5, 7)}, r"`attention_mask` must broadcast.*\(2, 2, 5, 7\)"),
]


@pytest.mark.parametrize(("config", "shapes", "masks", "message"), INVALID_CALLS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(config, shapes, masks, message, symbolic):
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    masks = {name: np.ones(shape, bool) for name, shape in masks.items()}
    with pytest.raises(ValueError, match=message):
        make_layer(**config)(*inputs, **masks)


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "attention_mask"])
def test_lists_are_no_masks(name):
    with pytest.raises(TypeError, match=f"`{name}` must be a tensor or an array.*of type list"):
        make_layer()(np.zeros(Q), np.zeros(V), **{name: [[True]]})


def test_one_key_takes_all_without_a_warning(rng):
    query, value = normal(rng, *Q), normal(rng, 2, 1, 13)
    layer = make_layer()
    output, scores = layer(query, value, return_attention_scores=True)
    assert np.all(to_numpy(scores) == 1)
    assert_close(output, layer(query, np.repeat(value, 3, axis=1)))


def test_causal_needs_one_attention_axis(rng):
    image = normal(rng, BATCH, 3, 5, CHANNELS)
    with pytest.raises(ValueError, match=r"need a single attention axis.*\(1, 2\), use_causal_mask=True"):
        make_layer()(image, image, use_causal_mask=True)


def test_flash_attention_says_what_it_cannot(rng):
    inputs = make_inputs(rng)
    layer = make_layer(flash_attention=True)
    if BACKEND == "tensorflow":
        with pytest.raises(ValueError, match="`flash_attention=True` needs the JAX or PyTorch backend"):
            layer(*inputs)
    else:
        with pytest.raises(ValueError, match="`return_attention_scores=True` is impossible"):
            layer(*inputs, return_attention_scores=True)
        with pytest.raises(ValueError, match=r"no flash kernel for this.*set `flash_attention` to None"):
            make_layer(flash_attention=True)(*[keras.ops.cast(x, "float32") for x in inputs])


@pytest.mark.parametrize("names", MASKS, ids="+".join)
def test_fused_attention(rng, names):
    sizes = [(BATCH, n, NUM_HEADS, KEY_DIM) for n in (QUERY_LENGTH, KEY_LENGTH, KEY_LENGTH)]
    query, key, value = (keras.ops.convert_to_tensor(normal(rng, *s)) for s in sizes)
    masks = make_masks(rng, names, *SIZES)
    flat = [to_numpy(x)[:, :, 0] for x in (query, value, key)]
    mask = _masks.merge_masks(flat[0].shape[1], flat[2].shape[1], 4, **masks)
    actual = _functional.fused_attention(query, key, value, mask, KEY_DIM**-0.5, flash_attention=False)
    for head in range(NUM_HEADS):
        heads = [to_numpy(x)[:, :, head] for x in (query, value, key)]
        assert_close(to_numpy(actual)[:, :, head], reference.scaled_dot_product(*heads, **masks)[0])


@torch_only
def test_flash_attention_false_avoids_the_fused_kernel(rng, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("fused")

    inputs = make_inputs(rng)
    monkeypatch.setattr(keras.ops, "dot_product_attention", fail)
    make_layer(flash_attention=False)(*inputs)
    with pytest.raises(RuntimeError, match="fused"):
        make_layer()(*inputs)
