"""What every layer must do, whatever it computes; and gradients on every backend."""

import contextlib
import inspect
import json

import keras
import numpy as np

BASE_ARGUMENTS = {"self", "kwargs"}
MASKS = [
    (),
    ("query_mask",),
    ("value_mask",),
    ("key_mask",),
    ("attention_mask",),
    ("use_causal_mask",),
    ("query_mask", "value_mask", "key_mask", "attention_mask", "use_causal_mask"),
]


def to_numpy(x):
    """A Keras tensor or a structure of them as NumPy arrays."""
    return keras.tree.map_structure(keras.ops.convert_to_numpy, x)


def assert_close(actual, expected, atol=1e-5, rtol=1e-5):
    """Equal shapes and close values, for one tensor or a tuple of them."""
    actual, expected = keras.tree.flatten(to_numpy(actual)), keras.tree.flatten(to_numpy(expected))
    assert len(actual) == len(expected) > 0
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape, f"shape {a.shape}, expected {e.shape}"
        np.testing.assert_allclose(a, e, atol=atol, rtol=rtol)


def mixed_mask(rng, *shape):
    """A boolean mask that holds both values in every row, the first key always allowed."""
    mask = rng.random(shape) < 0.6
    mask[..., 0], mask[..., -1] = True, False
    assert mask.any() and not mask.all()
    return mask


def normal(rng, *shape):
    """Normal random numbers in float32."""
    return rng.normal(size=shape).astype("float32")


def make_masks(rng, names, batch, query_length, key_length):
    """The named masks, each holding both values; `use_causal_mask` as the argument it is."""
    shapes = {
        "query_mask": (batch, query_length),
        "value_mask": (batch, key_length),
        "key_mask": (batch, key_length),
        "attention_mask": (batch, query_length, key_length),
    }
    return {name: mixed_mask(rng, *shapes[name]) if name in shapes else True for name in names}


@contextlib.contextmanager
def float64():
    """Switches float64 on for JAX, the only backend where it is off."""
    if keras.config.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def gradients(function, arrays):
    """Gradients of the scalar `function(*tensors)` for each of the arrays."""
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tensors = [tf.constant(a) for a in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            result = function(*tensors)
        return [g.numpy() for g in tape.gradient(result, tensors)]
    if backend == "jax":
        import jax

        gradient = jax.jit(jax.grad(function, argnums=tuple(range(len(arrays)))))
        return [np.asarray(g) for g in gradient(*arrays)]
    import torch

    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    return [g.numpy() for g in torch.autograd.grad(function(*tensors), tensors)]


def weighted_sum(output, factors):
    """A scalar in which every value of the output has its own say."""
    return keras.ops.sum(keras.ops.multiply(output, keras.ops.convert_to_tensor(factors, output.dtype)))


def check_gradients(function, arrays):
    """Compares gradients with central differences in random directions, in float64.

    Keras runs some operations in float32 whatever the dtype, except on TensorFlow: hence the wider step and
    tolerance elsewhere.
    """
    is_float64 = keras.config.backend() == "tensorflow"
    step, tolerance = (1e-4, 1e-6) if is_float64 else (1e-2, 1e-2)
    rng = np.random.default_rng(99)

    def unit(x):
        return x / np.linalg.norm(x)

    for index, gradient in enumerate(gradients(function, arrays)):
        assert gradient.dtype == np.float64
        assert np.abs(gradient).max() > 1e-2, "a gradient near zero proves nothing"
        for _ in range(3):
            direction = unit(unit(gradient) + unit(rng.normal(size=gradient.shape)))
            values = []
            for sign in (1, -1):
                moved = [a + sign * step * direction if i == index else a for i, a in enumerate(arrays)]
                values.append(to_numpy(function(*[keras.ops.convert_to_tensor(a, "float64") for a in moved])))
            numerical = (values[0] - values[1]) / (2 * step)
            assert numerical.dtype == np.float64 or not is_float64
            np.testing.assert_allclose((gradient * direction).sum(), numerical, rtol=tolerance)


def check_layer(cls, config, inputs, *, output_shape, scores_shape, num_weights, unmoved=(), tmp_path):
    """Checks the contract of a layer.

    Args:
        cls: Layer class.
        config: Arguments of the constructor.
        inputs: NumPy arrays, `[query, value]` or `[query, value, key]`.
        output_shape: Expected shape of the output.
        scores_shape: Expected shape of the scores.
        num_weights: Expected number of weights.
        unmoved: Ends of paths of weights whose gradient is zero by the mathematics.
        tmp_path: Folder for the saved model.
    """
    shapes = [x.shape for x in inputs]
    layer = _check_config(cls, config)
    _check_build(cls(**config), shapes, num_weights)
    _check_shapes(layer, inputs, output_shape, scores_shape)
    _check_unknown_sizes(layer, inputs)
    _check_masking(layer, inputs)
    _check_mixed_precision(cls, config, layer, inputs)
    _check_saving(layer, inputs, tmp_path)
    _check_training(layer, inputs, unmoved)


def _check_config(cls, config):
    layer = cls(**config, name="layer")
    arguments = set(inspect.signature(cls.__init__).parameters) - BASE_ARGUMENTS
    assert arguments, "the constructor names its arguments"
    assert arguments <= set(layer.get_config()), arguments - set(layer.get_config())
    revived = cls.from_config(json.loads(json.dumps(layer.get_config())))
    assert revived.get_config() == layer.get_config()
    assert set(vars(revived)) == set(vars(layer))
    serialized = keras.saving.serialize_keras_object(layer)
    assert serialized["registered_name"] == f"keras_attention>{cls.__name__}"
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    assert type(again) is cls and again.get_config() == layer.get_config()
    return layer


def _check_build(layer, shapes, num_weights):
    before = layer.get_config()
    layer.build(*shapes)
    assert len(layer.weights) == len(layer.trainable_weights) == num_weights
    paths = [w.path for w in layer.weights]
    assert len(set(paths)) == len(paths)
    layer(*[np.zeros(s, "float32") for s in shapes])
    assert [w.path for w in layer.weights] == paths, "a call creates no weights"
    assert layer.get_config() == before, "build and call leave the arguments alone"


def _check_shapes(layer, inputs, output_shape, scores_shape):
    output, scores = layer(*inputs, return_attention_scores=True)
    assert tuple(output.shape) == output_shape and tuple(scores.shape) == scores_shape
    assert tuple(layer(*inputs).shape) == output_shape
    assert tuple(layer.compute_output_shape(*[x.shape for x in inputs])) == output_shape
    symbols = [keras.Input(batch_shape=x.shape) for x in inputs]
    for symbolic, eager in zip(layer(*symbols, return_attention_scores=True), (output, scores), strict=True):
        assert symbolic.shape == tuple(eager.shape)
        assert symbolic.dtype == keras.backend.standardize_dtype(eager.dtype) == "float32"


def _check_unknown_sizes(layer, inputs):
    symbols = [keras.Input((*[None] * (x.ndim - 2), x.shape[-1])) for x in inputs]
    model = keras.Model(symbols, layer(*symbols, return_attention_scores=True))
    output, scores = model.outputs
    assert output.shape[0] is None and scores.shape[0] is None
    longer = [np.concatenate([x, x], axis=-2) if x.ndim > 2 else x for x in inputs]
    for batch in (inputs, longer, [x[:1] for x in inputs]):
        traced = model.predict_on_batch(batch)
        assert_close(traced, layer(*batch, return_attention_scores=True))


def _check_masking(layer, inputs):
    assert layer.supports_masking
    batch, *lengths = inputs[0].shape[:-1]
    mask = np.ones((batch, *lengths[-1:]), bool)
    mask[0] = False
    mask = keras.ops.convert_to_tensor(mask)
    assert layer.compute_mask(inputs[0], mask) is mask
    output = layer(*inputs, query_mask=mask)
    assert np.array_equal(to_numpy(output._keras_mask), to_numpy(mask))


def _check_mixed_precision(cls, config, layer, inputs):
    expected = to_numpy(layer(*inputs, return_attention_scores=True))
    for policy, tolerance in (("mixed_float16", 0.01), ("mixed_bfloat16", 0.08)):
        mixed = cls(**config, dtype=policy)
        mixed.build(*[x.shape for x in inputs])
        mixed.set_weights(layer.get_weights())
        outputs = mixed(*inputs, return_attention_scores=True)
        for actual, wanted in zip(outputs, expected, strict=True):
            assert keras.backend.standardize_dtype(actual.dtype) == policy.removeprefix("mixed_")
            actual = to_numpy(keras.ops.cast(actual, "float32"))
            np.testing.assert_allclose(actual, wanted, atol=tolerance * np.abs(wanted).max())
        assert all(w.dtype == "float32" for w in mixed.weights)


def _check_saving(layer, inputs, tmp_path):
    symbols = [keras.Input(x.shape[1:]) for x in inputs]
    model = keras.Model(symbols, layer(*symbols, return_attention_scores=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1] is not layer
    assert_close(loaded(inputs), model(inputs), atol=0, rtol=0)


def _check_training(layer, inputs, unmoved):
    symbols = [keras.Input(x.shape[1:]) for x in inputs]
    output = keras.layers.Dense(1)(
        layer(*symbols)
    )  # so that there is something to train without weights, too
    model = keras.Model(symbols, output)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = {w.path: np.array(w.numpy()) for w in model.weights}
    target = np.random.default_rng(5).normal(size=(len(inputs[0]), *output.shape[1:])).astype("float32")
    loss = model.train_on_batch(inputs, target)
    assert np.isfinite(loss)
    for weight in model.weights:
        change = np.abs(weight.numpy() - before[weight.path]).max()
        assert np.isfinite(change)
        if not weight.path.endswith(tuple(unmoved)) or not unmoved:
            assert change > 1e-7, f"{weight.path} did not move"
        else:
            assert change < 1e-5, f"{weight.path} moved"
