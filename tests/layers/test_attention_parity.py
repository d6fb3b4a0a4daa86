"""MultiHeadAttention beside implementations of others, with their weights: Keras' grouped heads and torch."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import make_masks
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import MultiHeadAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, NUM_HEADS, HEAD_DIM = 2, 5, 7, 6, 4
CHANNELS, VALUE_CHANNELS, KEY_CHANNELS = 24, 13, 17
SIZES = (BATCH, QUERY_LENGTH, KEY_LENGTH)


def make_inputs(rng, is_self=False):
    query = normal(rng, BATCH, QUERY_LENGTH, CHANNELS)
    if is_self:
        return [query, query, query]
    return [
        query,
        normal(rng, BATCH, KEY_LENGTH, VALUE_CHANNELS),
        normal(rng, BATCH, KEY_LENGTH, KEY_CHANNELS),
    ]


# --- keras.layers.GroupQueryAttention ---


@pytest.mark.parametrize("names", [(), ("value_mask",), ("key_mask", "attention_mask"), ("use_causal_mask",)])
@pytest.mark.parametrize("num_shared", [1, 2, 3, 6])
@pytest.mark.parametrize(
    "config", [{}, {"use_gate": True}, {"sliding_window": 2}, {"use_bias": False, "dropout": 0.4}], ids=str
)
def test_same_as_keras_grouped_query_attention(rng, config, num_shared, names):
    inputs = make_inputs(rng)
    masks = make_masks(rng, names, *SIZES)
    theirs = keras.layers.GroupQueryAttention(HEAD_DIM, NUM_HEADS, num_shared, **config)
    theirs.build(*[x.shape for x in inputs])
    theirs.set_weights([normal(rng, *w.shape) * 0.3 for w in theirs.weights])
    ours = MultiHeadAttention(NUM_HEADS, HEAD_DIM, num_key_value_heads=num_shared, **config)
    ours.build(*[x.shape for x in inputs])
    names_of = [["/".join(w.path.split("/")[-2:]) for w in x.weights] for x in (ours, theirs)]
    assert names_of[0] == names_of[1]
    ours.set_weights(theirs.get_weights())
    expected = theirs(*inputs, return_attention_scores=True, **masks)
    assert_close(ours(*inputs, return_attention_scores=True, **masks), expected)
    assert_close(ours(*inputs, **masks), expected[0])  # theirs differs there for a row without keys


def test_masks_per_head_and_attention_axes_with_shared_heads(rng):
    layer = MultiHeadAttention(NUM_HEADS, HEAD_DIM, num_key_value_heads=2, attention_axes=1)
    image = normal(rng, BATCH, QUERY_LENGTH, 3, CHANNELS)
    scores_shape = (BATCH, 3, NUM_HEADS, QUERY_LENGTH, QUERY_LENGTH)
    mask = mixed_mask(rng, *scores_shape)
    output, scores = layer(image, image, attention_mask=mask, return_attention_scores=True)
    assert np.all(to_numpy(scores)[~mask] == 0)
    rows = MultiHeadAttention(NUM_HEADS, HEAD_DIM, num_key_value_heads=2)
    rows.build(image[:, :, 0].shape, image[:, :, 0].shape)
    rows.set_weights(layer.get_weights())
    for column in range(3):
        x = image[:, :, column]
        expected = rows(x, x, attention_mask=mask[:, column], return_attention_scores=True)
        assert_close((output[:, :, column], scores[:, column]), expected)


# --- torch ---


def torch_pair(rng, inputs, num_heads=NUM_HEADS, bias=True):
    """`torch.nn.MultiheadAttention` with random weights, and our layer with the same."""
    torch = pytest.importorskip("torch")
    width = inputs[0].shape[-1]
    theirs = torch.nn.MultiheadAttention(
        width, num_heads, bias=bias, kdim=inputs[2].shape[-1], vdim=inputs[1].shape[-1], batch_first=True
    ).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.tensor(normal(rng, *weight.shape) * 0.3))
    ours = MultiHeadAttention(num_heads, width // num_heads, use_bias=bias)
    ours.build(*[x.shape for x in inputs])
    state = {name: weight.numpy(force=True) for name, weight in theirs.state_dict().items()}
    if "in_proj_weight" in state:
        kernels = np.split(state["in_proj_weight"], 3)
    else:
        kernels = [state[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(state["in_proj_bias"], 3) if bias else [None] * 3
    weights = []
    for kernel, offset in zip(kernels, biases, strict=True):
        weights.append(kernel.T.reshape(kernel.shape[1], num_heads, -1))
        weights += [] if offset is None else [offset.reshape(num_heads, -1)]
    weights.append(state["out_proj.weight"].T.reshape(num_heads, -1, width))
    weights += [state["out_proj.bias"]] if bias else []
    ours.set_weights(weights)
    return theirs, ours, torch


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("is_self", [True, False], ids=["self", "cross"])
@pytest.mark.parametrize("masked", [None, "padding", "pairs"])
def test_same_as_torch(rng, is_self, bias, masked):
    query, value, key = inputs = make_inputs(rng, is_self)
    theirs, ours, torch = torch_pair(rng, inputs, bias=bias)
    ours_masks, torch_masks = {}, {}
    if masked == "padding":
        mask = mixed_mask(rng, BATCH, value.shape[1])
        ours_masks["value_mask"], torch_masks["key_padding_mask"] = mask, torch.tensor(~mask)
    if masked == "pairs":
        mask = mixed_mask(rng, QUERY_LENGTH, value.shape[1])
        ours_masks["attention_mask"], torch_masks["attn_mask"] = mask, torch.tensor(~mask)
    with torch.no_grad():
        output, scores = theirs(
            *(torch.tensor(x) for x in (query, key, value)), **torch_masks, average_attn_weights=False
        )
    actual = ours(*inputs, **ours_masks, return_attention_scores=True)
    assert_close(actual, (output.numpy(), scores.numpy()))


@pytest.mark.parametrize("num_shared", [1, 2, 6])
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_same_as_torch_scaled_dot_product_attention(rng, num_shared, is_causal):
    torch = pytest.importorskip("torch")
    inputs = make_inputs(rng)
    layer = MultiHeadAttention(NUM_HEADS, HEAD_DIM, num_key_value_heads=num_shared, use_bias=False)
    layer.build(*[x.shape for x in inputs])
    kernels = [
        to_numpy(w) for w in (layer.query_dense.kernel, layer.value_dense.kernel, layer.key_dense.kernel)
    ]
    heads = [np.einsum("blc,chd->bhld", x, kernel) for x, kernel in zip(inputs, kernels, strict=True)]
    query, value, key = (torch.tensor(x) for x in heads)
    context = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=is_causal, enable_gqa=num_shared < NUM_HEADS
    )
    expected = np.einsum("bhqd,hdc->bqc", context.numpy(), to_numpy(layer.output_dense.kernel))
    assert_close(layer(*inputs, use_causal_mask=is_causal), expected)
