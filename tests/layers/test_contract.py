"""What every layer must do, whatever it computes: one test for each promise, over the table of all layers."""

import inspect
import json

import keras
import numpy as np
import pytest
from cases import CASES
from contract import assert_close
from contract import check_gradients
from contract import float64
from contract import gradients
from contract import mixed_mask
from contract import normal
from contract import to_numpy
from contract import weighted_sum

import keras_attention

BASE_ARGUMENTS = {"self", "kwargs"}
BACKEND = keras.config.backend()


FIRST = {case.cls: case for case in reversed(CASES)}.values()
"""One case of each layer; the others are slow together."""


def is_first(case):
    """Whether the case stands for its layer in the quick tests."""
    return any(case is first for first in FIRST)


def row(case, *more):
    """A parameter of a test."""
    marks = () if is_first(case) else pytest.mark.slow
    return pytest.param(case, *more, marks=marks, id="-".join([str(case), *("+".join(m) for m in more)]))


@pytest.fixture(params=[row(case) for case in CASES])
def case(request):
    return request.param


def build(case, layer, inputs):
    """Builds the layer by its inputs' shapes alone."""
    layer.build(*[x.shape for x in inputs])
    return layer


def randomized(case, rng, inputs, **config):
    """A built layer with random weights, biases too, and the weights by path in float64."""
    layer = build(case, case.make(**config), inputs)
    trainable = {w.path for w in layer.trainable_weights}
    for weight in layer.weights:
        if weight.path in trainable:
            weight.assign(normal(rng, *weight.shape) * 0.3)
    root = len(layer.path.split("/")) if hasattr(layer, "path") else 1
    return layer, {"/".join(w.path.split("/")[root:]): np.float64(w.numpy()) for w in layer.weights}


def symbols_of(case, inputs, unknown=False):
    """Symbolic inputs, of known sizes or with as many unknown ones as the layer allows."""
    symbols = []
    for index, x in enumerate(inputs):
        shape = [
            n if not unknown or a == x.ndim - 1 or (index, a) in case.known_axes else None
            for a, n in enumerate(x.shape)
        ][1:]
        symbols.append(keras.Input(tuple(shape), dtype=str(x.dtype)))
    return symbols


def test_every_public_layer_is_in_the_table():
    names = {n for n in keras_attention.__all__ if inspect.isclass(getattr(keras_attention, n))}
    layers = {n for n in names if issubclass(getattr(keras_attention, n), keras.layers.Layer)}
    assert layers == {case.cls.__name__ for case in CASES}


def test_config(case):
    layer = case.make(name="layer")
    arguments = set(inspect.signature(case.cls.__init__).parameters) - BASE_ARGUMENTS
    assert arguments <= set(layer.get_config()), arguments - set(layer.get_config())
    revived = case.cls.from_config(json.loads(json.dumps(layer.get_config())))
    assert revived.get_config() == layer.get_config()
    assert set(vars(revived)) == set(vars(layer))
    serialized = keras.saving.serialize_keras_object(layer)
    assert serialized["registered_name"] == f"keras_attention>{case.cls.__name__}"
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    assert type(again) is case.cls and again.get_config() == layer.get_config()


def test_misspelt_arguments_are_refused(case):
    with pytest.raises((TypeError, ValueError), match="no_such_argument"):
        case.make(no_such_argument=1)


def test_build_makes_all_weights(case, rng):
    inputs = case.make_inputs(rng)
    layer = case.make()
    before = layer.get_config()
    build(case, layer, inputs)
    assert len(layer.trainable_weights) == case.num_weights
    variables = [w for w in layer.non_trainable_weights if "seed" not in w.path]
    assert len(variables) == case.num_frozen
    paths = [w.path for w in layer.weights]
    assert len(set(paths)) == len(paths)
    case.call_layer(layer, inputs)
    assert [w.path for w in layer.weights] == paths, "a call creates no weights"
    assert layer.get_config() == before, "build and call leave the arguments alone"


def test_call_builds_the_same(case, rng):
    inputs = case.make_inputs(rng)
    layer = case.make(name="layer")
    case.call_layer(layer, inputs)
    built = build(case, case.make(name="layer"), inputs)
    assert [(w.path, w.shape) for w in layer.weights] == [(w.path, w.shape) for w in built.weights]


def test_shapes_and_dtypes(case, rng):
    inputs = case.make_inputs(rng)
    layer = case.make()
    results = case.call_layer(layer, inputs)
    expected = [case.output_shape, *([case.scores_shape] if case.scores_shape else [])]
    expected += case.more_scores_shapes
    assert [tuple(x.shape) for x in results] == expected
    assert tuple(case.call_output(layer, inputs).shape) == case.output_shape
    assert tuple(layer.compute_output_shape(*[x.shape for x in inputs])) == case.output_shape
    symbols = [keras.Input(batch_shape=x.shape, dtype=str(x.dtype)) for x in inputs]
    for symbolic, eager in zip(case.call_layer(layer, symbols), results, strict=True):
        assert symbolic.shape == tuple(eager.shape)
        assert symbolic.dtype == keras.backend.standardize_dtype(eager.dtype) == "float32"


def test_unknown_sizes(case, rng):
    inputs = case.make_inputs(rng)
    layer, _ = randomized(case, rng, inputs)
    symbols = symbols_of(case, inputs, unknown=True)
    results = case.call_layer(layer, symbols)
    assert all(x.shape[0] is None for x in results)
    model = keras.Model(symbols, list(results))
    longer = [
        np.concatenate([x, x], axis=-2) if x.ndim > 2 and (i, x.ndim - 2) not in case.known_axes else x
        for i, x in enumerate(inputs)
    ]
    for batch in (inputs, longer, [x[:1] for x in inputs]):
        assert_close(model.predict_on_batch(batch), list(case.call_layer(layer, batch)))


def test_samples_do_not_meet(case, rng):
    inputs = case.make_inputs(rng, batch=4)
    masks = {n: m for n, m in case.masks.items() if m == () or m[0] == case.shapes[0][0]}
    masks = {n: mixed_mask(rng, 4, *m[1:]) if m else True for n, m in masks.items()}
    layer, _ = randomized(case, rng, inputs)

    def outputs(start, stop):
        part = {n: m if m is True else m[start:stop] for n, m in masks.items()}
        return [to_numpy(x) for x in case.call_layer(layer, [x[start:stop] for x in inputs], **part)]

    alone = zip(*(outputs(index, index + 1) for index in range(4)), strict=True)
    for together, each in zip(outputs(0, 4), map(np.concatenate, alone), strict=True):
        np.testing.assert_allclose(together, each, atol=1e-5 * max(1.0, np.abs(each).max()))


def test_the_mask_goes_on(case, rng):
    first, *rest = case.make_inputs(rng)
    if first.ndim < 3:
        pytest.skip("a vector carries no mask of positions")
    assert case.make().supports_masking
    first[0, -2:] = 0
    if first.ndim == 3:
        first = keras.layers.Masking()(first)
    else:
        mask = np.any(first != 0, axis=-1)
        first = keras.ops.convert_to_tensor(first)
        first._keras_mask = keras.ops.convert_to_tensor(mask)
    assert not to_numpy(first._keras_mask).all()
    output = case.call_output(case.make(), [first, *rest])
    mask = getattr(output, "_keras_mask", None)
    if case.passes_mask:
        assert np.array_equal(to_numpy(mask), to_numpy(first._keras_mask))
    else:
        assert mask is None


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_float16", 0.01), ("mixed_bfloat16", 0.08)], ids=["float16", "bfloat16"]
)
def test_mixed_precision(case, rng, policy, tolerance):
    inputs = case.make_inputs(rng)
    layer = build(case, case.make(), inputs)
    expected = to_numpy(case.call_layer(layer, inputs))
    mixed = build(case, case.make(dtype=policy), inputs)
    mixed.set_weights(layer.get_weights())
    for actual, wanted in zip(case.call_layer(mixed, inputs), expected, strict=True):
        assert keras.backend.standardize_dtype(actual.dtype) == policy.removeprefix("mixed_")
        actual = to_numpy(keras.ops.cast(actual, "float32"))
        np.testing.assert_allclose(actual, wanted, atol=tolerance * np.abs(wanted).max())
    assert all(w.dtype == "float32" for w in mixed.trainable_weights)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_low_precision_stays_finite(case, rng, policy):
    inputs = [x * 300 if x.dtype == np.float32 else x for x in case.make_inputs(rng)]
    layer = case.make(dtype=policy)
    for masks in ({}, case.make_masks(rng, tuple(case.masks))):
        for tensor in (*case.call_layer(layer, inputs, **masks), case.call_output(layer, inputs, **masks)):
            assert np.all(np.isfinite(to_numpy(keras.ops.cast(tensor, "float32"))))


def test_extreme_inputs_stay_finite(case, rng):
    inputs = [x * np.float32(1e9) if x.dtype == np.float32 else x for x in case.make_inputs(rng)]
    layer = build(case, case.make(), inputs)
    factors = normal(rng, *case.output_shape)
    floats = [i for i, x in enumerate(inputs) if x.dtype == np.float32]

    def total(*tensors):
        given = list(inputs)
        for index, tensor in zip(floats, tensors, strict=True):
            given[index] = tensor
        return weighted_sum(case.call_output(layer, given), factors)

    for tensor in case.call_layer(layer, inputs):
        assert np.all(np.isfinite(to_numpy(tensor)))
    for gradient in gradients(total, [inputs[i] for i in floats]):
        assert np.all(np.isfinite(gradient))


def test_saving(case, rng, tmp_path):
    inputs = case.make_inputs(rng)
    layer, _ = randomized(case, rng, inputs)
    symbols = symbols_of(case, inputs)
    model = keras.Model(symbols, list(case.call_layer(layer, symbols)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert any(type(x) is case.cls and x is not layer for x in loaded.layers)
    assert_close(loaded(inputs), model(inputs), atol=0, rtol=0)


def test_training_moves_every_weight(case, rng):
    inputs = case.make_inputs(rng)
    layer = case.make()
    symbols = symbols_of(case, inputs)
    # a layer behind it, so that there is something to train even where the layer has no weights
    output = keras.layers.Dense(1)(case.call_output(layer, symbols))
    model = keras.Model(symbols, output)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    trainable = {w.path: np.array(w.numpy()) for w in model.trainable_weights}
    frozen = {w.path: np.array(w.numpy()) for w in model.non_trainable_weights if "seed" not in w.path}
    target = np.random.default_rng(5).normal(size=(len(inputs[0]), *output.shape[1:])).astype("float32")
    assert np.isfinite(model.train_on_batch(inputs, target))
    for weight in model.weights:
        if weight.path in frozen:
            is_equal = np.array_equal(weight.numpy(), frozen[weight.path])
            assert is_equal != (bool(case.moving) and weight.path.endswith(case.moving)), weight.path
        if weight.path not in trainable:
            continue
        change = np.abs(weight.numpy() - trainable[weight.path]).max()
        assert np.isfinite(change)
        if case.unmoved and weight.path.endswith(case.unmoved):
            assert change < 1e-5, f"{weight.path} moved"
        else:
            assert change > 1e-7, f"{weight.path} did not move"


WITH_MASKS = [
    row(case, names)
    for case in CASES
    for names in (case.mask_sets if is_first(case) else dict.fromkeys([(), case.mask_sets[-1]]))
]


@pytest.mark.parametrize(("case", "names"), WITH_MASKS)
def test_numpy_reference(case, names, rng):
    assert case.reference is not None, "every layer is written a second time, in NumPy"
    inputs = case.make_inputs(rng)
    masks = case.make_masks(rng, names)
    layer, weights = randomized(case, rng, inputs)
    expected = case.reference(
        *[np.float64(x) if x.dtype == np.float32 else x for x in inputs],
        weights=weights,
        config=case.make_config(),
        **case.call,
        **masks,
    )
    expected = expected if isinstance(expected, tuple) else (expected,)
    actual = case.call_layer(layer, inputs, **masks)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        scale = max(1.0, float(np.abs(e).max()))
        e = np.float32(np.reshape(e, a.shape)) if np.prod(a.shape) == np.size(e) else np.float32(e)
        assert_close(a, e, atol=1e-5 * scale)
    # without scores a backend may compute by another way: the same numbers
    assert_close(case.call_output(layer, inputs, **masks), actual[0], atol=1e-5 * scale)


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_numerical_gradients(case, rng, masked):
    if masked and not case.masks:
        pytest.skip("the layer takes no mask")
    inputs = [np.float64(x) if x.dtype == np.float32 else x for x in case.make_inputs(rng)]
    masks = case.make_masks(rng, tuple(case.masks) if masked else ())
    factors = rng.normal(size=case.output_shape)
    floats = [i for i, x in enumerate(inputs) if x.dtype == np.float64]
    with float64():
        layer, _ = randomized(case, rng, inputs, dtype="float64")
        frozen = [v.value for v in layer.non_trainable_variables]
        moving = [w for w in layer.trainable_variables if not w.path.endswith(case.unmoved or ("\0",))]
        fixed = {w.path: w.value for w in layer.trainable_variables}

        def total(*tensors):
            given = list(inputs)
            for index, tensor in zip(floats, tensors, strict=False):
                given[index] = tensor
            values = dict(fixed)
            values.update({w.path: t for w, t in zip(moving, tensors[len(floats) :], strict=True)})
            output, _ = layer.stateless_call(
                [values[w.path] for w in layer.trainable_variables], frozen, *given, **case.call, **masks
            )
            return weighted_sum(output, factors)

        arrays = [inputs[i] for i in floats] + [np.float64(w.numpy()) for w in moving]
        check_gradients(total, arrays, case.gradient_tolerance)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_nothing_to_attend_to_gives_zeros(case, rng, training):
    if not case.keys_masked_by:
        pytest.skip("the layer masks no keys")
    inputs = case.make_inputs(rng)
    layer = build(case, case.make(), inputs)  # fresh biases are zero
    for name in case.keys_masked_by:
        mask = np.ones(case.masks[name], bool)
        mask[0] = False
        arguments = {name: mask}
        if "training" in inspect.signature(layer.call).parameters:
            arguments["training"] = training
        output = case.call_output(layer, inputs, **arguments)
        for index, tensor in enumerate((output, *case.call_layer(layer, inputs, **arguments))):
            tensor = to_numpy(tensor)
            assert np.all(np.isfinite(tensor)), name
            assert np.any(tensor[1] != 0), name
            if index == 2 or case.is_zero_when_masked:
                assert np.all(tensor[0] == 0), name
