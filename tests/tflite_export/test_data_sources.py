"""Whatever holds the samples, the same samples come out of it as out of the array."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention.tflite.data import gathered as limits
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.model_signature import declared_inputs
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.samples import check_samples
from keras_attention.tflite.samples import gather

COUNT = 13
ONE = ModelSignature((TensorSpec("window", (11, 3), "float32"),), 0)
TWO = ModelSignature((TensorSpec("zebra", (5,), "float32"), TensorSpec("tokens", (7,), "int32")), [0, 1])
NUMBER = ModelSignature((TensorSpec("x", (1,), "float32"),), 0)

RNG = np.random.default_rng(20261130)
WINDOWS = RNG.normal(size=(COUNT, 11, 3)).astype(np.float32)
ZEBRAS = RNG.normal(size=(COUNT, 5)).astype(np.float32)
TOKENS = RNG.integers(0, 100, (COUNT, 7))
LABELS = RNG.integers(0, 5, COUNT)


def check(data, signature=ONE, argument="calibration"):
    return check_samples(argument, data, signature, spread=False)


def batches(*arrays, size=4):
    """Yield tuples of batches, the last of them smaller."""
    assert COUNT % size, "the last batch must be smaller"
    for start in range(0, COUNT, size):
        yield tuple(array[start : start + size] for array in arrays)


class Sequence(keras.utils.PyDataset):
    def __init__(self, with_targets):
        super().__init__()
        self.parts = list(batches(WINDOWS, LABELS) if with_targets else batches(WINDOWS))

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        part = self.parts[index]
        return part if len(part) == 2 else part[0]


class MapStyle:
    """Only `__getitem__` and `__len__`, as torch's data sets have it."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return WINDOWS[index], LABELS[index]


def reusing_one_buffer():
    buffer = np.empty((11, 3), np.float32)
    for window in WINDOWS:
        buffer[:] = window
        yield buffer


# --- one input: kind -> (the data, whether targets come along)
KINDS = {
    "generator_of_samples": (lambda: (window for window in WINDOWS), False),
    "iterator": (lambda: iter(WINDOWS), False),
    "generator_of_batches": (lambda: (batch for (batch,) in batches(WINDOWS)), False),
    "generator_of_one_buffer": (reusing_one_buffer, False),
    "stock_habit": (lambda: ([window[None]] for window in WINDOWS), False),
    "stock_function": (lambda: lambda: ([window[None]] for window in WINDOWS), False),
    "function_of_array": (lambda: lambda: WINDOWS, False),
    "dicts": (lambda: ({"window": window} for window in WINDOWS), False),
    "list_of_dicts": (lambda: [{"window": window} for window in WINDOWS], False),
    "dicts_of_batches_and_targets": (lambda: (({"window": x}, y) for x, y in batches(WINDOWS, LABELS)), True),
    "pairs": (lambda: zip(WINDOWS, LABELS, strict=True), True),
    "pairs_with_int_targets": (lambda: zip(WINDOWS, LABELS.tolist(), strict=True), True),
    "list_of_pairs": (lambda: list(zip(WINDOWS, LABELS, strict=True)), True),
    "batches_of_pairs": (lambda: batches(WINDOWS, LABELS), True),
    "weighted": (lambda: batches(WINDOWS, LABELS, np.ones(COUNT)), True),
    "loader_lists": (lambda: ([x, y] for x, y in batches(WINDOWS, LABELS)), True),
    "nested_numbers": (lambda: (window.tolist() for window in WINDOWS), False),
    "nested_numbers_and_targets": (
        lambda: ((w.tolist(), int(y)) for w, y in zip(WINDOWS, LABELS, strict=True)),
        True,
    ),
    "tf_data": (lambda: tf.data.Dataset.from_tensor_slices(WINDOWS), False),
    "tf_data_batched": (lambda: tf.data.Dataset.from_tensor_slices(WINDOWS).batch(4), False),
    "tf_data_pairs": (lambda: tf.data.Dataset.from_tensor_slices((WINDOWS, LABELS)), True),
    "tf_data_pairs_batched": (lambda: tf.data.Dataset.from_tensor_slices((WINDOWS, LABELS)).batch(4), True),
    "tf_data_dicts": (lambda: tf.data.Dataset.from_tensor_slices({"window": WINDOWS}).batch(4), False),
    "py_dataset": (lambda: Sequence(False), False),
    "py_dataset_pairs": (lambda: Sequence(True), True),
    "map_style": (MapStyle, True),
    "tensor": (lambda: tf.constant(WINDOWS), False),
    "list_of_tensors": (lambda: [tf.constant(window) for window in WINDOWS], False),
    "tensors": (lambda: (tf.constant(window) for window in WINDOWS), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_one_input(kind):
    make, with_targets = KINDS[kind]
    samples = check(make())
    np.testing.assert_array_equal(samples.inputs["window"], WINDOWS)
    assert samples.inputs["window"].dtype == np.float32
    if with_targets:
        np.testing.assert_array_equal(samples.targets, LABELS)
    else:
        assert samples.targets is None
    assert bool(samples.remarks) == (kind == "weighted")


TWO_KINDS = {
    "lists": lambda: ([z, t] for z, t in zip(ZEBRAS, TOKENS, strict=True)),
    "stock_habit": lambda: ([z[None], t[None]] for z, t in zip(ZEBRAS, TOKENS, strict=True)),
    "tuples_of_batches": lambda: batches(ZEBRAS, TOKENS),
    "dicts_in_another_order": lambda: ({"tokens": t, "zebra": z} for z, t in batches(ZEBRAS, TOKENS)),
    "lists_and_targets": lambda: (([z, t], y) for z, t, y in batches(ZEBRAS, TOKENS, LABELS)),
    "dicts_and_targets": lambda: (
        ({"zebra": z, "tokens": t}, y) for z, t, y in batches(ZEBRAS, TOKENS, LABELS)
    ),
    "flat_with_targets": lambda: (list(part) for part in batches(ZEBRAS, TOKENS, LABELS)),
    "tf_data": lambda: tf.data.Dataset.from_tensor_slices(
        ({"zebra": ZEBRAS, "tokens": TOKENS}, LABELS)
    ).batch(4),
}


@pytest.mark.parametrize("kind", TWO_KINDS)
def test_kinds_of_two_inputs(kind):
    samples = check(TWO_KINDS[kind](), TWO)
    assert list(samples.inputs) == ["zebra", "tokens"]
    np.testing.assert_array_equal(samples.inputs["zebra"], ZEBRAS)
    np.testing.assert_array_equal(samples.inputs["tokens"], TOKENS)
    if "targets" in kind or kind == "tf_data":
        np.testing.assert_array_equal(samples.targets, LABELS)
    else:
        assert samples.targets is None


@pytest.mark.parametrize("kind", ["array", "samples", "loader", "bfloat16"])
def test_torch(kind):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(WINDOWS, requires_grad=kind == "array")
    data = {
        "array": tensor,
        "samples": (sample for sample in tensor),
        "loader": torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(tensor, torch.tensor(LABELS)), batch_size=4
        ),
        "bfloat16": tensor.to(torch.bfloat16),
    }[kind]
    samples = check(data)
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS, rtol=0.01 if kind == "bfloat16" else 0)
    if kind == "loader":
        np.testing.assert_array_equal(samples.targets, LABELS)


def test_jax():
    jax = pytest.importorskip("jax")
    array = jax.numpy.asarray(WINDOWS)
    np.testing.assert_array_equal(check(array).inputs["window"], WINDOWS)
    np.testing.assert_array_equal(check(row for row in array).inputs["window"], WINDOWS)
    np.testing.assert_allclose(check(array.astype("bfloat16")).inputs["window"], WINDOWS, rtol=0.01)


@pytest.mark.parametrize("kind", ["array", "list", "dict"])
def test_a_subclassed_model_gets_the_form_of_the_elements(kind):
    elements = {
        "array": ((z, y) for z, y in batches(ZEBRAS, LABELS)),
        "list": ([z, t] for z, t in batches(ZEBRAS, TOKENS)),
        "dict": ({"zebra": z, "tokens": t} for z, t in batches(ZEBRAS, TOKENS)),
    }[kind]
    found = gather("evaluation", elements, None)
    if kind == "array":
        np.testing.assert_array_equal(found.inputs, ZEBRAS)
        np.testing.assert_array_equal(found.targets, LABELS)
        return
    first, second = found.inputs if kind == "list" else (found.inputs["zebra"], found.inputs["tokens"])
    np.testing.assert_array_equal(first, ZEBRAS)
    np.testing.assert_array_equal(second, TOKENS)


def test_sizes_that_a_model_leaves_open_come_from_the_stream():
    inputs = keras.Input((None, 3), name="window")
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(inputs))
    declared = declared_inputs(model)
    assert declared[0].shape == (None, 3)
    found = gather("calibration", (window for window in WINDOWS), declared)
    signature = read_signature(model, found.inputs)
    assert signature.inputs[0].shape == (11, 3)
    np.testing.assert_array_equal(check(found, signature).inputs["window"], WINDOWS)
    assert declared_inputs(model, {"window": (7, 3)})[0].shape == (7, 3)


@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=20).filter(sum))
@settings(deadline=None, max_examples=60)
def test_order_and_content_survive_any_batching(sizes):
    numbers = np.arange(sum(sizes), dtype=np.float32)[:, None]
    ends = np.cumsum(sizes)
    parts = [
        (numbers[end - size : end], numbers[end - size : end, 0])
        for size, end in zip(sizes, ends, strict=True)
    ]
    samples = check(iter(parts), NUMBER)
    np.testing.assert_array_equal(samples.inputs["x"], numbers)
    np.testing.assert_array_equal(samples.targets, numbers[:, 0])


# --- how many are kept


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CALIBRATION_SAMPLES", 8)
    monkeypatch.setattr(limits, "MAX_EVALUATION_SAMPLES", 12)


@given(count=st.integers(1, 200), size=st.integers(1, 50), most=st.integers(1, 16))
@settings(deadline=None, max_examples=100)
def test_a_stream_is_cut_evenly(count, size, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_CALIBRATION_SAMPLES", most)
        numbers = np.arange(count, dtype=np.float32)[:, None]
        samples = check((numbers[start : start + size] for start in range(0, count, size)), NUMBER)
    kept = samples.inputs["x"][:, 0]
    assert kept[0] == 0
    assert len(kept) == count if count <= most else most / 2 <= len(kept) <= most
    assert len(set(np.diff(kept))) <= 1, "one distance"
    assert len(samples.remarks) == (len(kept) < count or count >= 8 * most)


@pytest.mark.parametrize(("argument", "kept", "read"), [("calibration", 8, 64), ("evaluation", 12, 96)])
def test_an_endless_generator_ends(small_limits, argument, kept, read):
    drawn = itertools.count()
    samples = check((np.float32([next(drawn)]) for _ in itertools.count()), NUMBER, argument)
    assert next(drawn) == read, "reading stops at eight times of what is kept"
    np.testing.assert_array_equal(samples.inputs["x"][:, 0], np.arange(0, read, 8))
    assert len(samples) == kept
    assert samples.remarks == (
        f"`{argument}` went on after {read} samples, where reading stops: {kept} of these, evenly spread, "
        "are used.",
    )


def test_an_endless_data_set_ends(small_limits):
    data = tf.data.Dataset.from_tensor_slices(WINDOWS).batch(5).repeat()
    assert len(check(data)) <= 8


def test_arrays_are_cut_evenly(small_limits):
    numbers = np.arange(29, dtype=np.float32)[:, None]
    samples = check((numbers, numbers[:, 0]), NUMBER)
    np.testing.assert_array_equal(samples.inputs["x"][:, 0], [0, 4, 8, 12, 16, 20, 24, 28])
    np.testing.assert_array_equal(samples.targets, samples.inputs["x"][:, 0])
    assert samples.remarks == ("`calibration`: 8 of 29 samples, evenly spread, are used.",)


def test_the_limits_are_those_that_the_pages_name():
    assert limits.MAX_CALIBRATION_SAMPLES == 1024
    assert limits.MAX_EVALUATION_SAMPLES == 10_000
    assert limits.READ_FACTOR == 8


# --- once more, or not at all


def test_a_function_starts_anew_and_a_generator_does_not():
    def start():
        return (window for window in WINDOWS)

    for _ in range(2):
        np.testing.assert_array_equal(check(start).inputs["window"], WINDOWS)
    generator = start()
    check(generator)
    with pytest.raises(
        ValueError, match=r"`evaluation` yields no sample.*function that returns one.*evaluation=lambda"
    ):
        check(generator, argument="evaluation")


@pytest.mark.parametrize("empty", [iter(()), tf.data.Dataset.from_tensor_slices(WINDOWS[:0]), lambda: (), []])
def test_nothing_is_refused(empty):
    with pytest.raises(ValueError, match="`calibration`"):
        check(empty)


def test_an_error_of_the_generator_is_the_users_own():
    def broken():
        yield WINDOWS[0]
        raise ZeroDivisionError("in the user's code")

    with pytest.raises(ZeroDivisionError, match="user's code"):
        check(broken())


FAULTY = {
    "wrong_width": (
        lambda: (w[:, :2] for w in WINDOWS),
        ONE,
        ValueError,
        r"element 0, input 'window'.*\(11, 2\)",
    ),
    "wrong_later": (
        lambda: iter([WINDOWS[0], WINDOWS[1][:7]]),
        ONE,
        ValueError,
        r"element 1, input 'window'.*shape \(11, 3\).*Received: shape=\(7, 3\)",
    ),
    "too_many_axes": (lambda: iter([WINDOWS[None]]), ONE, ValueError, r"element 0.*shape=\(1, 13, 11, 3\)"),
    "wrong_name": (
        lambda: iter([{"windo": WINDOWS}]),
        ONE,
        ValueError,
        r"element 0.*\['window'\].*\['windo'\]",
    ),
    "text": (lambda: iter(["a", "b"]), ONE, TypeError, "element 0, input 'window'.*dtype=<U1"),
    "none": (lambda: iter([None]), ONE, TypeError, "element 0, input 'window'.*dtype=object"),
    "too_few_inputs": (
        lambda: iter([[ZEBRAS]]),
        TWO,
        ValueError,
        r"one array for each.*\['zebra', 'tokens'\]",
    ),
    "uneven": (lambda: iter([[ZEBRAS, TOKENS[:3]]]), TWO, ValueError, "'zebra': 13, 'tokens': 3"),
    "mixed": (lambda: iter([[ZEBRAS, TOKENS[0]]]), TWO, ValueError, "mixes single samples and batches"),
    "targets_short": (lambda: iter([(WINDOWS, LABELS[:3])]), ONE, ValueError, "'window': 13, 'targets': 3"),
    "targets_of_several_outputs": (
        lambda: iter([(WINDOWS, {"a": LABELS})]),
        ONE,
        TypeError,
        "targets must be one array. Received: dict",
    ),
    "targets_sometimes": (
        lambda: iter([(WINDOWS, LABELS), WINDOWS]),
        ONE,
        ValueError,
        "elements of one kind",
    ),
    "targets_beside": (
        lambda: ((w for w in WINDOWS), LABELS),
        ONE,
        TypeError,
        r"let it yield \(inputs, targets\)",
    ),
    "nan": (lambda: iter([WINDOWS, WINDOWS * np.nan]), ONE, ValueError, "NaN or infinite.*sample 13"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_elements_are_named(name):
    make, signature, kind, message = FAULTY[name]
    with pytest.raises(kind, match="`calibration`.*" + message):
        check(make(), signature)
