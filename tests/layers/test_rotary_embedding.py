"""RotaryEmbedding: golden values, distances, steps, parity and errors."""

import math

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import normal
from contract import to_numpy

from keras_attention import RotaryEmbedding

BATCH, LENGTH, NUM_HEADS, HEAD_DIM = 2, 7, 3, 10


def test_golden():
    # Two features: one pair, frequency 1. The vector (1, 0) at position t is turned to (cos t, sin t).
    expected = [[[math.cos(t), math.sin(t)] for t in range(3)]]
    assert_close(RotaryEmbedding()(np.array([[[1.0, 0.0]] * 3])), np.float32(expected))
    # Four features: the pairs are (0, 2) with frequency 1 and (1, 3) with 100^(-2/4) = 1/10.
    output = RotaryEmbedding(max_wavelength=100)(np.array([[[0.0, 1.0, 1.0, 0.0]]]), start_index=2)
    expected = [[[-math.sin(2), math.cos(0.2), math.cos(2), math.sin(0.2)]]]
    assert_close(output, np.float32(expected))


def test_products_depend_on_the_distance_alone(rng):
    query, key = normal(rng, 1, 1, HEAD_DIM), normal(rng, 1, 1, HEAD_DIM)
    rotary = RotaryEmbedding()

    def product(query_position, key_position):
        turned = rotary(query, start_index=query_position), rotary(key, start_index=key_position)
        return float(np.sum(to_numpy(turned[0]) * to_numpy(turned[1])))

    assert product(5, 3) == pytest.approx(product(19, 17), abs=1e-5)
    assert abs(product(5, 3) - product(5, 2)) > 1e-2


def test_lengths_stay(rng):
    x = normal(rng, BATCH, LENGTH, NUM_HEADS, HEAD_DIM)
    turned = to_numpy(RotaryEmbedding()(x))
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5)


def test_a_traced_step_equals_its_row_of_the_sequence(rng):
    x = normal(rng, BATCH, 301, HEAD_DIM)
    rotary = RotaryEmbedding()
    whole = to_numpy(rotary(x))
    for t in (0, 17, 300):
        step = rotary(x[:, t : t + 1], start_index=keras.ops.convert_to_tensor(t, "int32"))
        assert_close(step, whole[:, t : t + 1], atol=1e-6)


def test_positions_take_the_place_of_the_order(rng):
    x = normal(rng, BATCH, LENGTH, NUM_HEADS, HEAD_DIM)
    order = np.array([3, 1, 4, 0, 5, 2, 6])
    rotary = RotaryEmbedding()
    shuffled = to_numpy(rotary(x[:, order], positions=order))
    assert_close(shuffled, to_numpy(rotary(x))[:, order], atol=1e-6)
    assert_close(rotary(x[:, order], positions=np.stack([order] * BATCH)), shuffled, atol=1e-6)


@pytest.mark.parametrize(
    "config", [{}, {"max_wavelength": 500, "scaling_factor": 3.0}], ids=["plain", "scaled"]
)
def test_same_as_keras_hub(rng, config):
    keras_hub = pytest.importorskip("keras_hub")
    x = normal(rng, BATCH, LENGTH, NUM_HEADS, HEAD_DIM)
    theirs, ours = keras_hub.layers.RotaryEmbedding(**config), RotaryEmbedding(**config)
    calls = [{}, {"start_index": 5}, {"positions": np.arange(LENGTH)[::-1].copy()}]
    calls.append({"positions": rng.integers(0, 50, (BATCH, LENGTH))})
    for call in calls:
        assert_close(ours(x, **call), theirs(x, **call), atol=1e-6)
    moved = np.ascontiguousarray(np.moveaxis(x, 1, 3))  # (batch, num_heads, head_dim, length)
    axes = {"sequence_axis": 3, "feature_axis": 2}
    theirs, ours = keras_hub.layers.RotaryEmbedding(**config, **axes), RotaryEmbedding(**config, **axes)
    assert_close(ours(moved), theirs(moved), atol=1e-6)


INVALID = [
    (
        {"max_wavelength": 0},
        ValueError,
        "`max_wavelength` must be finite and above 0. Received: max_wavelength=0",
    ),
    (
        {"scaling_factor": "2"},
        TypeError,
        "`scaling_factor` must be a number above 0. Received: scaling_factor='2'",
    ),
    ({"sequence_axis": 1.0}, TypeError, "`sequence_axis` must be an integer. Received: sequence_axis=1.0"),
    ({"feature_axis": None}, TypeError, "`feature_axis` must be an integer. Received: feature_axis=None"),
]


@pytest.mark.parametrize(("config", "error", "message"), INVALID)
def test_invalid_arguments(config, error, message):
    with pytest.raises(error, match=message):
        RotaryEmbedding(**config)


INVALID_CALLS = [
    ({}, (2, 5, 7), r"features must be known and even.*Received: inputs.shape=\(2, 5, 7\)"),
    (
        {"feature_axis": 1},
        (2, 5, 8),
        r"two axes of the inputs behind the batch. Received: .*sequence_axis=1, feature_axis=1",
    ),
    (
        {"sequence_axis": 3},
        (2, 5, 8),
        r"two axes of the inputs behind the batch. Received: .*sequence_axis=3",
    ),
    (
        {"sequence_axis": 0},
        (2, 5, 8),
        r"two axes of the inputs behind the batch. Received: .*sequence_axis=0",
    ),
]


@pytest.mark.parametrize(("config", "shape", "message"), INVALID_CALLS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(config, shape, message, symbolic):
    x = keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")
    with pytest.raises(ValueError, match=message):
        RotaryEmbedding(**config)(x)
