"""Names, shapes and types of a model's inputs, in the order in which Keras has them."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.model_signature import output_names
from keras_attention.tflite.model_signature import read_signature


def model_of(inputs, outputs=None):
    flat = keras.tree.flatten(inputs)
    return keras.Model(inputs, layers.Concatenate()(flat) if len(flat) > 1 else flat[0] * 2.0)


def swapped():
    return keras.Input((5,), name="zebra"), keras.Input((7,), name="apple")


def packed(signature):
    """What `pack` makes of "0", "1", ..., which shows where each input goes."""
    return signature.pack([str(index) for index in range(len(signature.inputs))])


def answer(model, signature, arrays):
    """The model's answer to arrays in the signature's order."""
    return np.asarray(model(signature.pack(arrays)))


def test_single_input():
    signature = read_signature(model_of(keras.Input((5, 3), dtype="int32", name="tokens")))
    assert signature.inputs == (TensorSpec("tokens", (5, 3), "int32"),)
    assert packed(signature) == "0"
    assert str(signature.inputs[0]) == "tokens: int32[5, 3]"


def test_list_of_inputs_keeps_its_order(rng):
    zebra, apple = swapped()
    model = keras.Model([zebra, apple], [zebra * 2.0, apple * 3.0])
    signature = read_signature(model)
    assert signature.names() == ["zebra", "apple"]
    assert packed(signature) == ["0", "1"]
    arrays = [rng.normal(size=(2, 5)), rng.normal(size=(2, 7))]
    for index, factor in enumerate((2.0, 3.0)):
        got = np.asarray(model(signature.pack(arrays))[index])
        np.testing.assert_allclose(got, arrays[index] * factor, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict:UserWarning")  # of Keras, other names
@pytest.mark.parametrize("same_names", [True, False])
def test_dict_of_inputs_is_named_by_its_keys(rng, same_names):
    zebra, apple = swapped() if same_names else (keras.Input((5,), name="a"), keras.Input((7,), name="b"))
    model = keras.Model({"zebra": zebra, "apple": apple}, layers.Concatenate()([zebra, apple]))
    signature = read_signature(model)
    assert sorted(signature.names()) == ["apple", "zebra"]
    assert {spec.name: spec.shape for spec in signature.inputs} == {"zebra": (5,), "apple": (7,)}
    arrays = {"zebra": rng.normal(size=(2, 5)), "apple": rng.normal(size=(2, 7))}
    got = answer(model, signature, [arrays[name] for name in signature.names()])
    np.testing.assert_allclose(got, np.concatenate([arrays["zebra"], arrays["apple"]], 1), rtol=1e-6)


def test_nested_inputs_reach_their_places(rng):
    one, two, three = keras.Input((2,), name="z"), keras.Input((3,), name="y"), keras.Input((5,), name="x")
    model = keras.Model([one, {"b": two, "a": three}], layers.Concatenate()([one, two, three]))
    signature = read_signature(model)
    shapes = {spec.name: spec.shape for spec in signature.inputs}
    assert shapes == {"z": (2,), "y": (3,), "x": (5,)}
    arrays = {name: rng.normal(size=(2, *shape)) for name, shape in shapes.items()}
    got = answer(model, signature, [arrays[name] for name in signature.names()])
    np.testing.assert_allclose(got, np.concatenate([arrays[n] for n in "zyx"], axis=1), rtol=1e-6)


def test_sequential():
    model = keras.Sequential([keras.Input((11, 3), name="window"), layers.Dense(2)])
    assert read_signature(model).inputs == (TensorSpec("window", (11, 3), "float32"),)
    lazy = keras.Sequential([layers.Dense(2)])
    lazy(np.zeros((1, 11, 3), np.float32))
    assert [spec.shape for spec in read_signature(lazy).inputs] == [(11, 3)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_float_inputs_are_float32_in_the_file(dtype):
    signature = read_signature(model_of(keras.Input((3,), dtype=dtype, name="x")))
    assert signature.inputs[0].dtype == "float32"


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_other_inputs_keep_their_type(dtype):
    inputs = keras.Input((3,), dtype=dtype, name="x")
    model = keras.Model(inputs, keras.ops.cast(inputs, "float32"))
    assert read_signature(model).inputs[0].dtype == dtype


class Doubling(keras.Model):
    """Says nothing about its inputs."""

    def build(self, input_shape):
        self.built = True

    def call(self, inputs):
        return keras.ops.concatenate(keras.tree.flatten(inputs), axis=-1) * 2.0


def test_subclassed_model_takes_the_form_of_its_samples(rng):
    model = Doubling()
    array = read_signature(model, rng.normal(size=(13, 5)))
    assert array.inputs == (TensorSpec("input_0", (5,), "float32"),) and packed(array) == "0"
    listed = read_signature(model, [np.zeros((13, 5), np.float32), np.zeros((13, 7), np.int32)])
    assert listed.inputs == (TensorSpec("input_0", (5,), "float32"), TensorSpec("input_1", (7,), "int32"))
    assert packed(listed) == ["0", "1"]
    named = read_signature(model, {"zebra": np.zeros((13, 5)), "apple": np.zeros((13, 7))})
    assert named.names() == ["zebra", "apple"] and packed(named) == {"zebra": "0", "apple": "1"}


@pytest.mark.parametrize("samples", [[[1.0, 2.0], [3.0, 4.0]], "samples.npz", {"a": [1.0, 2.0]}, iter([1])])
def test_subclassed_model_with_samples_that_are_no_arrays(samples):
    """Either they are understood, or the message says what is wanted."""
    try:
        signature = read_signature(Doubling(), samples)
    except (TypeError, ValueError) as error:
        assert "array" in str(error)
    else:
        assert all(isinstance(spec.shape, tuple) for spec in signature.inputs)


def test_subclassed_model_without_samples():
    class Single(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(3)

        def call(self, inputs):
            return self.dense(inputs)

    model = Single()
    model(np.zeros((2, 7), np.float32))
    assert read_signature(model).inputs == (TensorSpec("input_0", (7,), "float32"),)
    with pytest.raises(ValueError, match=r"no list of inputs, .* Pass real samples as `calibration`"):
        read_signature(Doubling(name="doubling"))


def open_model():
    return keras.Model(
        [a := keras.Input((None, 3), name="zebra"), b := keras.Input((5, None), name="apple")],
        [a * 2.0, b * 2.0],
    )


@pytest.mark.parametrize(
    ("samples", "input_shapes"),
    [
        ([np.zeros((2, 11, 3)), np.zeros((2, 5, 13))], None),
        ({"apple": np.zeros((2, 5, 13)), "zebra": np.zeros((2, 11, 3))}, None),
        (None, {"zebra": (11, 3), "apple": [5, 13]}),
        ({"apple": np.zeros((2, 5, 13))}, {"zebra": (11, 3)}),
        ([np.zeros((2, 17, 3)), np.zeros((2, 5, 13))], {"zebra": (11, 3)}),
    ],
    ids=["list", "dict", "input_shapes", "both", "input_shapes_win"],
)
def test_open_sizes(samples, input_shapes):
    signature = read_signature(open_model(), samples, input_shapes)
    assert [spec.shape for spec in signature.inputs] == [(11, 3), (5, 13)]


def test_open_size_that_nothing_fixes():
    with pytest.raises(ValueError, match=r"Input 'apple' .* has an open size: \(5, None\).*input_shapes="):
        read_signature(open_model(), None, {"zebra": (11, 3)})


@pytest.mark.parametrize(
    ("input_shapes", "message"),
    [
        ({"zebr": (11, 3)}, r"names no input.*Allowed: \['zebra', 'apple'\]. Received: \['zebr'\]"),
        ({"zebra": (11, 4)}, r"doesn't fit input 'zebra'.*\(None, 3\). Received: \(11, 4\)"),
        ({"zebra": (11,)}, r"doesn't fit input 'zebra'.*Received: \(11,\)"),
    ],
)
def test_wrong_input_shapes(input_shapes, message):
    with pytest.raises(ValueError, match=message):
        read_signature(open_model(), None, input_shapes)


def test_fixed_batch_is_refused():
    model = model_of(keras.Input((3,), batch_size=7, name="x"))
    with pytest.raises(ValueError, match=r"Input 'x' has a fixed batch size of 7.*keras\.Input\(shape"):
        read_signature(model)
    assert read_signature(model_of(keras.Input((3,), batch_size=1, name="x"))).inputs[0].shape == (3,)


def test_output_names():
    zebra, apple = swapped()
    model = keras.Model(
        [zebra, apple], [layers.Dense(3, name="zeta")(zebra), layers.Dense(2, name="alpha")(apple)]
    )
    outputs = model([np.zeros((1, 5)), np.zeros((1, 7))])
    assert output_names(model, outputs) == ["zeta", "alpha"]
    named = {"second": outputs[0], "first": outputs[1]}
    flat = [tuple(tensor.shape) for tensor in keras.tree.flatten(named)]
    names = output_names(model, named)
    assert {name: tuple(named[name].shape) for name in names} == dict(zip(names, flat, strict=True))
    assert output_names(Doubling(), [1, (2, 3)]) == ["output_0", "output_1", "output_2"]
    twice = keras.Model(zebra, [layer := layers.Dense(2, name="same")(zebra), layer])
    assert len(set(output_names(twice, twice(np.zeros((1, 5)))))) == 2
