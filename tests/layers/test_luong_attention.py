import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import make_masks
from contract import normal
from contract import to_numpy

from keras_attention import BahdanauAttention
from keras_attention import LuongAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, CHANNELS, KEY_CHANNELS, UNITS, OUTPUT_UNITS = 2, 5, 7, 11, 13, 17, 19


def make_inputs(rng, key_channels=CHANNELS):
    return [normal(rng, BATCH, QUERY_LENGTH, CHANNELS), normal(rng, BATCH, KEY_LENGTH, key_channels)]


def test_golden_general():
    # W_q = 2: query 0.5 against keys 1 and 0 gives the logits 1 and 0, the first score s = 1 / (1 + e^-1) and
    # the context 1 s. W_c = [3; -1]: output tanh(3 s - 0.5).
    share = 1 / (1 + math.exp(-1.0))
    layer = LuongAttention("general", output_units=1)
    query, value = np.array([[0.5]]), np.array([[[1.0], [0.0]]])
    layer.build(query.shape, value.shape)
    layer.set_weights([np.array([[2.0]]), np.array([[3.0], [-1.0]])])
    output, scores = layer(query, value, return_attention_scores=True)
    assert_close(scores, np.array([[share, 1 - share]], "float32"))
    assert_close(output, np.array([[math.tanh(3 * share - 0.5)]], "float32"))


@pytest.mark.parametrize("names", [(), ("value_mask",), ("use_causal_mask",)])
def test_dot_equals_keras_attention(rng, names):
    query, value = make_inputs(rng)
    masks = make_masks(rng, names, BATCH, QUERY_LENGTH, KEY_LENGTH)
    actual = LuongAttention("dot")(query, value, return_attention_scores=True, **masks)
    value_mask = masks.pop("value_mask", None)
    keras_masks = {"mask": [None, value_mask]} if value_mask is not None else {}
    expected = keras.layers.Attention()([query, value], return_attention_scores=True, **keras_masks, **masks)
    assert_close(actual, expected)


def test_concat_equals_bahdanau_attention(rng):
    inputs = make_inputs(rng, KEY_CHANNELS)
    masks = make_masks(rng, ("value_mask", "use_causal_mask"), BATCH, QUERY_LENGTH, KEY_LENGTH)
    layer, other = LuongAttention("concat", UNITS, use_bias=True), BahdanauAttention(UNITS, use_bias=True)
    for each in (layer, other):
        each.build(*[x.shape for x in inputs])
    assert [w.path.split("/")[-1] for w in layer.weights] == [w.path.split("/")[-1] for w in other.weights]
    layer.set_weights([normal(rng, *w.shape) for w in layer.weights])
    other.set_weights(layer.get_weights())
    expected = other(*inputs, return_attention_scores=True, **masks)
    assert_close(layer(*inputs, return_attention_scores=True, **masks), expected, atol=0, rtol=0)


def test_general_with_the_identity_is_dot(rng):
    inputs = make_inputs(rng)
    layer = LuongAttention("general", kernel_initializer="identity")
    assert_close(layer(*inputs), LuongAttention("dot")(*inputs))


def test_step_is_a_sequence_of_one(rng):
    query, value = make_inputs(rng, KEY_CHANNELS)
    layer = LuongAttention("general", output_units=OUTPUT_UNITS)
    sequence = layer(query[:, :1], value, return_attention_scores=True)
    step = layer(query[:, 0], value, return_attention_scores=True)
    assert_close(step, [x[:, 0] for x in sequence])


def test_the_attentional_vector_of_a_query_without_keys_comes_from_the_query(rng):
    query, value = make_inputs(rng)
    layer = LuongAttention("dot", output_units=OUTPUT_UNITS)
    mask = np.zeros((BATCH, KEY_LENGTH), bool)
    output, scores = layer(query, value, value_mask=mask, return_attention_scores=True)
    assert np.all(to_numpy(scores) == 0)
    assert_close(output, np.tanh(query @ to_numpy(layer.output_kernel)[CHANNELS:]))


INVALID = [
    ({"score": "scaled"}, ValueError, "`score` must be one of 'dot', 'general', 'concat'.*score='scaled'"),
    ({"score": "concat"}, ValueError, "`units` is the width.*score='concat', units=None"),
    ({"score": "dot", "units": 3}, ValueError, "`units` is the width.*score='dot', units=3"),
    ({"output_units": 0}, ValueError, "`output_units` must be a positive integer. Received: output_units=0"),
    ({"score": "concat", "units": 2.0}, TypeError, "`units` must be a positive integer or `None`"),
    ({"dropout": 1.0}, ValueError, r"`dropout` must be in \[0, 1\).*dropout=1.0"),
    ({"use_bias": True}, ValueError, "`use_bias=True` needs .*score='dot', output_units=None"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        LuongAttention(**config)


@pytest.mark.parametrize("symbolic", [False, True])
def test_dot_needs_equal_widths(symbolic):
    shapes = [(2, 5, 11), (2, 7, 13)]
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    with pytest.raises(ValueError, match=r'same width.*take score="general".*Received: 11 and 13 channels'):
        LuongAttention("dot")(*inputs)


@pytest.mark.filterwarnings("ignore:.*HDF5 file via:UserWarning", "ignore:.*HDF5:UserWarning")
def test_an_h5_file_keeps_the_name_of_the_score(rng, tmp_path):
    # whose loader finds a layer of Keras behind the name "dot"
    query, value = make_inputs(rng)
    symbols = [keras.Input(x.shape[1:]) for x in (query, value)]
    model = keras.Model(symbols, LuongAttention("dot", output_units=OUTPUT_UNITS)(*symbols))
    model.save(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5", compile=False)
    assert loaded.layers[-1].score == "dot"
    assert_close(loaded([query, value]), model([query, value]))


@pytest.mark.parametrize("cls", [BahdanauAttention, lambda units: LuongAttention("concat", units=units)])
def test_one_sample_and_one_unit_and_equal_lengths(rng, cls):
    query, value = normal(rng, 2, 5, CHANNELS), normal(rng, 2, 5, KEY_CHANNELS)
    layer = cls(1)
    both = to_numpy(layer(query, value))
    for index in range(2):
        assert_close(layer(query[index : index + 1], value[index : index + 1]), both[index : index + 1])
