"""Causal attention for long sequences in one file: no SELECT, one piece, the numbers of Keras."""

import keras
import numpy as np
import pytest

from keras_attention import LinearAttention
from keras_attention import LocalAttention
from keras_attention import SparseAttention
from keras_attention.tflite import convert

LENGTH, CHANNELS = 150, 12  # three chunks of LinearAttention, and no multiple of any block

LAYERS = {
    "local": lambda: LocalAttention(2, 6, 8),
    "local_global": lambda: LocalAttention(2, 6, 8, num_global_tokens=2),
    "linear_elu": lambda: LinearAttention(2, 6),
    "linear_performer": lambda: LinearAttention(2, 6, "performer"),
    "sparse_strided": lambda: SparseAttention(2, 6, 8),
    "sparse_block": lambda: SparseAttention(2, 6, 8, "block"),
    "sparse_fixed": lambda: SparseAttention(2, 6, 8, "fixed"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_causal_layers_convert_in_one_piece(rng, tmp_path):
    inputs = keras.Input((LENGTH, CHANNELS), name="window")
    outputs = [make()(inputs, inputs, use_causal_mask=True) for make in LAYERS.values()]
    halves = [keras.layers.Concatenate()(half) for half in (outputs[:4], outputs[4:])]  # XNNPACK joins few
    model = keras.Model(inputs, keras.layers.Concatenate()(halves))
    samples = rng.normal(size=(20, LENGTH, CHANNELS)).astype("float32")
    report = convert(
        model, tmp_path / "model.tflite", precision="float32", evaluation=samples, verbose=0
    ).report
    assert report.max_abs_error <= 1e-4
    assert np.isfinite(report.sqnr_db) and report.sqnr_db > 80
    assert report.delegate_partitions == 1 and report.fully_delegated
    assert not {"SELECT", "SELECT_V2", "TILE", "BROADCAST_TO", "CUMSUM", "GATHER"} & set(report.operators)
