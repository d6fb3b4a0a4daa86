"""Helpers of the tests of layers: masks, comparisons, and gradients on every backend."""

import contextlib

import keras
import numpy as np

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
    """Layers made here compute in float64; on JAX it is off otherwise."""
    policy = keras.config.dtype_policy()
    with contextlib.ExitStack() as stack:
        stack.callback(keras.config.set_dtype_policy, policy)
        keras.config.set_dtype_policy("float64")
        if keras.config.backend() == "jax":
            import jax

            stack.callback(jax.config.update, "jax_enable_x64", jax.config.jax_enable_x64)
            jax.config.update("jax_enable_x64", True)
        yield


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


def compiled(function):
    """The function, compiled where the backend can: the differences call it some hundred times."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function)
    if keras.config.backend() == "jax":
        import jax

        return jax.jit(function)
    return function


def weighted_sum(output, factors):
    """A scalar in which every value of the output has its own say."""
    return keras.ops.sum(keras.ops.multiply(output, keras.ops.convert_to_tensor(factors, output.dtype)))


def check_gradients(function, arrays, least_tolerance=0.0, compiles=True):
    """Compares gradients with central differences in random directions, in float64.

    Keras runs some operations in float32 whatever the dtype, except on TensorFlow: hence the wider step and
    tolerance elsewhere.
    """
    is_float64 = keras.config.backend() == "tensorflow"
    step, tolerance = (1e-4, 1e-6) if is_float64 else (1e-2, 1e-2)
    tolerance = max(tolerance, least_tolerance)
    rng = np.random.default_rng(99)
    function = compiled(function) if compiles else function

    def unit(x):
        return x / np.linalg.norm(x)

    for index, gradient in enumerate(gradients(function, arrays)):
        assert gradient.dtype == np.float64
        assert np.abs(gradient).max() > 1e-2, "a gradient near zero proves nothing"
        for _ in range(3):
            direction = unit(unit(gradient) + 0.5 * unit(rng.normal(size=gradient.shape)))
            values = []
            for sign in (1, -1):
                moved = [a + sign * step * direction if i == index else a for i, a in enumerate(arrays)]
                values.append(to_numpy(function(*[keras.ops.convert_to_tensor(a, "float64") for a in moved])))
            numerical = (values[0] - values[1]) / (2 * step)
            assert numerical.dtype == np.float64 or not is_float64
            np.testing.assert_allclose((gradient * direction).sum(), numerical, rtol=tolerance)
