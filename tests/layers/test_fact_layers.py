"""MemoryNetwork and DynamicMemory: rounds of attention of a question over facts."""

import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import DynamicMemory
from keras_attention import MemoryNetwork

BATCH, CHANNELS, NUM_FACTS, FACT_CHANNELS, UNITS = 2, 3, 7, 11, 13
LAYERS = {
    "adjacent": lambda **more: MemoryNetwork(UNITS, **more),
    "layer_wise": lambda **more: MemoryNetwork(UNITS, tying="layer_wise", **more),
    "soft": lambda **more: DynamicMemory(UNITS, **more),
    "gru": lambda **more: DynamicMemory(UNITS, num_passes=2, episode="gru", **more),
}


@pytest.fixture(params=LAYERS)
def make_layer(request):
    return LAYERS[request.param]


def make_inputs(rng):
    return normal(rng, BATCH, CHANNELS), normal(rng, BATCH, NUM_FACTS, FACT_CHANNELS)


def weights_of(layer):
    return {w.path.split("/")[-1]: w for w in layer.weights}


def test_golden_adjacent():
    # B = 1, A_1 = 1, C_1 = A_2 = 2, C_2 = 3, question 1, facts 1 and 0.
    # Hop 1: logits 1 and 0, s = 1 / (1 + e^-1), o = 2 s, u = 1 + 2 s. Hop 2: logits 2 u and 0, o = 3 s_2.
    first = 1 / (1 + math.exp(-1.0))
    state = 1 + 2 * first
    second = 1 / (1 + math.exp(-2 * state))
    layer = MemoryNetwork(1, num_hops=2)
    query, value = np.array([[1.0]]), np.array([[[1.0], [0.0]]])
    layer.build(query.shape, value.shape)
    for name, number in {
        "query": 1.0,
        "fact_kernel_0": 1.0,
        "fact_kernel_1": 2.0,
        "fact_kernel_2": 3.0,
    }.items():
        weights_of(layer)[name if "fact" in name else f"{name}_kernel"].assign([[number]])
    output, scores = layer(query, value, return_attention_scores=True)
    assert_close(scores, np.array([[[first, 1 - first], [second, 1 - second]]], "float32"))
    assert_close(output, np.array([[state + 3 * second]], "float32"))


def test_golden_dynamic_memory():
    # All kernels 1, no biases, question 1, facts 1 and 0. Fact 1: z = [1, 0, 1, 0], logit tanh(2); fact 0:
    # z = [0, 1, 0, 1], logit tanh(2) too: scores 1/2, c = 1/2, m = relu(1 + 1/2 + 1).
    layer = DynamicMemory(1, num_passes=1, use_bias=False, kernel_initializer="ones")
    output, scores = layer(np.array([[1.0]]), np.array([[[1.0], [0.0]]]), return_attention_scores=True)
    assert_close(scores, np.array([[[0.5, 0.5]]], "float32"))
    assert_close(output, np.array([[2.5]], "float32"))


def test_golden_attention_gru():
    # As above, c of the GRU: h_1 = tanh(1) / 2; reset 1 / (1 + e^-h_1), h' = tanh(reset h_1), mean of both.
    first = math.tanh(1.0) / 2
    candidate = math.tanh(first / (1 + math.exp(-first)))
    layer = DynamicMemory(1, num_passes=1, episode="gru", use_bias=False, kernel_initializer="ones")
    output = layer(np.array([[1.0]]), np.array([[[1.0], [0.0]]]))
    assert_close(output, np.array([[2 + (first + candidate) / 2]], "float32"))


def test_scores_are_probabilities_over_facts(rng, make_layer):
    query, value = make_inputs(rng)
    mask = mixed_mask(rng, BATCH, NUM_FACTS)
    _, scores = make_layer()(query, value, value_mask=mask, return_attention_scores=True)
    scores = to_numpy(scores)
    assert scores.min() >= 0
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    assert np.all(scores.transpose(0, 2, 1)[~mask] == 0)


def test_masked_facts_equal_fewer_facts(rng, make_layer):
    query, value = make_inputs(rng)
    mask = np.arange(NUM_FACTS)[None] < np.array([[4], [4]])
    value[:, 4:] = 1e3
    layer = make_layer()
    assert_close(layer(query, value, value_mask=mask), layer(query, value[:, :4]))
    gap = np.array([[True, False, True, True]] * BATCH)
    assert_close(layer(query, value[:, :4], value_mask=gap), layer(query, value[:, [0, 2, 3]]))


def test_the_mask_of_the_facts_arrives_by_itself(rng, make_layer):
    query, value = make_inputs(rng)
    value[:, 4:] = 0
    symbols = [keras.Input((CHANNELS,)), keras.Input((NUM_FACTS, FACT_CHANNELS))]
    layer = make_layer()
    model = keras.Model(symbols, layer(symbols[0], keras.layers.Masking()(symbols[1])))
    actual = model.predict_on_batch([query, value])
    assert_close(actual, layer(query, value, value_mask=np.any(value != 0, axis=-1)))
    assert np.abs(actual - to_numpy(layer(query, value))).max() > 1e-3


@pytest.mark.parametrize("name", LAYERS)
def test_order_of_facts_matters_to_places_and_the_gru_alone(rng, name):
    query, value = make_inputs(rng)
    plain = LAYERS[name]()
    change = np.abs(to_numpy(plain(query, value[:, ::-1])) - to_numpy(plain(query, value))).max()
    assert (change > 1e-3) == (name == "gru")
    if name in ("adjacent", "layer_wise"):
        placed = LAYERS[name](max_facts=NUM_FACTS)
        change = np.abs(to_numpy(placed(query, value[:, ::-1])) - to_numpy(placed(query, value))).max()
        assert change > 1e-3


def test_no_facts_leave_the_question(rng):
    query, value = make_inputs(rng)
    mask = np.zeros((BATCH, NUM_FACTS), bool)
    for tying in ("adjacent", "layer_wise"):
        layer = MemoryNetwork(UNITS, num_hops=2, tying=tying)
        output, scores = layer(query, value, value_mask=mask, return_attention_scores=True)
        assert np.all(to_numpy(scores) == 0)
        weights = {name: to_numpy(w) for name, w in weights_of(layer).items()}
        expected = query @ weights["query_kernel"]
        if tying == "layer_wise":
            expected = expected @ weights["state_kernel"] @ weights["state_kernel"]
        assert_close(output, expected)
    for episode in ("soft", "gru"):
        layer = DynamicMemory(UNITS, num_passes=1, episode=episode)
        output, scores = layer(query, value, value_mask=mask, return_attention_scores=True)
        assert np.all(to_numpy(scores) == 0)
        weights = {name: to_numpy(w) for name, w in weights_of(layer).items()}
        question = query @ weights["query_kernel"]
        joint = np.concatenate([question, np.zeros_like(question), question], axis=-1)
        assert_close(output, np.maximum(joint @ weights["memory_0_kernel"], 0))


def test_adjacent_hops_share_their_embeddings():
    layer = MemoryNetwork(UNITS, num_hops=3, max_facts=5)
    layer.build((1, CHANNELS), (1, 5, FACT_CHANNELS))
    assert sorted(weights_of(layer)) == [
        *(f"fact_kernel_{i}" for i in range(4)), *(f"place_table_{i}" for i in range(4)), "query_kernel",
    ]  # fmt: skip
    layer = MemoryNetwork(UNITS, num_hops=3, tying="layer_wise")
    layer.build((1, CHANNELS), (1, 5, FACT_CHANNELS))
    assert sorted(weights_of(layer)) == ["fact_kernel_0", "fact_kernel_1", "query_kernel", "state_kernel"]


def test_dropout_only_in_training(rng, make_layer):
    query, value = make_inputs(rng)
    plain, layer = make_layer(), make_layer(dropout=0.5, seed=3)
    for each in (plain, layer):
        each.build(query.shape, value.shape)
    layer.set_weights(plain.get_weights())
    assert_close(layer(query, value, training=False), plain(query, value), atol=0, rtol=0)
    assert np.abs(to_numpy(layer(query, value, training=True)) - to_numpy(plain(query, value))).max() > 1e-3


INVALID = [
    (MemoryNetwork, {"units": 0}, ValueError, "`units` must be a positive integer. Received: units=0"),
    (MemoryNetwork, {"units": 3, "num_hops": 0}, ValueError, "`num_hops` must be .*num_hops=0"),
    (MemoryNetwork, {"units": 3, "tying": "none"}, ValueError, "`tying` must be one of 'adjacent', 'layer_w"),
    (MemoryNetwork, {"units": 3, "max_facts": 1.5}, TypeError, "`max_facts` must be .*max_facts=1.5"),
    (DynamicMemory, {"units": 3, "num_passes": True}, TypeError, "`num_passes` must be .*num_passes=True"),
    (DynamicMemory, {"units": 3, "episode": "lstm"}, ValueError, "`episode` must be one of 'soft', 'gru'"),
    (DynamicMemory, {"units": 3, "dropout": 1}, ValueError, r"`dropout` must be in \[0, 1\).*dropout=1"),
]


@pytest.mark.parametrize(("cls", "config", "error", "message"), INVALID)
def test_invalid_arguments(cls, config, error, message):
    with pytest.raises(error, match=message):
        cls(**config)


INVALID_CALLS = [
    ([(2, 5, 3), (2, 7, 11)], {}, r"`query` must have rank 2.*query.shape=\(2, 5, 3\)"),
    ([(2, 3), (2, 11)], {}, r"`value` rank 3.*value.shape=\(2, 11\)"),
    ([(2, 3), (5, 7, 11)], {}, r"same batch size.*value.shape=\(5, 7, 11\)"),
    ([(2, 3), (2, 7, 11)], {"value_mask": (2, 3)}, r"`value_mask` must have shape \(2, 7\).*\(2, 3\)"),
]


@pytest.mark.parametrize(("shapes", "masks", "message"), INVALID_CALLS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(make_layer, shapes, masks, message, symbolic):
    inputs = [keras.Input(batch_shape=s) if symbolic else np.zeros(s, "float32") for s in shapes]
    masks = {name: np.ones(shape, bool) for name, shape in masks.items()}
    with pytest.raises(ValueError, match=message):
        make_layer()(*inputs, **masks)


def test_more_facts_than_places_are_refused():
    layer = MemoryNetwork(3, max_facts=5)
    with pytest.raises(ValueError, match=r"at most `max_facts` facts.*\(2, 7, 11\), max_facts=5"):
        layer(np.zeros((2, 3)), np.zeros((2, 7, 11)))
