"""What users hand over as samples: taken where it is clear, refused with a cure where it is not."""

import re

import numpy as np
import pytest

from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.samples import Samples
from keras_attention.tflite.samples import check_samples

ONE = ModelSignature((TensorSpec("window", (11, 3), "float32"),), 0)
TWO = ModelSignature((TensorSpec("zebra", (5,), "float32"), TensorSpec("tokens", (7,), "int32")), [0, 1])


def windows(count=13, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 11, 3)).astype(np.float32)


def tokens(count=13):
    return np.random.default_rng(1).integers(0, 100, (count, 7))


def zebras(count=13):
    return np.random.default_rng(2).normal(size=(count, 5)).astype(np.float32)


def check(data, signature=ONE, *, argument="calibration", spread=True):
    return check_samples(argument, data, signature, spread=spread)


def changed(index, value, dtype=np.float32):
    values = windows().astype(dtype)
    values[index] = value
    return values


# --- what is taken


@pytest.mark.parametrize("form", ["array", "list", "dict", "nested", "tuple_of_one"])
def test_forms_of_one_input(form):
    values = windows()
    data = {
        "array": values,
        "list": [values],
        "dict": {"window": values},
        "nested": values.tolist(),
        "tuple_of_one": (values,),
    }[form]
    samples = check(data)
    assert list(samples.inputs) == ["window"] and samples.targets is None and len(samples) == 13
    np.testing.assert_array_equal(samples.inputs["window"], values)
    assert samples.inputs["window"].dtype == np.float32


@pytest.mark.parametrize("form", ["list", "dict", "dict_in_another_order"])
def test_forms_of_two_inputs(form):
    data = {
        "list": [zebras(), tokens()],
        "dict": {"zebra": zebras(), "tokens": tokens()},
        "dict_in_another_order": {"tokens": tokens(), "zebra": zebras()},
    }[form]
    samples = check(data, TWO)
    assert list(samples.inputs) == ["zebra", "tokens"], "in the order of the model"
    np.testing.assert_array_equal(samples.inputs["tokens"], tokens())
    assert samples.inputs["tokens"].dtype == np.int32


@pytest.mark.parametrize("inputs", [[zebras(), tokens()], {"zebra": zebras(), "tokens": tokens()}])
def test_targets_come_along(inputs):
    targets = np.arange(13)
    samples = check((inputs, targets), TWO)
    np.testing.assert_array_equal(samples.targets, targets)
    assert check((inputs, targets.tolist()), TWO).targets.shape == (13,)
    assert check((inputs, None), TWO).targets is None


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (windows().astype(np.float64), "float32"),
        (windows().astype(np.float16), "float32"),
        ((windows() * 50 + 128).astype(np.uint8), "float32"),
        ((windows() * 1000).astype(np.int64), "float32"),
        (windows() > 0, "float32"),
    ],
    ids=["float64", "float16", "uint8", "int64", "bool"],
)
def test_types_that_convert_without_loss(values, dtype):
    got = check(values).inputs["window"]
    assert got.dtype == dtype and got.flags.c_contiguous
    np.testing.assert_allclose(got, values, rtol=1e-6)
    assert got.max() > got.min()


def test_whole_floats_for_integers():
    data = {"zebra": zebras(), "tokens": tokens().astype(np.float64)}
    np.testing.assert_array_equal(check(data, TWO).inputs["tokens"], tokens())


def test_the_users_array_is_not_touched():
    values = windows().astype(np.float64)
    before = values.copy()
    got = check(values).inputs["window"]
    got[:] = 0.0
    np.testing.assert_array_equal(values, before)


def test_constants_are_fine_for_evaluation_and_for_integers():
    assert len(check(np.full((13, 11, 3), 2.5), argument="evaluation", spread=False)) == 13
    assert len(check([zebras(), np.full((13, 7), 3)], TWO)) == 13


# --- what is refused: (data, signature, error, fragments of the message)

REFUSED = {
    "wrong_name": (
        {"windo": windows()},
        ONE,
        ValueError,
        ["`calibration`", "['window']", "Received: ['windo']", "Rename 'windo' to 'window'"],
    ),
    "missing_name": (
        {"zebra": zebras()},
        TWO,
        ValueError,
        ["`calibration` must name the model's inputs ['zebra', 'tokens']", "Received: ['zebra']"],
    ),
    "extra_name": (
        {"zebra": zebras(), "tokens": tokens(), "label": tokens()},
        TWO,
        ValueError,
        ["['zebra', 'tokens']", "'label'"],
    ),
    "too_few_arrays": (
        [zebras()],
        TWO,
        ValueError,
        ["one array for each of the 2 inputs ['zebra', 'tokens']", "Received: 1 arrays"],
    ),
    "too_many_arrays": ([windows(), windows(), windows()], ONE, ValueError, ["Received: 3 arrays"]),
    "one_array_for_two_inputs": (
        zebras(),
        TWO,
        ValueError,
        ["must be a list or dict of arrays", "['zebra', 'tokens']", "Received: ndarray"],
    ),
    "tuple_of_two_inputs": (
        (zebras(), tokens()),
        TWO,
        ValueError,
        ["must be a list or dict of arrays", "['zebra', 'tokens']"],
    ),
    "wrong_shape": (
        windows()[:, :, :2],
        ONE,
        ValueError,
        [
            "`calibration`, input 'window'",
            "shape (11, 3), so the array (samples, 11, 3)",
            "shape=(13, 11, 2)",
        ],
    ),
    "swapped_axes": (
        windows().transpose(0, 2, 1),
        ONE,
        ValueError,
        ["each sample must have shape (11, 3)", "Received: shape=(13, 3, 11)"],
    ),
    "one_sample": (
        windows()[0],
        ONE,
        ValueError,
        ["input 'window'", "Received: shape=(11, 3)", "pass array[None]"],
    ),
    "no_sample": (
        windows()[:0],
        ONE,
        ValueError,
        ["input 'window'", "holds no sample", "shape=(0, 11, 3)", "at least one"],
    ),
    "nan": (
        changed((7, 2, 1), np.nan),
        ONE,
        ValueError,
        ["`calibration`, input 'window'", "NaN or infinite", "sample 7", "Remove or repair"],
    ),
    "inf": (changed((5, 0, 0), np.inf), ONE, ValueError, ["NaN or infinite", "sample 5"]),
    "minus_inf_in_float64": (
        changed((3, 0, 0), -np.inf, np.float64),
        ONE,
        ValueError,
        ["NaN or infinite", "sample 3"],
    ),
    "nan_for_integers": (
        {"zebra": zebras(), "tokens": np.where(tokens() > 90, np.nan, tokens())},
        TWO,
        ValueError,
        ["input 'tokens'", "NaN or infinite"],
    ),
    "too_large_for_float32": (
        changed((2, 0, 0), 1e300, np.float64),
        ONE,
        (TypeError, ValueError),
        ["`calibration`, input 'window'", "float32"],
    ),
    "constants": (
        np.full((13, 11, 3), 0.5, np.float32),
        ONE,
        ValueError,
        ["`calibration`, input 'window'", "every value is 0.5", "recordings as the app will see them"],
    ),
    "floats_for_integers": (
        {"zebra": zebras(), "tokens": tokens() + 0.5},
        TWO,
        TypeError,
        ["`calibration`, input 'tokens'", "int32 can represent", "Received: dtype=float64"],
    ),
    "integers_too_large": (
        {"zebra": zebras(), "tokens": tokens() + 2**40},
        TWO,
        TypeError,
        ["input 'tokens'", "int32 can represent", "dtype=int64"],
    ),
    "int8_for_floats": (
        windows().astype(np.int8),
        ONE,
        TypeError,
        ["input 'window'", "must be float32", "Received: int8", "before any quantization"],
    ),
    "text": (
        np.full((13, 11, 3), "a"),
        ONE,
        TypeError,
        ["input 'window'", "numbers that convert to float32", "dtype=<U1"],
    ),
    "complex": (windows() * 1j, ONE, TypeError, ["input 'window'", "dtype=complex"]),
    "none_inside": (np.full((13, 11, 3), None), ONE, TypeError, ["input 'window'", "dtype=object"]),
    "one_shot_function": (
        lambda x: x,
        ONE,
        TypeError,
        ["`calibration` must be a function without arguments"],
    ),
    "ragged": ([[[1.0] * 3] * 11, [[1.0] * 3] * 5], ONE, TypeError, ["input 'window'", "array of numbers"]),
    "text_alone": (
        "nothing.npz",
        ONE,
        FileNotFoundError,
        ["`calibration`", ".npz, .npy or .csv", "'nothing.npz'"],
    ),
    "different_counts": (
        [zebras(13), tokens(11)],
        TWO,
        ValueError,
        ["different numbers of samples", "{'zebra': 13, 'tokens': 11}"],
    ),
    "targets_too_short": (
        (windows(13), np.arange(11)),
        ONE,
        ValueError,
        ["`calibration` holds 13 samples", "targets have shape (11,)", "a tuple (inputs, targets)"],
    ),
    "target_without_an_axis": (
        (windows(13), 3),
        ONE,
        ValueError,
        ["holds 13 samples", "targets have shape ()"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data, signature, kind, fragments = REFUSED[name]
    with pytest.raises(kind) as caught:
        check(data, signature)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_messages_speak_of_the_argument():
    with pytest.raises(ValueError, match=re.escape("`evaluation`, input 'window'")):
        check(windows()[0], argument="evaluation", spread=False)


def test_a_number_is_no_array_of_samples():
    scalar = ModelSignature((TensorSpec("age", (), "float32"),), 0)
    assert check(np.array([1.0, 2.0]), scalar).inputs["age"].shape == (2,)
    with pytest.raises((TypeError, ValueError), match="`calibration`, input 'age'"):
        check(1.0, scalar)


# --- a choice of samples


def test_take_is_even_and_keeps_first_and_last():
    values = np.arange(1009, dtype=np.float32)[:, None]
    samples = Samples({"x": values, "y": -values}, targets=np.arange(1009))
    taken = samples.take(101)
    assert len(taken) == 101 and taken.inputs["x"].shape == (101, 1)
    chosen = taken.inputs["x"][:, 0]
    assert (chosen[0], chosen[-1]) == (0.0, 1008.0)
    assert set(np.diff(chosen)) <= {10.0, 11.0}
    np.testing.assert_array_equal(taken.inputs["y"][:, 0], -chosen)
    np.testing.assert_array_equal(taken.targets, chosen)
    assert samples.take(1009) is samples
