"""Every public layer, in a small model on real windows, as a file of each common precision."""

import inspect
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attention
from keras_attention.tflite import convert
from keras_attention.tflite.graph import read_graph

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the models are not part of the installed package", allow_module_level=True)
sys.path.insert(0, str(ROOT / "examples"))

from benchmarks import layer_models  # noqa: E402
from common import watch_data  # noqa: E402

OWN = {name: body for name, body in layer_models.LAYERS.items() if "keras.layers" not in name}
LEAST_DB = {"float32": 80.0, "dynamic": 30.0, "int8": 30.0}
# All layers in int8, whose report tells of the float32 form too; `benchmarks.layer_precision` has the rest.
IN_ALL = (
    "`BahdanauAttention`",
    "`MultiHeadAttention`",
    "`LocalAttention`",
    "`TransformerEncoderBlock`",
    "`DynamicMemory`",
    "`CBAM`",
    "`WindowAttention`",
)
ROWS = [(name, kind) for name in OWN for kind in (LEAST_DB if name in IN_ALL else ["int8"])]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def windows():
    inputs = watch_data.cut(watch_data.load()).inputs
    return inputs[np.random.default_rng(0).permutation(len(inputs))[:400]]


def test_every_public_layer_has_a_model():
    layers = {
        name
        for name in keras_attention.__all__
        if inspect.isclass(getattr(keras_attention, name))
        and issubclass(getattr(keras_attention, name), keras.layers.Layer)
    }
    covered = {name for name in layers if any(f"`{name}`" in title for title in OWN)}
    assert covered == layers
    assert set(IN_ALL) <= set(OWN)


@pytest.mark.parametrize(("name", "precision"), ROWS)
def test_layer_model(windows, tmp_path, name, precision):
    model = layer_models.build(OWN[name], windows)
    result = convert(
        model,
        tmp_path / "model.tflite",
        precision=precision,
        calibration=windows[:200] if precision == "int8" else None,
        evaluation=windows[200:],
        verbose=0,
    )
    report = result.report
    assert report.sqnr_db > LEAST_DB[precision]
    assert report.float32_sqnr_db > LEAST_DB["float32"]
    if precision == "float32":
        assert report.max_abs_error <= 1e-4
    assert not [name for name in report.operators if name.startswith(("FLEX", "CUSTOM", "WHILE", "VAR_"))]
    assert not {"BROADCAST_TO", "TILE"} & set(report.operators)
    is_one_piece = report.delegate_partitions == 1 and report.fully_delegated
    assert is_one_piece or "top-k" in name, "all but TOPK_V2 and GATHER is for the delegate"
    graph = read_graph((tmp_path / "model.tflite").read_bytes())
    shapes = [tensor.shape for subgraph in graph.subgraphs for tensor in subgraph.tensors]
    assert max(len(shape) for shape in shapes if shape is not None) <= 4
