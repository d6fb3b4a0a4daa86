"""Comparing a moved layer or model with the one it comes from."""

import keras
import numpy as np


def randomize(layer, rng):
    """Weights of which each counts: initial biases are zeros, and initial scales ones."""
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.get_weights()])


def arrays(outputs):
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [keras.ops.convert_to_numpy(output) for output in outputs]


def assert_same(found, expected, where=...):
    """Outputs are equal to the precision of their type, relative to the largest value, and not trivial."""
    found, expected = arrays(found), arrays(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        tolerance = 3e-3 if a.dtype == "float16" else 2e-5
        a, b = a[where].astype("float64"), b[where].astype("float64")
        assert np.isfinite(b).all() and b.std() > 1e-3
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))


def classes(model):
    """Names of the layers' classes, those of ours with a star."""
    names = []
    for layer in model.layers:
        star = "*" if type(layer).__module__.startswith("keras_attention.") else ""
        names.append(type(layer).__name__ + star)
    return names
