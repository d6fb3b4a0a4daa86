"""Attention in its mobile form: in blocks, with shared key heads and added masks, and equal to Keras."""

import keras
import keras_files
import numpy as np
import pytest
from keras import layers

from keras_attention import ALiBi
from keras_attention import BahdanauAttention
from keras_attention import LuongAttention
from keras_attention import MemoryAttention
from keras_attention import MultiHeadAttention
from keras_attention import ScaledDotProductAttention
from keras_attention.tflite import convert
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime
from keras_attention.tflite.lowering import long_attention
from keras_attention.tflite.lowering import mobile_form

QUERIES, KEYS, CHANNELS, TOKENS = 37, 41, 12, 23


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut whatever has more than 7 queries."""
    monkeypatch.setattr(long_attention, "MOST_NUMBERS", 200)
    monkeypatch.setattr(long_attention, "SMALLEST", 7)
    monkeypatch.setattr(long_attention, "LARGEST", 7)


def own_attention(attend, length=QUERIES):
    inputs = keras.Input((length, CHANNELS), name="x")
    return keras.Model(inputs, attend(layers.Dense(CHANNELS)(inputs)))


def cross_attention(attend):
    query, value = keras.Input((QUERIES, CHANNELS), name="x"), keras.Input((KEYS, CHANNELS), name="y")
    return keras.Model([query, value], attend(query, value))


def padded(attend):
    tokens = keras.Input((QUERIES,), dtype="int32", name="x")
    return keras.Model(tokens, attend(layers.Embedding(TOKENS, CHANNELS, mask_zero=True)(tokens)))


def masked_by_input(layer):
    """The mask is an input; its first query may attend to nothing."""
    query = keras.Input((QUERIES, CHANNELS), name="x")
    mask = keras.Input((QUERIES, KEYS), dtype="int32", name="mask")
    value = keras.Input((KEYS, CHANNELS), name="y")
    return keras.Model([query, value, mask], layer(query, value, attention_mask=mask > 0))


def grouped(**kwargs):
    return layers.GroupQueryAttention(5, 6, 2, **kwargs)


HEADS = {
    "keras": lambda **kwargs: layers.MultiHeadAttention(3, 5, value_dim=7, **kwargs),
    "own": lambda **kwargs: MultiHeadAttention(3, 5, value_dim=7, **kwargs),
    "grouped": grouped,
}
ONE_PIECE = {
    **{f"{name}_plain": lambda m=make: own_attention(lambda x: m()(x, x)) for name, make in HEADS.items()},
    **{
        f"{name}_causal": lambda m=make: own_attention(lambda x: m()(x, x, use_causal_mask=True))
        for name, make in HEADS.items()
    },
    **{f"{name}_cross": lambda m=make: cross_attention(m(use_gate=True)) for name, make in HEADS.items()},
    **{
        f"{name}_scores": lambda m=make: cross_attention(
            lambda x, y: m()(x, y, use_causal_mask=True, return_attention_scores=True)
        )
        for name, make in HEADS.items()
    },
    "own_window": lambda: own_attention(lambda x: MultiHeadAttention(3, 5, sliding_window=5)(x, x)),
    "keras_dropout_causal": lambda: own_attention(
        lambda x: layers.MultiHeadAttention(3, 5, dropout=0.3)(x, x, use_causal_mask=True)
    ),
    "grouped_dropout": lambda: own_attention(lambda x: grouped(dropout=0.3)(x, x)),
    "dot_scale": lambda: cross_attention(lambda x, y: layers.Attention(use_scale=True, dropout=0.2)([x, y])),
    "dot_key": lambda: cross_attention(lambda x, y: layers.Attention()([x, y, 2 * y])),
    "dot_causal_scores": lambda: own_attention(
        lambda x: layers.Attention()([x, x], use_causal_mask=True, return_attention_scores=True)
    ),
    "concat": lambda: cross_attention(lambda x, y: layers.Attention(score_mode="concat")([x, y])),
    "concat_scale": lambda: cross_attention(
        lambda x, y: layers.Attention(score_mode="concat", use_scale=True)([x, y])
    ),
    "additive": lambda: cross_attention(lambda x, y: layers.AdditiveAttention()([x, y])),
    "additive_causal": lambda: own_attention(
        lambda x: layers.AdditiveAttention(use_scale=False)([x, x], use_causal_mask=True)
    ),
    "scaled": lambda: cross_attention(ScaledDotProductAttention(use_scale=True)),
    "scaled_causal": lambda: own_attention(lambda x: ScaledDotProductAttention()(x, x, use_causal_mask=True)),
    "bahdanau": lambda: cross_attention(BahdanauAttention(5)),
    "bahdanau_causal": lambda: own_attention(lambda x: BahdanauAttention(5)(x, x, use_causal_mask=True)),
    "luong": lambda: cross_attention(LuongAttention("general", output_units=5)),
    "luong_concat_causal": lambda: own_attention(
        lambda x: LuongAttention("concat", 5)(x, x, use_causal_mask=True)
    ),
    "memory": lambda: cross_attention(MemoryAttention(3, 5, 7)),
    "memory_causal": lambda: own_attention(lambda x: MemoryAttention(3, 5, 7)(x, x, use_causal_mask=True)),
}
MASKED = {
    **{f"{name}_padded": lambda m=make: padded(lambda x: m()(x, x)) for name, make in HEADS.items()},
    **{f"{name}_input": lambda m=make: masked_by_input(m()) for name, make in HEADS.items()},
    **{
        f"{name}_input_dropout": lambda m=make: masked_by_input(m(dropout=0.1))
        for name, make in HEADS.items()
    },
    "keras_window": lambda: own_attention(lambda x: layers.MultiHeadAttention(3, 5, sliding_window=5)(x, x)),
    "keras_padded_causal": lambda: padded(
        lambda x: layers.MultiHeadAttention(3, 5)(x, x, use_causal_mask=True)
    ),
    "dot_padded": lambda: padded(lambda x: layers.Attention()([x, x])),
    "dot_padded_causal": lambda: padded(
        lambda x: layers.Attention()([x, x], use_causal_mask=True, return_attention_scores=True)
    ),
    "additive_padded": lambda: padded(lambda x: layers.AdditiveAttention()([x, x])),
    "scaled_padded": lambda: padded(lambda x: ScaledDotProductAttention()(x, x)),
    "bahdanau_padded": lambda: padded(lambda x: BahdanauAttention(5)(x, x)),
    "memory_padded": lambda: padded(lambda x: MemoryAttention(3, 5, 7)(x, x)),
}


def samples_of(model, count=3):
    rng = np.random.default_rng(71)
    samples = {}
    for given in model.inputs:
        shape = (count, *given.shape[1:])
        if given.dtype == "int32":
            values = rng.integers(0, TOKENS if given.name == "x" else 2, shape).astype(np.int32)
            values[:, 0] = 0
        else:
            values = rng.normal(size=shape).astype(np.float32)
        samples[given.name] = values
    return samples


def seeded(model):
    rng = np.random.default_rng(72)
    model.set_weights([rng.normal(size=w.shape) * 0.4 for w in model.get_weights()])
    return model


def as_given(samples):
    """One array, or several in a list."""
    values = list(samples.values())
    return values if len(values) > 1 else values[0]


def assert_file_equals_keras(model):
    """Convert, compare all outputs, and return the file."""
    samples = samples_of(model)
    content = keras_files.float_file(model)
    got = runtime.run_samples(content, samples)
    wanted = keras.tree.flatten(model(as_given(samples)))
    assert len(got) == len(wanted) > 0
    for actual, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-5, rtol=2e-5)
    return content


def names_and_ranks(content):
    graph = graphs.read_graph(content)
    subgraph = graph.subgraphs[0]
    names = [graphs.operator_name(graph, operator) for operator in subgraph.operators]
    return names, max(len(tensor.shape) for tensor in subgraph.tensors if tensor.shape is not None)


def changes_of(model):
    with mobile_form(model, 64) as lowering:
        model(as_given(samples_of(model, count=1)))
    return lowering.changes


@pytest.mark.parametrize("name", ONE_PIECE)
def test_blocks_run_in_one_piece(name, small_blocks):
    content = assert_file_equals_keras(seeded(ONE_PIECE[name]()))
    names, rank = names_and_ranks(content)
    assert names.count("SOFTMAX") == 6  # 37 queries, 7 at a time
    assert rank <= 4
    assert runtime.is_fully_delegated(content)
    assert runtime.partitions_and_operators(content)[0] == 1


@pytest.mark.filterwarnings("ignore:.*destroy the mask information")  # Keras' own, of its projections
@pytest.mark.parametrize("name", MASKED)
def test_masks_go_along_with_their_queries(name, small_blocks):
    names, rank = names_and_ranks(assert_file_equals_keras(seeded(MASKED[name]())))
    assert names.count("SOFTMAX") == 6
    assert rank <= 4


@pytest.mark.parametrize(
    "name", ["keras_causal", "grouped_causal", "grouped_cross", "own_causal", "dot_causal_scores"]
)
def test_short_attention_is_whole_and_in_one_piece(name):
    content = assert_file_equals_keras(seeded(ONE_PIECE[name]()))
    names, rank = names_and_ranks(content)
    assert names.count("SOFTMAX") == 1
    assert rank <= 4
    assert not {"TILE", "BROADCAST_TO", "SELECT", "SELECT_V2"} & set(names)
    assert runtime.is_fully_delegated(content)


@pytest.mark.filterwarnings("ignore:.*destroy the mask information")  # Keras' own, of its projections
@pytest.mark.parametrize(
    "name", ["grouped_padded", "grouped_input", "grouped_input_dropout", "keras_padded_causal"]
)
def test_short_attention_with_a_mask_of_the_data(name):
    assert_file_equals_keras(seeded(MASKED[name]()))


@pytest.mark.parametrize("name", ["plain", "causal", "window", "cross", "bias"])
def test_the_layer_sets_the_size_of_its_blocks(name):
    options = {"window": {"sliding_window": 5}, "bias": {"position_bias": ALiBi(3)}}
    layer = MultiHeadAttention(3, 5, block_size=9, dropout=0.1, **options.get(name, {}))
    model = own_attention(lambda x: layer(x, x, use_causal_mask=name == "causal"))
    if name == "cross":
        model = cross_attention(layer)
    content = assert_file_equals_keras(seeded(model))
    names, rank = names_and_ranks(content)
    assert names.count("SOFTMAX") == 5  # 37 queries, 9 at a time
    assert "WHILE" not in names and rank <= 4
    assert runtime.is_fully_delegated(content)
    assert runtime.partitions_and_operators(content)[0] == 1
    assert list(changes_of(model).values())[-1] == "attention in 5 blocks of 9 queries"


@pytest.mark.filterwarnings("ignore:.*destroy the mask information")  # Keras' own, of its projections
@pytest.mark.parametrize("make", [lambda layer: padded(lambda x: layer(x, x)), masked_by_input])
def test_blocks_of_the_layer_under_a_mask_of_the_data(make):
    model = make(MultiHeadAttention(3, 5, block_size=9))
    names, _ = names_and_ranks(assert_file_equals_keras(seeded(model)))
    assert names.count("SOFTMAX") == 5 and "WHILE" not in names


def test_blocks_of_the_layer_at_512_steps():
    layer = MultiHeadAttention(2, 8, block_size=32)
    content = assert_file_equals_keras(seeded(own_attention(lambda x: layer(x, x), length=512)))
    names, _ = names_and_ranks(content)
    assert names.count("SOFTMAX") == 16 and "WHILE" not in names
    graph = graphs.read_graph(content)
    largest = max(np.prod(t.shape) for t in graph.subgraphs[0].tensors if t.shape is not None)
    assert largest <= 2 * 32 * 512


def test_causal_blocks_read_no_later_keys(small_blocks):
    graph = graphs.read_graph(keras_files.float_file(ONE_PIECE["keras_causal"]()))
    subgraph = graph.subgraphs[0]
    softmaxes = [op for op in subgraph.operators if graphs.operator_name(graph, op) == "SOFTMAX"]
    read = sorted(subgraph.tensors[op.outputs[0]].shape[-1] for op in softmaxes)
    assert read == [7, 14, 21, 28, 35, 37]


def test_changes_are_recorded(small_blocks):
    assert list(changes_of(ONE_PIECE["grouped_plain"]()).values()) == [
        "key and value heads shared instead of repeated; attention in 6 blocks of 7 queries"
    ]
    assert list(changes_of(ONE_PIECE["additive"]()).values()) == ["attention in 6 blocks of 7 queries"]


def test_an_own_computation_is_left_alone(small_blocks):
    class Doubled(layers.MultiHeadAttention):
        def _compute_attention(self, query, key, value, attention_mask=None, *args, **kwargs):
            context, scores = super()._compute_attention(query, key, value, attention_mask, *args, **kwargs)
            return 2 * context, scores

    model = seeded(own_attention(lambda x: Doubled(3, 5)(x, x)))
    names, _ = names_and_ranks(assert_file_equals_keras(model))
    assert names.count("SOFTMAX") == 1


def test_the_layer_is_itself_afterwards():
    model = ONE_PIECE["grouped_plain"]()
    layer = model.layers[-1]
    before = dict(vars(layer))
    with mobile_form(model, 64):
        assert layer.num_repeats == 1
    assert vars(layer) == before
    assert layer.num_repeats == 3


@pytest.mark.parametrize("precision", ["int8", "int8_full"])
def test_quantized(precision, tmp_path):
    inputs = keras.Input((257, 8), name="x")
    x = layers.Dense(16)(inputs)
    x = x + layers.GroupQueryAttention(8, 16, 2)(x, x, use_causal_mask=True)
    outputs = layers.Dense(3, name="answer")(layers.GlobalAveragePooling1D()(x))
    model = seeded(keras.Model(inputs, outputs))
    rng = np.random.default_rng(73)
    values = (rng.normal(size=(48, 257, 8)) + rng.normal(size=(48, 1, 8))).astype(np.float32)
    report = convert(model, tmp_path / "m.tflite", precision=precision, calibration=values, verbose=0).report
    assert report.sqnr_db > 20
    assert any("3 blocks of 128 queries" in change for change in report.changes.values())
