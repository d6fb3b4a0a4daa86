"""What the graph says of tokens and outputs: rows of tables, sigmoids, and where it says nothing."""

import keras
import numpy as np
import pytest
from keras import layers
from tiny_graphs import TinyGraph

from keras_attention.tflite import convert
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import graph_facts
from keras_attention.tflite import merging

ROWS, LENGTH, WIDTH = 101, 7, 11


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    tokens = keras.Input((LENGTH,), dtype="int32", name="tokens")
    ages = keras.Input((3,), name="ages")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(ROWS, WIDTH, mask_zero=True)(tokens))
    x = layers.Concatenate()([x, ages])
    outputs = [layers.Dense(1, activation="sigmoid", name="yes")(x), layers.Dense(1, name="degrees")(x)]
    return keras.Model([tokens, ages], outputs)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("float16", "int8_full", "int16x8")]


@pytest.mark.parametrize("precision", ["float32", "dynamic", "int8", *SLOW])
def test_an_embedding_in_each_precision(model, precision):
    generator = np.random.default_rng(3)
    data = [
        generator.integers(0, ROWS, (37, LENGTH)).astype("int32"),
        generator.normal(size=(37, 3)).astype("float32"),
    ]
    given = {} if precision in ("float32", "float16", "dynamic") else {"calibration": data}
    found = convert(model, precision=precision, evaluation=data, min_sqnr_db=1, verbose=0, **given)
    graph = graphs.read_graph(found.content)
    assert graph_facts.token_limits(graph) == [[ROWS, None]]
    assert graph_facts.sigmoids(graph) == [[True, False]]


@pytest.mark.slow
def test_tokens_as_floats():
    tokens = keras.Input((LENGTH,), name="tokens")
    model = keras.Model(tokens, layers.Embedding(ROWS, WIDTH)(tokens))
    graph = graphs.read_graph(convert(model, precision="float32", verbose=0).content)
    assert graph_facts.token_limits(graph) == [[ROWS]]


def lookup(tiny, index, rows=ROWS, **options):
    table = tiny.constant(np.ones((rows, WIDTH), "float32"))
    return tiny.op("GATHER", table, index, shape=(1, LENGTH, WIDTH), table="Gather", **options)


def moved(tiny, tokens, name, *others):
    constants = [tiny.constant(np.int32(number)) for number in others]
    return tiny.op(name, tokens, *constants, shape=(1, LENGTH), kind="int32")


def selected(tiny, tokens, bound):
    """What Keras makes of an index: numbers below the bound count from the table's end."""
    below = tiny.op("LESS", tokens, tiny.constant(np.int32(bound)), shape=(1, LENGTH), kind="bool")
    return tiny.op("SELECT", below, moved(tiny, tokens, "ADD", ROWS), tokens, shape=(1, LENGTH), kind="int32")


CASES = {
    "plain": (lambda tiny, tokens: [lookup(tiny, tokens)], ROWS),
    "two tables": (lambda tiny, tokens: [lookup(tiny, tokens), lookup(tiny, tokens, 53)], 53),
    "from the end": (lambda tiny, tokens: [lookup(tiny, selected(tiny, tokens, 0))], ROWS),
    "another bound": (lambda tiny, tokens: [lookup(tiny, selected(tiny, tokens, 5))], None),
    "shifted": (lambda tiny, tokens: [lookup(tiny, moved(tiny, tokens, "ADD", 3))], None),
    "cut off": (lambda tiny, tokens: [lookup(tiny, moved(tiny, tokens, "MINIMUM", 3))], None),
    "another axis": (lambda tiny, tokens: [lookup(tiny, tokens, axis=1)], None),
    "squeezed": (
        lambda tiny, tokens: [
            lookup(
                tiny, tiny.op("RESHAPE", tokens, tiny.constant([1, LENGTH]), shape=(1, LENGTH), kind="int32")
            )
        ],
        ROWS,
    ),
    "computed table": (
        lambda tiny, tokens: [
            tiny.op(
                "GATHER",
                tiny.op("EXP", tiny.constant(np.ones((ROWS, WIDTH), "float32")), shape=(ROWS, WIDTH)),
                tokens,
                shape=(1, LENGTH, WIDTH),
                table="Gather",
            )
        ],
        None,
    ),
    "lookup": (
        lambda tiny, tokens: [
            tiny.op(
                "EMBEDDING_LOOKUP",
                tokens,
                tiny.constant(np.ones((ROWS, WIDTH), "float32")),
                shape=(1, LENGTH, WIDTH),
            )
        ],
        ROWS,
    ),
    "rows chosen for the tokens": (
        lambda tiny, tokens: [
            tiny.op("GATHER", tokens, tiny.constant(np.int32([0])), shape=(1, LENGTH), table="Gather")
        ],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_spellings(case):
    build, expected = CASES[case]
    tiny = TinyGraph()
    tokens = tiny.input(1, LENGTH, kind="int32")
    graph = graphs.read_graph(tiny.finish(*build(tiny, tokens)))
    assert graph_facts.token_limits(graph) == [[expected]]


def test_each_signature_has_its_own():
    contents = {}
    for key, rows in (("encode", ROWS), ("decode", 53)):
        tiny = TinyGraph()
        contents[key] = tiny.finish(lookup(tiny, tiny.input(1, LENGTH, kind="int32"), rows))
    merged = graphs.read_graph(merging.merge(contents))
    assert graph_facts.token_limits(merged) == [[ROWS], [53]]
    assert graph_facts.sigmoids(merged) == [[False], [False]]
    merged.signatureDefs = []
    assert graph_facts.token_limits(merged) == [[ROWS]]
