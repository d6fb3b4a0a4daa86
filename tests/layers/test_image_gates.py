import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import CBAM
from keras_attention import ChannelAttention
from keras_attention import CoordinateAttention
from keras_attention import EfficientChannelAttention
from keras_attention import GlobalContext
from keras_attention import SpatialAttention
from keras_attention import SqueezeExcite
from keras_attention.images import _functional

BATCH, HEIGHT, WIDTH, LENGTH, CHANNELS = 2, 5, 7, 13, 11
GATES = [
    SqueezeExcite,
    EfficientChannelAttention,
    ChannelAttention,
    SpatialAttention,
    CBAM,
    GlobalContext,
    CoordinateAttention,
]
OF_SEQUENCES = [cls for cls in GATES if cls is not CoordinateAttention]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def randomized(layer, rng, shape):
    layer.build(shape)
    for weight in layer.trainable_weights:
        weight.assign(normal(rng, *weight.shape) * 0.3)
    return layer


def test_golden_squeeze_excite():
    # Means 2 and 1, maxima 3 and 2; hidden relu(1 * mean_0 - 1 * mean_1) = 1; logits 2 and -1.
    inputs = np.array([[[1.0, 0.0], [3.0, 2.0]]], "float32")
    layer = SqueezeExcite(ratio=2, divisor=1, use_bias=False)
    layer.build(inputs.shape)
    layer.set_weights([np.array([[1.0], [-1.0]]), np.array([[2.0, -1.0]])])
    output, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[sigmoid(2), sigmoid(-1)]], "float32"))
    assert_close(output, inputs * to_numpy(gate)[:, None])
    # With half the maxima the pooled values are 2.5 and 1.5, and their difference is the same.
    layer = SqueezeExcite(ratio=2, divisor=1, use_bias=False, use_max_pool=True)
    layer.build(inputs.shape)
    layer.set_weights([np.array([[1.0], [0.0]]), np.array([[2.0, -1.0]])])
    _, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[sigmoid(5), sigmoid(-2.5)]], "float32"))


def test_golden_effective_squeeze_excite():
    # hard_sigmoid(x) = x / 6 + 0.5 between -3 and 3; the matrix swaps the means 2 and 1.
    inputs = np.array([[[1.0, 0.0], [3.0, 2.0]]], "float32")
    layer = SqueezeExcite(use_bottleneck=False, gate_activation="hard_sigmoid")
    layer.build(inputs.shape)
    layer.set_weights([np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 5.0])])
    _, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[1 / 6 + 0.5, 1.0]], "float32"))


def test_golden_efficient_channel_attention():
    # Means 1, 2 and 4 with the kernel (1, 0, -1): 0 - 2, 1 - 4 and 2 - 0.
    inputs = np.array([[[0.0, 2.0, 4.0], [2.0, 2.0, 4.0]]], "float32")
    layer = EfficientChannelAttention(kernel_size=3)
    layer.build(inputs.shape)
    layer.set_weights([np.array([1.0, 0.0, -1.0])])
    _, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[sigmoid(-2), sigmoid(-3), sigmoid(2)]], "float32"))


def test_golden_channel_attention():
    # Mean 2 and maximum 3 through relu(z + 1) * 2 + 1: 7 and 9, whose sum is the logit.
    inputs = np.array([[[1.0], [3.0]]], "float32")
    layer = ChannelAttention(ratio=1, divisor=1)
    layer.build(inputs.shape)
    layer.set_weights([np.array([[1.0]]), np.array([1.0]), np.array([[0.2]]), np.array([0.1])])
    _, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[sigmoid(0.2 * (3 + 4) + 0.2)]], "float32"))


def test_golden_spatial_attention():
    # Means 1, 2, 3 and maxima 2, 3, 4; the middle sees 1 * mean on its left and 2 * maximum on its right.
    inputs = np.array([[[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]]], "float32")
    layer = SpatialAttention(kernel_size=3, use_batch_norm=False)
    layer.build(inputs.shape)
    kernel = np.zeros((3, 2, 1))
    kernel[0, 0], kernel[2, 1] = 1.0, 2.0
    layer.set_weights([kernel, np.array([-5.0])])
    _, gate = layer(inputs, return_attention_scores=True)
    assert_close(gate, np.array([[sigmoid(6 - 5), sigmoid(1 + 8 - 5), sigmoid(2 - 5)]], "float32"))


def test_golden_global_context():
    # Logits 0 and log(3): scores 1/4 and 3/4, context 0.75 log(3); hidden twice, change three times that.
    inputs = np.array([[[0.0], [math.log(3)]]], "float32")
    change = 3 * 2 * 0.75 * math.log(3)
    for fusion, expected in (("multiply", inputs * sigmoid(change)), ("add", inputs + change)):
        layer = GlobalContext(1, 1, fusion=fusion, use_layer_norm=False, use_bias=False)
        layer.build(inputs.shape)
        layer.set_weights([np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])])
        output, scores = layer(inputs, return_attention_scores=True)
        assert_close(scores, np.array([[0.25, 0.75]], "float32"))
        assert_close(output, np.float32(expected))


def test_golden_coordinate_attention():
    # Rows have the means 1 and 3, columns 1 and 3; hidden = mean; a row's logit is the mean, a column's -1.
    inputs = np.array([[[[0.0], [2.0]], [[2.0], [4.0]]]], "float32")
    layer = CoordinateAttention(1, 1, use_batch_norm=False)
    layer.build(inputs.shape)
    layer.set_weights([np.array(w) for w in ([[1.0]], [0.0], [[1.0]], [0.0], [[0.0]], [-1.0])])
    output, rows, columns = layer(inputs, return_attention_scores=True)
    assert_close(rows, np.array([[[sigmoid(1)], [sigmoid(3)]]], "float32"))
    assert_close(columns, np.full((1, 2, 1), sigmoid(-1), "float32"))
    assert_close(output, inputs * to_numpy(rows)[:, :, None] * to_numpy(columns)[:, None])


@pytest.mark.parametrize("cls", OF_SEQUENCES)
def test_padding_equals_a_shorter_sequence(rng, cls):
    inputs, mask = normal(rng, BATCH, LENGTH, CHANNELS), np.arange(LENGTH)[None] < np.array([[9], [9]])
    inputs[:, 9:] = 1e4
    layer = randomized(cls(), rng, inputs.shape)
    output, *gates = layer(inputs, mask=mask, return_attention_scores=True)
    expected, *wanted = layer(inputs[:, :9], return_attention_scores=True)
    assert_close(output[:, :9], expected)
    for gate, other in zip(gates, wanted, strict=True):
        gate = to_numpy(gate)
        if gate.shape == (BATCH, LENGTH):
            assert np.all(gate[:, 9:] == 0)
            gate = gate[:, :9]
        assert_close(gate, other)


@pytest.mark.parametrize("cls", GATES)
def test_what_is_masked_cannot_matter(rng, cls):
    inputs, mask = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS), mixed_mask(rng, BATCH, HEIGHT, WIDTH)
    layer = randomized(cls(), rng, inputs.shape)
    before = layer(inputs, mask=mask, return_attention_scores=True)
    inputs[~mask] *= 1e3
    output, *gates = layer(inputs, mask=mask, return_attention_scores=True)
    assert_close(to_numpy(output)[mask], to_numpy(before[0])[mask])
    assert_close(gates, before[1:])
    without = layer(inputs, return_attention_scores=True)[1]
    assert np.abs(to_numpy(without) - to_numpy(gates[0])).max() > 1e-3


@pytest.mark.parametrize("cls", GATES)
def test_a_mask_of_ones_changes_nothing(rng, cls):
    inputs = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    layer = randomized(cls(), rng, inputs.shape)
    ones = np.ones(inputs.shape[:-1], bool)
    assert_close(
        layer(inputs, mask=ones, return_attention_scores=True), layer(inputs, return_attention_scores=True)
    )


@pytest.mark.parametrize("cls", [SqueezeExcite, EfficientChannelAttention, ChannelAttention, GlobalContext])
def test_places_are_all_alike_to_channel_gates(rng, cls):
    inputs = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    layer = randomized(cls(), rng, inputs.shape)
    flipped = np.ascontiguousarray(inputs[:, ::-1, ::-1])
    assert_close(to_numpy(layer(flipped))[:, ::-1, ::-1], layer(inputs))
    sequence = layer.__class__.from_config(layer.get_config())
    sequence.build((BATCH, HEIGHT * WIDTH, CHANNELS))
    sequence.set_weights(layer.get_weights())
    rows = inputs.reshape(BATCH, HEIGHT * WIDTH, CHANNELS)
    assert_close(to_numpy(sequence(rows)).reshape(inputs.shape), layer(inputs))


def test_cbam_is_its_two_layers_in_a_row(rng):
    inputs, mask = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS), mixed_mask(rng, BATCH, HEIGHT, WIDTH)
    layer = randomized(CBAM(ratio=2, kernel_size=3), rng, inputs.shape)
    x, channels = layer.channel_attention(inputs, mask=mask, return_attention_scores=True)
    output, places = layer.spatial_attention(x, mask=mask, return_attention_scores=True)
    assert_close(layer(inputs, mask=mask, return_attention_scores=True), (output, channels, places))


def test_padding_does_not_enter_the_statistics_of_batch_norm(rng):
    inputs, mask = normal(rng, BATCH, LENGTH, CHANNELS), np.arange(LENGTH)[None] < np.array([[9], [9]])
    padded, alone = SpatialAttention(), SpatialAttention()
    for layer in (padded, alone):
        layer.build(inputs.shape)
        layer.kernel.assign(np.full(layer.kernel.shape, 0.1))
    padded(inputs, mask=mask, training=True)
    alone(inputs[:, :9], training=True)
    assert_close(padded.batch_norm.moving_mean, alone.batch_norm.moving_mean)
    assert_close(padded.batch_norm.moving_variance, alone.batch_norm.moving_variance)


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
@pytest.mark.parametrize("cls", GATES)
def test_the_largest_float16_activations_have_means(rng, cls, policy):
    # 35 x 6e4 is far beyond the 65,504 of float16
    inputs = np.full((BATCH, HEIGHT, WIDTH, CHANNELS), 6e4, "float16")
    inputs[1] *= rng.uniform(size=inputs.shape[1:]).astype("float16")
    layer, exact = cls(dtype=policy), cls(dtype="float32")
    for one in (layer, exact):
        one.build(inputs.shape)
    exact.set_weights(layer.get_weights())
    for mask in (None, mixed_mask(rng, BATCH, HEIGHT, WIDTH)):
        wanted = exact(inputs.astype("float32"), mask=mask, return_attention_scores=True)
        actual = layer(inputs, mask=mask, return_attention_scores=True)
        for a, e in zip(actual, wanted, strict=True):
            assert keras.backend.standardize_dtype(a.dtype) == "float16"
            a, e = np.float32(to_numpy(a)), to_numpy(e)
            assert np.all(np.isfinite(a))
            np.testing.assert_allclose(a, e, atol=0.02 * np.abs(e).max())


INVALID = [
    (SqueezeExcite, {"ratio": 0}, ValueError, "`ratio` must be a positive integer. Received: ratio=0"),
    (
        CBAM,
        {"ratio": 2.5},
        TypeError,
        "`ratio` must be a positive integer. Received: ratio=2.5 of type float",
    ),
    (
        ChannelAttention,
        {"divisor": -8},
        ValueError,
        "`divisor` must be a positive integer. Received: divisor=-8",
    ),
    (
        SpatialAttention,
        {"kernel_size": 4},
        ValueError,
        "`kernel_size` must be odd, so that the kernel has a middle. Received: kernel_size=4",
    ),
    (
        EfficientChannelAttention,
        {"kernel_size": 2},
        ValueError,
        "`kernel_size` must be odd, so that the kernel has a middle. Received: kernel_size=2",
    ),
    (
        EfficientChannelAttention,
        {"gamma": 0},
        ValueError,
        "`gamma` must be finite and above 0. Received: gamma=0",
    ),
    (EfficientChannelAttention, {"beta": "1"}, TypeError, "`beta` must be a number. Received: beta='1'"),
    (
        EfficientChannelAttention,
        {"beta": float("nan")},
        ValueError,
        "`beta` must be finite. Received: beta=nan",
    ),
    (
        SqueezeExcite,
        {"use_bottleneck": None},
        TypeError,
        "`use_bottleneck` must be True or False. Received: use_bottleneck=None",
    ),
    (
        GlobalContext,
        {"fusion": "mul"},
        ValueError,
        "`fusion` must be one of 'multiply', 'add'. Received: fusion='mul'",
    ),
    (
        CoordinateAttention,
        {"use_batch_norm": 1},
        TypeError,
        "`use_batch_norm` must be True or False. Received: use_batch_norm=1",
    ),
    (
        CBAM,
        {"data_format": "channels"},
        ValueError,
        "`data_format` must be one of 'channels_last', 'channels_first'. Received: data_format='channels'",
    ),
]


@pytest.mark.parametrize(("cls", "arguments", "error", "message"), INVALID)
def test_invalid_arguments(cls, arguments, error, message):
    with pytest.raises(error) as caught:
        cls(**arguments)
    assert str(caught.value) == message


FIRST = (
    "`data_format` must be 'channels_last': .tflite files have their channels last. Put a "
    "`keras.layers.Permute((2, 3, 1))` before the layer, and pass data_format='channels_last'. "
    "Received: data_format="
)


@pytest.mark.parametrize("cls", GATES)
def test_channels_first_is_refused(cls):
    with pytest.raises(ValueError) as caught:
        cls(data_format="channels_first")
    assert str(caught.value) == f"{FIRST}'channels_first'"
    setting = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(ValueError) as caught:
            cls()
        assert str(caught.value) == f"{FIRST}None (the setting of Keras is 'channels_first')"
        assert cls(data_format="channels_last").data_format == "channels_last"
    finally:
        keras.config.set_image_data_format(setting)


@pytest.mark.parametrize(("cls", "shape", "allowed"), [
    (SqueezeExcite, (2, 11), "(batch, length, channels) or (batch, height, width, channels)"),
    (CBAM, (2, 5, 7, 3, 11), "(batch, length, channels) or (batch, height, width, channels)"),
    (CoordinateAttention, (2, 5, 11), "(batch, height, width, channels)"),
])  # fmt: skip
def test_invalid_shapes(cls, shape, allowed):
    message = f"`inputs` must have shape {allowed}, with a known number of channels. "
    with pytest.raises(ValueError) as caught:
        cls().build(shape)
    assert str(caught.value) == f"{message}Received: inputs.shape={shape}"
    with pytest.raises(ValueError) as caught:
        cls().build((*shape[:-1], None) if len(shape) in (3, 4) else shape)
    assert message in str(caught.value)


@pytest.mark.parametrize("cls", GATES)
def test_invalid_masks(rng, cls):
    inputs = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    with pytest.raises(ValueError, match=r"`mask` must have shape \(2, 5, 7\), True where"):
        cls()(inputs, mask=np.ones((BATCH, HEIGHT), bool))
    with pytest.raises(TypeError, match=r"`mask` must be boolean, True where"):
        cls()(inputs, mask=np.ones(inputs.shape[:-1], "float32"))


@pytest.mark.parametrize("cls", [c for c in GATES if c is not SpatialAttention])
def test_other_channels_than_those_it_was_built_for(rng, cls):
    layer = cls()
    layer(normal(rng, 2, 5, 7, 8))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 8"):
        layer(normal(rng, 2, 5, 7, 9))


@pytest.mark.parametrize("cls", OF_SEQUENCES)
def test_what_stands_in_the_padding_is_never_read(rng, cls):
    x, mask = normal(rng, 3, 12, 8), np.arange(12) < np.array([[12], [5], [8]])
    layer = cls()
    expected = to_numpy(layer(x, mask=mask))
    x[~mask] = np.nan
    actual = to_numpy(layer(x, mask=mask))
    np.testing.assert_allclose(actual[mask], expected[mask], rtol=1e-6)


def test_a_masked_maximum_holds_no_huge_numbers(rng):
    x = normal(rng, 2, 12, 5) - 3
    x[:, 8:] = 5
    mask = np.broadcast_to(np.arange(12) < 8, (2, 12))
    actual = to_numpy(_functional.maximum(keras.ops.convert_to_tensor(x), (1,), mask))
    np.testing.assert_array_equal(actual, x[:, :8].max(axis=1))
    assert actual.max() < 0
