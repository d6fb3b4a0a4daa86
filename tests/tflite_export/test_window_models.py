"""A small Swin and a small ViT as files of each precision: one piece, rank 4, nothing wasted."""

import keras
import numpy as np
import pytest

from keras_attention import PatchEmbedding
from keras_attention import PatchMerging
from keras_attention import SwinBlock
from keras_attention import ViTBlock
from keras_attention import WindowAttention
from keras_attention.tflite import convert
from keras_attention.tflite.graph import read_graph

SIZE, CHANNELS, CLASSES = 16, 24, 5
REFUSED = {"BROADCAST_TO", "TILE", "GATHER", "GATHER_ND", "SELECT", "SELECT_V2", "CAST"}
LEAST_DB = {"float32": 80.0, "float16": 50.0, "dynamic": 30.0, "int8": 30.0}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]


def swin():
    """Windows as they lie, shifted ones, and behind the merging shifted ones that reach over the edge."""
    images = keras.Input((SIZE, SIZE, 3), name="image")
    x = PatchEmbedding(2, CHANNELS, flatten=False)(images)
    x = SwinBlock(2 * CHANNELS, 2, 4)(x)
    x = SwinBlock(2 * CHANNELS, 2, 4, 2)(x)
    x = SwinBlock(4 * CHANNELS, 4, 3, 1)(PatchMerging()(x))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.LayerNormalization()(x))
    return keras.Model(images, keras.layers.Dense(CLASSES)(x))


def vit():
    images = keras.Input((SIZE, SIZE, 3), name="image")
    x = PatchEmbedding(4, CHANNELS, use_class_token=True, use_position_embedding=True)(images)
    for _ in range(2):
        x = ViTBlock(2 * CHANNELS, 2)(x)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(images, keras.layers.Dense(CLASSES)(x))


@pytest.fixture(scope="module")
def images():
    """Waves of random directions and colours, with a little noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    waves = rng.normal(size=(120, 1, 1, 3)) * 12
    phase = waves[..., 0] * x + waves[..., 1] * y + waves[..., 2]
    colours = rng.normal(size=(120, 1, 1, 3))
    return np.float32(np.sin(phase)[..., None] * colours + 0.1 * rng.normal(size=(120, SIZE, SIZE, 3)))


def convert_model(model, images, path, precision, **options):
    if precision.startswith("int8"):
        options["calibration"] = images[:60]
    return convert(model, path, precision=precision, evaluation=images[60:], verbose=0, **options).report


def greatest_rank(path):
    graph = read_graph(path.read_bytes())
    shapes = [tensor.shape for subgraph in graph.subgraphs for tensor in subgraph.tensors]
    return max(len(shape) for shape in shapes if shape is not None)


@pytest.mark.parametrize(
    ("make", "precision"),
    [(make, p) for make in (swin, vit) for p in LEAST_DB if make is swin or p == "int8"],
)
def test_models_run_in_one_piece(images, tmp_path, make, precision):
    keras.utils.set_random_seed(0)
    path = tmp_path / "model.tflite"
    report = convert_model(make(), images, path, precision)
    assert report.sqnr_db > LEAST_DB[precision] and report.float32_sqnr_db > LEAST_DB["float32"]
    assert report.delegate_partitions == 1 and report.fully_delegated
    assert greatest_rank(path) <= 4
    assert not REFUSED & set(report.operators)
    blocks, is_swin = (3, True) if make is swin else (2, False)
    # each block: heads of query, key and value and back; a Swin block cuts windows and joins them too
    assert report.operators["TRANSPOSE"] == (6 * blocks + 1 if is_swin else 4 * blocks)
    # masks, tables of positions and the class token are constants
    assert report.operators["PAD"] == 1
    assert report.operators["CONCATENATION" if is_swin else "CONV_2D"] == (8 if is_swin else 1)


def test_scores_and_larger_batches(images, tmp_path):
    """Several images at a time have one mask each; the scores are of rank 4 too."""
    inputs = keras.Input((SIZE, SIZE, 3), name="image")
    x = PatchEmbedding(2, CHANNELS, flatten=False)(inputs)
    output, scores = WindowAttention(2, 6, 3, 1)(x, return_attention_scores=True)
    assert scores.shape == (None, 9 * 2, 9, 9)
    path = tmp_path / "model.tflite"
    report = convert_model(keras.Model(inputs, [output, scores]), images, path, "float32")
    assert report.max_abs_error <= 1e-4 and greatest_rank(path) <= 4
    report = convert_model(keras.Model(inputs, output), images, path, "float32", batch_size=3)
    assert report.max_abs_error <= 1e-4 and greatest_rank(path) <= 4
    assert report.delegate_partitions == 1 and report.fully_delegated
    assert not REFUSED & set(report.operators)
