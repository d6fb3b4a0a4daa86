"""Decoding from a .tflite file: the cache goes in and out of it, step by step; and long biased attention."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from contract import normal
from contract import to_numpy

from keras_attention import ALiBi
from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import RotaryEmbedding
from keras_attention.tflite import convert
from keras_attention.tflite.graph import read_graph

LENGTH, MAX_LENGTH, CHANNELS, NUM_HEADS = 13, 17, 12, 4

CONFIGS = {
    "grouped": lambda: {"num_key_value_heads": 2, "use_gate": True},
    "window": lambda: {"num_key_value_heads": 1, "sliding_window": 5, "use_query_key_norm": True},
    "rotary": lambda: {"num_key_value_heads": 2, "rotary": RotaryEmbedding()},
    "alibi": lambda: {"position_bias": ALiBi(NUM_HEADS)},
    "relative": lambda: {"position_bias": RelativePositionBias(NUM_HEADS, num_buckets=8, max_distance=5)},
}

pytestmark = pytest.mark.slow


def make_layer(rng, name):
    layer = MultiHeadAttention(NUM_HEADS, 6, **CONFIGS[name]())
    layer.build((None, LENGTH, CHANNELS), (None, LENGTH, CHANNELS))
    layer.set_weights([normal(rng, *w.shape) * 0.3 for w in layer.weights])
    return layer


def make_model(layer, num_tokens):
    """One step: tokens, index and cache in, output and cache out."""
    tokens = keras.Input((num_tokens, CHANNELS), name="tokens")
    index = keras.Input((), dtype="int32", name="index")
    keys, values = (
        keras.Input(x.shape[1:], name=name)
        for x, name in zip(layer.make_cache(1, MAX_LENGTH), ("keys", "values"), strict=True)
    )
    output, (new_keys, new_values) = layer(tokens, tokens, cache=(keys, values), cache_index=index)
    outputs = {"output": output, "new_keys": new_keys, "new_values": new_values}
    return keras.Model([tokens, index, keys, values], outputs)


def make_samples(rng, layer, num_tokens, count=7):
    """What the model sees while it decodes `count` sequences."""
    samples = {"tokens": [], "index": [], "keys": [], "values": []}
    cache = layer.make_cache(count, MAX_LENGTH)
    for start in range(0, MAX_LENGTH - num_tokens + 1, num_tokens):
        new = normal(rng, count, num_tokens, CHANNELS)
        index = np.full(count, start, "int32")
        for name, array in zip(samples, (new, index, *to_numpy(cache)), strict=True):
            samples[name].append(array)
        _, cache = layer(new, new, cache=cache, cache_index=start)
    return {name: np.concatenate(arrays) for name, arrays in samples.items()}


def decode(path, tokens, num_tokens, layer):
    """Outputs of the file for one sequence, its caches fed back."""
    runner = Interpreter(str(path)).get_signature_runner()
    keys, values = (np.zeros(x.shape, "float32") for x in layer.make_cache(1, MAX_LENGTH))
    outputs = []
    for start in range(0, tokens.shape[1] - num_tokens + 1, num_tokens):
        new = tokens[:, start : start + num_tokens]
        result = runner(tokens=new, index=np.array([start], "int32"), keys=keys, values=values)
        keys, values = result["new_keys"], result["new_values"]
        outputs.append(result["output"])
    return np.concatenate(outputs, axis=1)


@pytest.mark.parametrize(
    ("name", "num_tokens", "precision"),
    [
        *((name, 1, "float32") for name in CONFIGS),
        ("rotary", 4, "float32"),
        ("rotary", 1, "int8"),
        ("alibi", 1, "int8"),
    ],
)
def test_the_file_decodes_like_the_whole_sequence(rng, tmp_path, name, num_tokens, precision):
    layer = make_layer(rng, name)
    samples = make_samples(rng, layer, num_tokens)
    report = convert(
        make_model(layer, num_tokens),
        tmp_path / "model.tflite",
        precision=precision,
        calibration=samples if precision == "int8" else None,
        evaluation=samples,
        verbose=0,
    ).report
    tokens = normal(rng, 1, LENGTH, CHANNELS)
    actual = decode(tmp_path / "model.tflite", tokens, num_tokens, layer)
    expected = to_numpy(layer(tokens, tokens, use_causal_mask=True))[:, : actual.shape[1]]
    if precision == "float32":
        np.testing.assert_allclose(actual, expected, atol=1e-5)
    else:  # errors of int8 enter the cache: 25 dB, an error of 6 % of the outputs
        assert report.sqnr_db > 30
        assert 10 * np.log10((expected**2).sum() / ((actual - expected) ** 2).sum()) > 25
    assert report.operators["DYNAMIC_UPDATE_SLICE"] == 2
    assert not [
        x for x in report.operators if x.startswith(("FLEX", "CUSTOM", "WHILE", "VAR_", "TILE", "BROAD"))
    ]
    graph = read_graph((tmp_path / "model.tflite").read_bytes())
    assert max(len(t.shape) for s in graph.subgraphs for t in s.tensors if t.shape is not None) <= 4


@pytest.mark.parametrize("bias", ["alibi", "relative"])
@pytest.mark.parametrize("call", [{}, {"use_causal_mask": True}, {"window": 100}], ids=str)
def test_long_attention_in_blocks_keeps_its_bias(rng, tmp_path, bias, call):
    position_bias = CONFIGS[bias]()["position_bias"]
    layer = MultiHeadAttention(NUM_HEADS, 4, position_bias=position_bias, sliding_window=call.get("window"))
    inputs = keras.Input((1024, CHANNELS))
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask="use_causal_mask" in call))
    layer.set_weights([normal(rng, *w.shape) * 0.3 for w in layer.weights])
    samples = normal(rng, 3, 1024, CHANNELS)
    report = convert(
        model, tmp_path / "model.tflite", precision="float32", evaluation=samples, verbose=0
    ).report
    assert report.max_abs_error < 1e-4
    assert report.operators["SOFTMAX"] > 3, "in blocks"
