"""Each layer as a float32 .tflite file: builtin operators only, nothing tiled, and the numbers of Keras."""

import keras
import numpy as np
import pytest
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import ALiBi
from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import RotaryEmbedding
from keras_attention import ScaledDotProductAttention

if keras.config.backend() != "tensorflow":
    pytest.skip("conversion needs the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
interpreter = pytest.importorskip("ai_edge_litert.interpreter")

QUERY_LENGTH, KEY_LENGTH, CHANNELS, KEY_CHANNELS = 5, 7, 11, 13
CROSS = [(QUERY_LENGTH, CHANNELS), (KEY_LENGTH, KEY_CHANNELS)]
SAME = [(QUERY_LENGTH, CHANNELS), (KEY_LENGTH, CHANNELS)]
HEADS = [(3, QUERY_LENGTH, CHANNELS), (3, KEY_LENGTH, CHANNELS)]
NOT_CONSTANT_FOLDED = {"BROADCAST_TO", "TILE", "SHAPE", "PACK", "RANGE", "STRIDED_SLICE", "CUMSUM", "GATHER"}
NOT_CONSTANT_FOLDED |= {"SIN", "COS", "ABS", "POW"}

CASES = {
    "bahdanau": (lambda: BahdanauAttention(17, use_bias=True), CROSS, {}),
    "bahdanau_causal": (lambda: BahdanauAttention(17), CROSS, {"use_causal_mask": True}),
    "bahdanau_step": (lambda: BahdanauAttention(17), [(CHANNELS,), CROSS[1]], {}),
    "bahdanau_length_1": (lambda: BahdanauAttention(17), [(1, CHANNELS), CROSS[1]], {}),
    "scaled_dot_product": (lambda: ScaledDotProductAttention(), SAME, {}),
    "scaled_dot_product_causal": (
        lambda: ScaledDotProductAttention(use_scale=True),
        SAME,
        {"use_causal_mask": True},
    ),
    "scaled_dot_product_heads": (lambda: ScaledDotProductAttention(), HEADS, {"use_causal_mask": True}),
    "multi_head": (lambda: MultiHeadAttention(3, 17), CROSS, {}),
    "multi_head_no_bias": (lambda: MultiHeadAttention(3, 17, value_dim=19, use_bias=False), CROSS, {}),
    "multi_head_causal": (lambda: MultiHeadAttention(3, 17), CROSS, {"use_causal_mask": True}),
    "multi_head_gate": (lambda: MultiHeadAttention(3, 17, use_gate=True, output_shape=(2, 3)), CROSS, {}),
    "multi_head_window": (lambda: MultiHeadAttention(3, 17, sliding_window=2), CROSS, {}),
    "multi_head_rotary": (lambda: MultiHeadAttention(3, 18, rotary=RotaryEmbedding()), CROSS, {}),
    "multi_head_alibi": (lambda: MultiHeadAttention(3, 17, position_bias=ALiBi(3)), CROSS, {}),
    "multi_head_relative": (
        lambda: MultiHeadAttention(3, 17, position_bias=RelativePositionBias(3)),
        CROSS,
        {},
    ),
}


def convert(model, signature):
    """The model as a .tflite with a batch of one, through ExportArchive and a SavedModel."""

    def build(folder):
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", lambda *inputs: model(list(inputs)), input_signature=signature)
        archive.write_out(str(folder), verbose=False)
        return tf.lite.TFLiteConverter.from_saved_model(str(folder)).convert()

    return build


def run(content, inputs):
    """Outputs in the order of the model, operator names, and shapes of all tensors."""
    resolver = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    session = interpreter.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    signature = session.get_signature_runner("serving_default")
    outputs = signature(**{f"input_{i}": x for i, x in enumerate(inputs)})
    operators = [op["op_name"] for op in session._get_ops_details()]
    shapes = [tuple(t["shape"]) for t in session.get_tensor_details()]
    return [outputs[name] for name in sorted(outputs)], operators, shapes


def convert_and_run(model, inputs, folder):
    signature = [tf.TensorSpec(x.shape, x.dtype, name=f"input_{i}") for i, x in enumerate(inputs)]
    return run(convert(model, signature)(folder), inputs)


def make_model(layer, shapes, masks=(), **call):
    symbols = [keras.Input(s) for s in shapes]
    mask_symbols = {name: keras.Input(s, dtype="bool") for name, s in masks}
    outputs = layer(*symbols, **mask_symbols, **call, return_attention_scores=True)
    return keras.Model([*symbols, *mask_symbols.values()], outputs)


def make_inputs(rng, shapes, layer):
    inputs = [normal(rng, 1, *s) for s in shapes]
    layer.build(*[x.shape for x in inputs])
    layer.set_weights([normal(rng, *w.shape) * 0.3 for w in layer.weights])
    return inputs


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_tflite_equals_keras(rng, tmp_path, name):
    make_layer, shapes, call = CASES[name]
    layer = make_layer()
    inputs = make_inputs(rng, shapes, layer)
    model = make_model(layer, shapes, **call)
    outputs, operators, tensor_shapes = convert_and_run(model, inputs, tmp_path)
    expected = to_numpy(model(inputs))
    assert len(outputs) == len(expected) == 2
    for actual, wanted in zip(outputs, expected, strict=True):
        assert actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, atol=1e-4)
    assert "SOFTMAX" in operators and "BATCH_MATMUL" in operators
    assert not NOT_CONSTANT_FOLDED & set(operators), operators
    assert ("SELECT_V2" in operators) == (bool(call) or "window" in name), "masks only where asked for"
    assert not {"ADD_N", "EINSUM", "FlexEinsum"} & set(operators)
    assert max(len(s) for s in tensor_shapes) <= (3 if name in ("bahdanau_step", "bahdanau_length_1") else 4)
    num_projections = {"bahdanau": 3, "scaled": 0, "multi": 5 if "gate" in name else 4}[name.split("_")[0]]
    assert operators.count("FULLY_CONNECTED") >= num_projections


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["bahdanau", "scaled_dot_product", "multi_head"])
def test_masks_in_tflite(rng, tmp_path, name):
    make_layer, shapes, _ = CASES[name]
    layer = make_layer()
    inputs = make_inputs(rng, shapes, layer)
    names = [
        ("query_mask", (QUERY_LENGTH,)),
        ("value_mask", (KEY_LENGTH,)),
        ("attention_mask", (QUERY_LENGTH, KEY_LENGTH)),
    ]
    model = make_model(layer, shapes, names)
    masks = [mixed_mask(rng, 1, *s) for _, s in names]
    masks[2][0, 1] = False
    outputs, operators, tensor_shapes = convert_and_run(model, [*inputs, *masks], tmp_path)
    for actual, wanted in zip(outputs, to_numpy(model([*inputs, *masks])), strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-4)
    scores = outputs[1] if outputs[1].ndim == 4 else outputs[1][:, None]
    assert np.all(scores[:, :, 1] == 0) and np.all(scores[:, :, ~masks[0][0]] == 0)
    assert operators.count("SELECT_V2") == 2
    assert not NOT_CONSTANT_FOLDED & set(operators), operators
    assert max(len(s) for s in tensor_shapes) <= 4


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_dropout_leaves_the_graph_alone(rng, tmp_path):
    operators = []
    for index, dropout in enumerate((0.0, 0.5)):
        layer = MultiHeadAttention(3, 17, dropout=dropout)
        inputs = make_inputs(rng, CROSS, layer)
        operators.append(convert_and_run(make_model(layer, CROSS), inputs, tmp_path / str(index))[1])
    assert operators[0] == operators[1] != []
