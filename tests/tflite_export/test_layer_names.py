"""The Keras layer of each operator, and the noise of each layer."""

import keras
import keras_files
import numpy as np
import pytest
import tiny_graphs
from keras import layers

from keras_attention import MultiHeadAttention
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import layer_noise
from keras_attention.tflite.trial import REFUSED_DB
from keras_attention.tflite.trial import Trial

WEIGHTED = {"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"}


class Block(layers.Layer):
    """Two layers inside a layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(9, activation="relu", name="first")
        self.second = layers.Dense(9, name="second")

    def call(self, x):
        return x + self.second(self.first(x))


class Own(keras.Model):
    """A subclassed model with a list of blocks."""

    def __init__(self):
        super().__init__(name="own")
        self.blocks = [Block(name=f"block_{number}") for number in range(2)]
        self.answer = layers.Dense(3, name="answer")

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.answer(x)


def sequence(body, shape=(7, 9)):
    inputs = keras.Input(shape, name="x")
    return keras.Model(inputs, body(inputs))


def nested():
    inner = sequence(lambda x: layers.Dense(5, name="deep")(layers.Dense(9, name="shallow")(x)))
    inner.name = "encoder"
    return sequence(lambda x: layers.Dense(3, name="answer")(inner(x)))


def shared():
    one = layers.Dense(9, name="one", activation="tanh")
    return sequence(lambda x: layers.Dense(3, name="answer")(one(one(x))))


def subclassed():
    model = Own()
    model(np.zeros((1, 7, 9), np.float32))
    return model


def bidirectional():
    return sequence(
        lambda x: layers.Dense(3, name="answer")(
            layers.Bidirectional(layers.LSTM(5, name="memory"), name="both")(x)
        )
    )


def attention():
    return sequence(lambda x: layers.Dense(3, name="answer")(MultiHeadAttention(3, 4, name="look")(x, x)))


def convolutions():
    def body(x):
        x = layers.Conv2D(4, 3, name="plain", activation="relu")(x)
        x = layers.DepthwiseConv2D(3, name="deep")(x)
        x = layers.BatchNormalization(name="norm")(layers.Conv2D(5, 1, name="point", use_bias=False)(x))
        return layers.Conv2DTranspose(3, 3, strides=2, name="up")(x)

    return sequence(body, (11, 13, 3))


MODELS = {
    "nested": (nested, ["shallow", "deep", "answer"]),
    "shared": (shared, ["one", "one", "answer"]),
    "subclassed": (subclassed, ["first", "second", "first", "second", "answer"]),
    "attention": (attention, ["query", "key", "value", "output", "answer"]),
    "convolutions": (convolutions, ["plain", "deep", "point", "up"]),
}


def weighted_layers(content):
    graph = graphs.read_graph(content)
    found = zip(tiny_graphs.operator_names(graph), layer_names.of_operators(graph), strict=True)
    return [layer for name, layer in found if name in WEIGHTED]


@pytest.mark.parametrize("name", MODELS)
def test_each_product_is_known_by_its_layer(name):
    build, expected = MODELS[name]
    found = weighted_layers(keras_files.float_file(build()))
    last = [path.split("/")[-1] for path in found]
    if name == "attention":
        assert all(path.split("/")[0] == "look" for path in found[:-1]) and last[-1] == "answer"
        assert len(last) == len(expected)
    else:
        assert sorted(last) == sorted(expected), found
    if name == "subclassed":
        assert {path.split("/")[-2] for path in found if "block" in path} == {"block_0", "block_1"}
    if name == "nested":
        assert {path.split("/")[0] for path in found if path != "answer"} == {"encoder"}


def test_each_direction_of_a_recurrence_is_known():
    found = weighted_layers(keras_files.float_file(bidirectional()))
    assert found[-1] == "answer"
    assert {path.split("/")[0] for path in found[:-1]} == {"both"}
    assert {path.split("/")[1] for path in found[:-1]} == {"forward_memory", "backward_memory"}


def test_file_without_names():
    """Another tool's file, or a stripped one: everything belongs to no layer."""
    content = keras_files.float_file(nested())
    graph = graphs.read_graph(content)
    graphs.strip_names(graph)
    layer_names.name_tensors(graph, None)
    assert set(layer_names.of_operators(graph)) == {layer_names.UNKNOWN}
    names = [graphs.tensor_name(tensor) for tensor in graph.subgraphs[0].tensors]
    assert len(set(names)) == len(names), "still unique"


@pytest.mark.parametrize("build", [nested, attention, bidirectional])
def test_layers_outlast_the_names(build):
    graph = graphs.read_graph(keras_files.float_file(build()))
    expected = layer_names.of_operators(graph)
    assert len(set(expected)) >= 3
    layer_names.store(graph)
    graphs.strip_names(graph)
    written = graphs.read_graph(graphs.write_graph(graph))
    assert len(graphs.metadata(written, layer_names.ENTRY)) < 400
    layer_names.restore(written)
    layer_names.name_tensors(written, None)
    assert layer_names.of_operators(written) == expected


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"\xff",
            b"7",
            b"{}",
            b'[["a"]]',
            b'[["a", 1.0]]',
            b'[["a", true]]',
            b"[[5, 1]]",
            b"[" * 99_999,
        ),
        *(b'[["a", -1], ["b", 999]]', b'[["a", 10000000000]]', b'[["a", 1]]'),
    ],
)
def test_a_list_of_layers_that_does_not_fit_is_left_aside(data):
    graph = graphs.read_graph(keras_files.float_file(nested()))
    graphs.strip_names(graph)
    graphs.set_metadata(graph, layer_names.ENTRY, data)
    before = [graphs.tensor_name(tensor) for tensor in graph.subgraphs[0].tensors]
    assert len(graph.subgraphs[0].operators) > 1
    layer_names.restore(graph)
    assert [graphs.tensor_name(tensor) for tensor in graph.subgraphs[0].tensors] == before


def named(names, known=None):
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    for _ in names:
        x = tiny.op("TANH", x, shape=(1, 7))
    graph = graphs.read_graph(tiny.finish(x))
    for operator, name in zip(graph.subgraphs[0].operators, names, strict=True):
        graph.subgraphs[0].tensors[operator.outputs[0]].name = name.encode()
    layer_names.name_tensors(graph, known)
    return layer_names.of_operators(graph)


def test_scopes_in_names():
    known = {"dense": True, "relu": False, "block": False}
    assert named(["functional_1/dense_1/MatMul;functional_1/relu/Relu"], known) == ["dense"]
    assert named(["functional_1/relu/Relu;functional_1/dense/MatMul"], known) == ["dense"], (
        "the one with weights"
    )
    assert named(["functional_1/block_1/dense_1/MatMul"], known) == ["block/dense"]
    assert named(["a;b/c:d/e"], None) == ["b/c_d"], "the marks of our own names don't occur in a layer's"
    assert named(["x", "y"], known) == [layer_names.UNKNOWN] * 2


def test_new_tensors_belong_to_the_operator_that_they_lead_to():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.op("TANH", tiny.input(1, 7), shape=(1, 7), layer="before")
    y = tiny.op("SIN", x, shape=(1, 7), layer="gone")
    z = tiny.op("ABS", y, shape=(1, 7), layer="after")
    graph = graphs.read_graph(tiny.finish(z))
    graph.subgraphs[0].tensors[y].name = b""
    assert layer_names.of_operators(graph) == ["before", "after", "after"]
    layer_names.complete(graph)
    assert graphs.tensor_name(graph.subgraphs[0].tensors[y]) == f"0.new{y}:after"


# --- noise


def three_layers():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    for layer in ("a", "b", "a", "c"):
        x = tiny.op("TANH", x, shape=(1, 7), layer=layer)
    return graphs.read_graph(tiny.finish(x))


def test_groups_are_layers_in_order():
    graph = three_layers()
    groups = layer_noise.group(graph, layer_names.of_operators(graph), {0, 1, 2})
    assert [(g.layer, g.operators, g.names) for g in groups] == [
        ("a", frozenset({0, 2}), ("TANH",)),
        ("b", frozenset({1}), ("TANH",)),
    ]


def rows(ratios):
    groups = [layer_noise.Group(name, frozenset({n}), ("ADD",)) for n, name in enumerate(ratios)]
    return layer_noise.measure(groups, lambda ops: list(ratios.values())[min(ops)], lambda _: "int8")


def test_worst_layer_first_and_of_alike_ones_the_earlier():
    found = rows({"a": 50.0, "writer": 12.0, "reader": 10.0, "d": 30.0, "refused": REFUSED_DB})
    assert [row["layer"] for row in found] == ["refused", "writer", "reader", "d", "a"]
    assert [row["sqnr_db"] for row in found] == [REFUSED_DB, 12.0, 10.0, 30.0, 50.0]
    advice = {row["layer"]: row["advice"] for row in found}
    assert (
        "refuses" in advice["refused"] and "One scale" in advice["writer"] and "Quantizes well" in advice["a"]
    )


def test_measuring_ends_in_time(monkeypatch):
    monkeypatch.setattr(layer_noise, "SECONDS", -1.0)
    assert [row["layer"] for row in rows({"a": 50.0, "b": 12.0})] == ["a"], "one at least"


# --- trial


def test_trial_compares_before_the_last_softmax():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    y = tiny.op("MUL", x, tiny.constant(100.0), shape=(1, 7))
    content = tiny.finish(tiny.op("SOFTMAX", y, shape=(1, 7), beta=1.0), tiny.op("LOGISTIC", y, shape=(1, 7)))
    trial = Trial(content, tiny_graphs.normal(tiny.graph, count=201))
    shortened = graphs.read_graph(trial.content).subgraphs[0]
    assert list(shortened.outputs) == [y, y] and len(shortened.operators) == 3

    def ten_per_cent(short):
        graph = graphs.read_graph(short)
        graph.subgraphs[0].operators[0].inputs[1] = tiny_constant(graph, 110.0)
        return graphs.write_graph(graph)

    def tiny_constant(graph, value):
        from keras_attention.tflite import editing

        return editing.add_constant(graph, graph.subgraphs[0], np.float32(value).reshape(()))

    assert trial.sqnr_db(ten_per_cent(trial.content)) == pytest.approx(20.0, abs=1e-3)
    assert trial.sqnr_db(graphs.write_graph(trial.fresh_graph())) == 200.0


def test_trial_of_a_refused_file():
    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(tiny.op("TANH", tiny.input(1, 7), shape=(1, 7)))
    trial = Trial(content, tiny_graphs.normal(tiny.graph))
    assert trial.sqnr_db(b"no file at all") == REFUSED_DB
