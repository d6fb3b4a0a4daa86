"""Each gate in a small CNN, in every precision: one piece for the delegate, nothing beside it."""

import functools

import keras
import keras_files
import numpy as np
import pytest
from keras import layers

import keras_attention
from keras_attention.tflite import convert
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*preserve_all_tensors:UserWarning")]

SIZE, CHANNELS, CLASSES = 16, 24, 7
LEAST_DB = {"float32": 100.0, "float16": 55.0, "dynamic": 30.0, "int8": 28.0, "int8_full": 28.0}


class StockAttention(layers.Layer):
    """A CBAM as others write it: pooling layers, Dense, reductions of keras.ops."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mean, self.maximum = (
            layers.GlobalAveragePooling2D(keepdims=True),
            layers.GlobalMaxPooling2D(keepdims=True),
        )
        self.hidden, self.gate = layers.Dense(8, activation="relu"), layers.Dense(CHANNELS)
        self.places = layers.Conv2D(1, 7, padding="same", activation="sigmoid")

    def call(self, x):
        x = x * keras.ops.sigmoid(sum(self.gate(self.hidden(pool(x))) for pool in (self.mean, self.maximum)))
        maps = [pool(x, axis=-1, keepdims=True) for pool in (keras.ops.mean, keras.ops.max)]
        return x * self.places(keras.ops.concatenate(maps, axis=-1))


GATES = {
    "SqueezeExcite": keras_attention.SqueezeExcite,
    "SqueezeExcite, effective": lambda: keras_attention.SqueezeExcite(
        gate_activation="hard_sigmoid", use_bottleneck=False, use_max_pool=True
    ),
    "EfficientChannelAttention": keras_attention.EfficientChannelAttention,
    "ChannelAttention": keras_attention.ChannelAttention,
    "SpatialAttention": keras_attention.SpatialAttention,
    "CBAM": keras_attention.CBAM,
    "CBAM of others": StockAttention,
    "GlobalContext": keras_attention.GlobalContext,
    "GlobalContext, added": lambda: keras_attention.GlobalContext(fusion="add"),
    "CoordinateAttention": keras_attention.CoordinateAttention,
}
ROWS = [
    (name, precision)
    for name in GATES
    for precision in (LEAST_DB if name in ("CBAM", "SqueezeExcite") else ("int8", "int8_full"))
]


def images(count, seed):
    """Noise over patches of one colour, which leaves a CNN something to tell apart."""
    rng = np.random.default_rng(seed)
    patches = rng.normal(size=(count, 4, 4, 3)).repeat(SIZE // 4, 1).repeat(SIZE // 4, 2)
    return (patches + 0.3 * rng.normal(size=patches.shape)).astype("float32")


def cnn(name):
    """Two residual blocks of separable convolutions, the gate before each sum; logits."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((SIZE, SIZE, 3), name="image")
    x = layers.Conv2D(CHANNELS, 3, padding="same", activation="relu")(inputs)
    for _ in range(2):
        y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
        y = layers.Conv2D(CHANNELS, 1)(layers.ReLU()(layers.BatchNormalization()(y)))
        x = layers.ReLU()(layers.Add()([x, GATES[name]()(y)]))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


@functools.cache
def float_file(name):
    model = cnn(name)
    return keras_files.float_file(model), model.predict(images(64, 5), verbose=0)


@pytest.mark.parametrize(("name", "precision"), ROWS)
def test_one_piece(name, precision):
    content, expected = float_file(name)
    samples = {"image": images(64, 7)} if precision.startswith("int8") else None
    io_dtype = "int8" if precision == "int8_full" else "float32"
    made = quantization.quantize(content, precision, samples, io_dtype=io_dtype).content
    assert runtime.partitions_and_operators(made)[0] == 1
    assert runtime.is_fully_delegated(made)
    if precision == "int8_full":
        subgraph = graphs.read_graph(made).subgraphs[0]
        kinds = {graphs.tensor_type(tensor) for tensor in subgraph.tensors}
        assert "int8" in kinds and "float32" not in kinds, "nothing stays float"
    noise = runtime.run_samples(made, {"image": images(64, 5)})[0] - expected
    assert 10 * np.log10(np.square(expected).sum() / np.square(noise).sum()) > LEAST_DB[precision]


@pytest.mark.parametrize("name", ["CBAM", "CBAM of others"])
def test_maxima_and_narrow_convolutions_are_in_the_fast_form(name):
    content, _ = float_file(name)
    made = quantization.quantize(content, "int8", {"image": images(64, 7)}).content
    operators = runtime.partitions_and_operators(made)[1]
    assert operators["MAX_POOL_2D"] == 4 and "REDUCE_MAX" not in operators
    assert operators["TRANSPOSE"] == 2, "the maxima over channels"
    graph = graphs.read_graph(made)
    kernels = [
        list(graph.subgraphs[0].tensors[op.inputs[1]].shape)
        for op in graph.subgraphs[0].operators
        if graphs.operator_name(graph, op) == "CONV_2D"
    ]
    assert [SIZE, 7, 1, 2 * SIZE] in kernels, "a row of 16 places is one block"


@pytest.mark.parametrize("name", ["CBAM", "SqueezeExcite"])
def test_means_of_the_float16_file_divide_first(name):
    content, _ = float_file(name)
    made = quantization.quantize(content, "float16", None).content
    operators = runtime.partitions_and_operators(made)[1]
    assert "MEAN" not in operators and operators["SUM"] == 3


@pytest.mark.parametrize("name", ["SqueezeExcite", "CBAM", "GlobalContext", "CoordinateAttention"])
def test_the_largest_activations_of_float16(name):
    inputs = keras.Input((SIZE, SIZE, 4), name="image")
    keras.utils.set_random_seed(3)
    output, gate, *_ = GATES[name]()(inputs, return_attention_scores=True)
    model = keras.Model(inputs, [output, gate])
    large = np.full((3, SIZE, SIZE, 4), 6e4, "float32") * np.array([1, -1, 0.5, 1], "float32")
    made = quantization.quantize(keras_files.float_file(model), "float16", None).content
    expected = model.predict(large, verbose=0)
    for actual, wanted in zip(runtime.run_samples(made, {"image": large}), expected, strict=True):
        assert np.all(np.isfinite(actual))
        np.testing.assert_allclose(actual, wanted, rtol=0.02, atol=1e-2 * np.abs(wanted).max())


def test_report_of_a_conversion(tmp_path):
    """Bytes become int8 and int8 bytes outside of the delegate, which has no such conversion."""
    result = convert(
        cnn("CBAM"),
        tmp_path / "cbam.tflite",
        precision="int8_full",
        io_dtype="uint8",
        calibration=images(64, 7),
        evaluation=images(64, 5),
        verbose=0,
    )
    assert result.report.delegate_partitions == 1
    outside = [row for row in result.report.partition_map if row["partition"] is None]
    assert [row["operator"] for row in outside] == ["QUANTIZE", "QUANTIZE"]
    assert result.report.sqnr_db > LEAST_DB["int8_full"]
