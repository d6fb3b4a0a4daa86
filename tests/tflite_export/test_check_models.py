"""`check` on Keras models: each rule finds its fault, names the place, and is silent on a sound model."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers
from keras import ops

from keras_attention.tflite import ConversionError
from keras_attention.tflite import Finding
from keras_attention.tflite import check
from keras_attention.tflite.linting import model_behaviour


@keras.saving.register_keras_serializable(package="tests")
class Scaled(layers.Layer):
    """A sound layer of a user's."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs):
        return inputs * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable(package="tests")
class Forgetful(Scaled):
    def get_config(self):
        config = super().get_config()
        del config["factor"]
        return config


@keras.saving.register_keras_serializable(package="tests")
class Demanding(Scaled):
    def __init__(self, factor, **kwargs):
        super().__init__(factor, **kwargs)

    def get_config(self):
        return {key: value for key, value in super().get_config().items() if key != "factor"}


@keras.saving.register_keras_serializable(package="tests")
class Speechless(layers.Layer):
    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        self.table = table

    def call(self, inputs):
        return inputs + float(self.table.sum())


@keras.saving.register_keras_serializable(package="tests")
class Sampled(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed = keras.random.SeedGenerator(5)

    def call(self, inputs):
        return inputs + keras.random.normal(ops.shape(inputs), seed=self.seed)


@keras.saving.register_keras_serializable(package="tests")
class TrainingNoise(Sampled):
    def call(self, inputs, training=False):
        return super().call(inputs) if training else inputs


class Unregistered(Scaled):
    pass


def unregistered_activation(x):
    return ops.relu(x) * 0.5


def of_layer(layer, shape=(7, 3), dtype="float32", **arguments):
    inputs = keras.Input(shape, dtype=dtype, name="data")
    return keras.Model(inputs, layer(inputs, **arguments))


def of_function(function, shape=(7, 3)):
    inputs = keras.Input(shape, name="data")
    return keras.Model(inputs, function(inputs))


def masked(layer):
    tokens = keras.Input((7,), dtype="int32", name="tokens")
    x = layers.Embedding(11, 6, mask_zero=True)(tokens)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not support masking")
        return keras.Model(tokens, layer(x))


def with_weights(model, index, change):
    weights = model.get_weights()
    weights[index] = np.asarray(change(weights[index]), np.float32)
    model.set_weights(weights)
    return model


def nan(kernel):
    kernel[1, 2] = np.nan
    return kernel


def channel_times(factor):
    def change(kernel):
        kernel[:, 2] *= factor
        return kernel

    return change


def normalized(variance):
    model = of_layer(layers.BatchNormalization(name="norm"), (5,))
    return with_weights(model, 3, lambda old: np.array([1.0, 2.0, 0.5, variance, 1.5]))


def quantized():
    model = of_layer(layers.Dense(5, name="place"), (7,))
    model.get_layer("place").quantize("int8")
    return model


def nested(layer):
    inner = of_layer(layer)
    inputs = keras.Input((7, 3), name="data")
    return keras.Model(inputs, inner(inputs))


CASES = {
    "KA101": (
        [lambda: of_layer(layers.Dense(5), (None, 3))],
        [lambda: of_layer(layers.Dense(5))],
        "warning: data: (None, 3) input_shapes={'data': (128, 3)}",
    ),
    "KA102": (
        [lambda: of_layer(layers.LSTM(5, name="place")), lambda: nested(layers.GRU(5, name="place"))],
        [lambda: of_layer(layers.Conv1D(5, 3))],
        "note: place: 7 steps kB",
    ),
    "KA103": (
        [
            lambda: masked(layers.Conv1D(5, 3, name="place")),
            lambda: masked(lambda x: layers.LSTM(3)(x + 1.0)),
        ],
        [
            lambda: masked(layers.LSTM(5)),
            lambda: masked(layers.GlobalAveragePooling1D()),
            lambda: of_layer(layers.Conv1D(5, 3)),
        ],
        "warning: : drops the mask",
    ),
    "KA104": (
        [
            lambda: of_layer(Scaled(-1e9, name="place")),
            lambda: of_function(lambda x: x + (1.0 - x) * -1e9),
            lambda: of_function(lambda x: x - (1.0 - x) * 1e9),
            lambda: of_function(lambda x: ops.where(x > 0.0, x, np.full((1, 3), -1e5, "float32"))),
            lambda: masked(lambda x: layers.MultiHeadAttention(2, 3)(x, x)),
            lambda: of_function(lambda x: layers.Attention()([x, x], use_causal_mask=True)),
        ],
        [
            lambda: of_layer(Scaled(-40.0)),
            lambda: of_function(lambda x: layers.MultiHeadAttention(2, 3)(x, x)),
            lambda: of_function(lambda x: layers.Attention()([x, x])),
            lambda: of_layer(layers.Masking(-1e9)),
            lambda: of_function(lambda x: ops.square(x * 1e4)),
        ],
        "warning: : takes the whole range",
    ),
    "KA105": (
        [
            lambda: keras.Sequential(
                [layers.Input(batch_shape=(2, 7, 3)), layers.GRU(5, stateful=True, name="place")]
            )
        ],
        [lambda: of_layer(layers.GRU(5))],
        "error: place: the state of 2 sequences stateful=False",
    ),
    "KA106": (
        [
            lambda: of_layer(Forgetful(3.0, name="place")),
            lambda: of_layer(Demanding(3.0, name="place")),
            lambda: of_layer(Speechless(np.ones(3), name="place")),
        ],
        [lambda: of_layer(Scaled(3.0)), lambda: of_layer(layers.Dense(5))],
        "warning: place: get_config",
    ),
    "KA107": (
        [
            lambda: of_layer(Unregistered(name="place")),
            lambda: of_layer(layers.Dense(5, activation=unregistered_activation, name="place")),
        ],
        [lambda: of_layer(Scaled()), lambda: of_layer(layers.Dense(5, activation="relu"))],
        "warning: place: nregistered custom_objects register_keras_serializable",
    ),
    "KA108": (
        [lambda: of_layer(layers.Lambda(lambda x: x * 2.0, name="place"))],
        [lambda: of_function(lambda x: x * 2.0)],
        "warning: place: Python code keras.ops",
    ),
    "KA109": (
        [lambda: with_weights(of_layer(layers.Dense(5, name="place"), (7,)), 0, nan)],
        [lambda: of_layer(layers.Dense(5), (7,))],
        "error: place/kernel: 1 of 35",
    ),
    "KA110": ([quantized], [lambda: of_layer(layers.Dense(5))], "error: place: 'int8' model.quantize"),
    "KA111": (
        [lambda: of_layer(layers.Embedding(11, 5, name="place"), (7,))],
        [lambda: of_layer(layers.Embedding(11, 5), (7,), "int32")],
        "warning: place: float32 dtype='int32'",
    ),
    "KA112": (
        [lambda: of_layer(layers.Dense(5, dtype="mixed_float16", name="place"))],
        [lambda: of_layer(layers.Dense(5))],
        "note: place: float16",
    ),
    "KA113": (
        [lambda: of_layer(Sampled(name="place"))],
        [
            lambda: of_layer(TrainingNoise()),
            lambda: of_layer(layers.Dropout(0.3), training=True),  # which `predict` overrules
            lambda: of_layer(layers.RandomRotation(0.3), (8, 8, 3)),
        ],
        "error: place: random numbers training",
    ),
    "KA114": (
        [lambda: with_weights(of_layer(layers.Dense(5, name="place"), (7,)), 0, channel_times(1000.0))],
        [lambda: with_weights(of_layer(layers.Dense(5), (7,)), 0, channel_times(10.0))],
        "warning: place/kernel: channel 2 times",
    ),
    "KA115": (
        [lambda: normalized(1e-9)],
        [lambda: normalized(0.01), lambda: of_layer(layers.BatchNormalization(), (5,))],
        "warning: norm: channel 3 multiplied by 32",
    ),
    "KA116": (
        [lambda: with_weights(of_layer(layers.Dense(5, name="place"), (7,)), 1, lambda b: b + 7e4)],
        [lambda: with_weights(of_layer(layers.Dense(5), (7,)), 1, lambda b: b + 6e4)],
        "warning: place/bias: 70000 65504",
    ),
    "KA117": (
        [lambda: of_layer(layers.Reshape((7, 1, 3, 1), name="place"))],
        [lambda: of_layer(layers.Reshape((7, 1, 3)))],
        "warning: place: 5 axes Reshape",
    ),
    "KA118": (
        [
            lambda: of_layer(layers.MaxPooling3D(2, name="place"), (4, 4, 4, 2)),
            lambda: of_layer(layers.Resizing(5, 5, interpolation="bicubic", name="place"), (8, 8, 3)),
            lambda: of_layer(layers.CategoryEncoding(5, "multi_hot", name="place"), (7,), "int32"),
            lambda: of_function(lambda x: ops.tan(x)),
        ],
        [
            lambda: of_layer(layers.MaxPooling2D(2), (4, 4, 2)),
            lambda: of_layer(layers.Resizing(5, 5), (8, 8, 3)),
            lambda: of_layer(layers.CategoryEncoding(5, "one_hot"), (1,), "int32"),
            lambda: of_function(lambda x: ops.sin(x)),
        ],
        "error: : no builtin operator",
    ),
}


def pairs(side):
    return [
        pytest.param(code, build, id=f"{code}-{number}")
        for code, case in CASES.items()
        for number, build in enumerate(case[side])
    ]


@pytest.mark.parametrize(("code", "build"), pairs(0))
def test_fault_is_found(code, build):
    keras.utils.set_random_seed(7)
    found = check(build(), select=[code])
    assert found, "nothing was found"
    severity, place, words = CASES[code][2].split(":", 2)
    for finding in found:
        assert isinstance(finding, Finding) and finding.code == code
        assert finding.page == f"docs/checks/{code}.md"
        assert severity in ("", finding.severity) and place.strip() in finding.where
        assert finding.severity in ("error", "warning", "note") and len(finding.cure) > 20
        for word in words.split():
            assert word in f"{finding.message} {finding.cure}", word


@pytest.mark.parametrize(("code", "build"), pairs(1))
def test_sound_model_is_left_alone(code, build):
    keras.utils.set_random_seed(7)
    assert check(build(), select=[code]) == ()


@pytest.mark.parametrize("name", ["dense", "transformer", "cnn", "subclassed", "tokens", "conv_lstm"])
def test_the_models_of_other_tests_are_sound(case, name):
    found = check(case(name).model)
    # The subclassed one is not registered, and its __init__ doesn't take what Keras puts into the config.
    expected = {"conv_lstm": {"KA102"}, "subclassed": {"KA106", "KA107"}}
    assert {finding.code for finding in found} == expected.get(name, set()), found


def test_long_recurrence_is_a_warning_with_the_size():
    (finding,) = check(of_layer(layers.LSTM(5), (800, 3)))
    assert (finding.code, finding.severity) == ("KA102", "warning")
    assert "800 steps, about 1,061 kB" in finding.message and "max_unrolled_steps=800" in finding.cure


def test_both_halves_of_a_bidirectional_are_counted():
    found = check(of_layer(layers.Bidirectional(layers.LSTM(5))), select=["KA102"])
    assert len(found) == 2 and all("7 steps" in finding.message for finding in found)


def test_an_argument_that_is_lost_is_told_from_one_that_is_needed():
    (lost,) = check(of_layer(Forgetful(3.0)), select=["KA106"])
    assert lost.severity == "warning" and "takes 'factor', which get_config doesn't return" in lost.message
    lost, needed = check(of_layer(Demanding(3.0)), select=["KA106"])
    assert needed.severity == "warning" and "from_config(get_config()) fails: TypeError" in needed.message
    (refused,) = check(of_layer(Speechless(np.ones(3))), select=["KA106"])
    assert refused.severity == "warning" and "get_config fails: NotImplementedError" in refused.message


def test_an_infinite_mask_is_an_error():
    model = of_function(lambda x: ops.where(x > 0.0, x, -np.inf))
    (finding,) = check(model)
    assert (finding.code, finding.severity) == ("KA104", "error") and "NaN" in finding.message


def test_dropout_built_with_training_true_is_quiet_at_inference():
    """Why KA113 says nothing about it."""
    model = of_layer(layers.Dropout(0.5), training=True)
    data = np.ones((1, 7, 3), np.float32)
    np.testing.assert_array_equal(model(data, training=False), data)


def test_select_and_ignore():
    model = of_layer(layers.Embedding(11, 5), (None,))
    assert [finding.code for finding in check(model)] == ["KA101", "KA111"]
    assert [finding.code for finding in check(model, select=["KA111"])] == ["KA111"]
    assert [finding.code for finding in check(model, select=["KA1"], ignore=["KA101"])] == ["KA111"]
    assert check(model, ignore=["KA"]) == ()


@pytest.mark.parametrize("argument", ["select", "ignore"])
def test_wrong_codes(argument):
    model = of_layer(layers.Dense(5))
    with pytest.raises(ValueError, match=rf"`{argument}` must hold codes .* from KA101 to KA405.*'KA999'"):
        check(model, **{argument: ["KA101", "KA999"]})
    with pytest.raises(TypeError, match=rf"`{argument}` must be a list of codes.*Received: 'KA101'"):
        check(model, **{argument: "KA101"})


def test_what_is_no_model():
    with pytest.raises(TypeError, match=r"`model_or_path` must be a keras\.Model.*Received: builtins\.int"):
        check(3)
    with pytest.raises(ValueError, match=r"has no weights yet\. Call it once"):
        check(keras.Sequential([layers.Dense(5)], name="unbuilt"))


def test_saved_model(tmp_path):
    path = tmp_path / "model.keras"
    of_layer(layers.LSTM(5, name="place"), (None, 3)).save(path)
    assert [finding.code for finding in check(str(path))] == ["KA101"]
    of_layer(layers.LSTM(5, name="place")).save(path)
    assert [finding.where for finding in check(path)] == ["place"]
    of_layer(layers.Lambda(lambda x: x * 2.0)).save(path)
    with pytest.raises(ConversionError, match=r"model\.keras' can't be loaded: it holds a Lambda layer"):
        check(path)


def test_saved_model_of_an_unregistered_layer(tmp_path):
    path = tmp_path / "model.keras"
    of_layer(Unregistered(name="place")).save(path)
    with pytest.raises(ConversionError, match=r"If a layer is your own, register it with"):
        check(path)


@pytest.mark.parametrize("content", [b"", b"text, not a model" * 9, b"PK\x03\x04" + bytes(range(256))])
def test_what_is_no_keras_file(tmp_path, content):
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match=r"no complete \.keras file"):
        check(path)
    with pytest.raises(FileNotFoundError, match=r"No such file: .*gone\.keras"):
        check(tmp_path / "gone.keras")


def test_mutated_keras_files(tmp_path):
    """Bytes flipped anywhere: the file loads, or the error says why."""
    path = tmp_path / "model.keras"
    of_layer(layers.Dense(5)).save(path)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(20240605)
    refused = 0
    for number in range(60):
        damaged = content.copy()
        places = rng.integers(0, len(content), 1 + number % 5)
        damaged[places] ^= rng.integers(1, 256, len(places), dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            check(path)
        except ConversionError as error:
            assert repr(str(path)) in str(error)
            refused += 1
    assert 30 < refused <= 60


REFUSED = {
    "Erf": lambda x: ops.erf(x),
    "Erfinv": lambda x: ops.erfinv(x),
    "Tan": lambda x: ops.tan(x),
    "Sinh": lambda x: ops.sinh(x),
    "Cosh": lambda x: ops.cosh(x),
    "Arcsin": lambda x: ops.arcsin(x),
    "Arccos": lambda x: ops.arccos(x),
    "Arctan": lambda x: ops.arctan(x),
    "Arcsinh": lambda x: ops.arcsinh(x),
    "Arccosh": lambda x: ops.arccosh(x),
    "Arctanh": lambda x: ops.arctanh(x),
    "Cumprod": lambda x: ops.cumprod(x, 1),
    "Cholesky": lambda x: ops.cholesky(x),
    "Inv": lambda x: ops.inv(x),
    "Det": lambda x: ops.det(x),
    "Slogdet": lambda x: ops.slogdet(x)[1],
    "Logdet": lambda x: ops.logdet(x),
    "SVD": lambda x: ops.svd(x)[0],
    "Qr": lambda x: ops.qr(x)[0],
    "Eigh": lambda x: ops.eigh(x)[0],
    "Eig": lambda x: ops.real(ops.eig(x)[0]),
    "Solve": lambda x: ops.solve(x, x),
    "SolveTriangular": lambda x: ops.solve_triangular(x, x),
    "Diagonal": lambda x: ops.diagonal(x, 0, 1, 2),
    "FFT": lambda x: ops.fft((x, x))[0],
    "FFT2": lambda x: ops.fft2((x, x))[0],
    "IFFT2": lambda x: ops.ifft2((x, x))[0],
    "IRFFT": lambda x: ops.irfft((x, x)),
    "ISTFT": lambda x: ops.istft((x, x), 13, 4, 14),
    "Cross": lambda x: ops.cross(x[:, :, :3], x[:, :, :3]),
    "BitwiseAnd": lambda x: ops.bitwise_and(ops.cast(x, "int32"), ops.cast(x, "int32")),
    "BitwiseNot": lambda x: ops.bitwise_not(ops.cast(x, "int32")),
    "LeftShift": lambda x: ops.left_shift(ops.cast(x, "int32"), ops.cast(x, "int32")),
    "Bincount": lambda x: ops.bincount(ops.cast(x[:, 0], "int32"), minlength=3),
    "InTopK": lambda x: ops.in_top_k(np.zeros(1, "int32"), x[:, 0], 3),
    "CTCDecode": lambda x: ops.ctc_decode(x, np.array([8]))[1],
    "AffineTransform": lambda x: ops.image.affine_transform(x[..., None], ops.ones((1, 8))),
    "RGBToHSV": lambda x: ops.image.rgb_to_hsv(x[:, :, None, :3]),
    "HSVToRGB": lambda x: ops.image.hsv_to_rgb(x[:, :, None, :3]),
    "MaxPooling3D": lambda x: layers.MaxPooling3D(2)(layers.Reshape((4, 2, 4, 2))(x)),
    "AveragePooling3D": lambda x: layers.AveragePooling3D(2)(layers.Reshape((4, 2, 4, 2))(x)),
    "Hashing": lambda x: layers.Hashing(7)(ops.cast(x, "int32")),
    "HashedCrossing": lambda x: layers.HashedCrossing(7)((ops.cast(x[:, 0, :1], "int32"),) * 2),
    "IntegerLookup": lambda x: layers.IntegerLookup(vocabulary=[1, 2, 3])(ops.cast(x, "int64")),
}
OF_STRINGS = {"StringLookup", "TextVectorization"}


@pytest.mark.slow
def test_the_converter_refuses_what_the_table_says(capfd):
    """The table of operations without builtin operators is that of the converter that is installed."""
    import tensorflow as tf

    assert set(REFUSED) | OF_STRINGS == model_behaviour.LACKING
    for name, function in REFUSED.items():
        inputs = keras.Input((8, 8), batch_size=1)
        model = keras.Model(inputs, function(inputs))
        assert any(name in finding.message for finding in check(model, select=["KA118"])), name
        traced = tf.function(model, input_signature=[tf.TensorSpec((1, 8, 8))], autograph=False)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([traced.get_concrete_function()], model)
        with pytest.raises(
            Exception, match=r"neither a custom op nor a flex op|ops are not supported|Lookup"
        ):
            converter.convert()
    capfd.readouterr()  # MLIR's own lines


def test_a_stateful_layer_for_one_sequence_is_a_note():
    """`convert` takes it: the state becomes an input and an output."""
    stream = layers.GRU(5, stateful=True, name="memory")
    model = keras.Sequential([layers.Input(batch_shape=(1, 7, 3)), stream])
    (finding,) = [one for one in check(model) if one.code == "KA105"]
    assert finding.severity == "note" and "becomes an input and an output" in finding.message
