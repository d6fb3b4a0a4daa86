"""Swin and ViT blocks, patches and their merging: parity with timm, positions, errors."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy
from published import import_timm

from keras_attention import PatchEmbedding
from keras_attention import PatchMerging
from keras_attention import SwinBlock
from keras_attention import TransformerEncoderBlock
from keras_attention import ViTBlock
from keras_attention import WindowAttention

BATCH, CHANNELS, NUM_HEADS, INTERMEDIATE = 2, 12, 3, 24
DENSE = {"fc1": "feedforward_intermediate_dense", "fc2": "feedforward_output_dense"}
NORMS = {"norm1": "attention_norm", "norm2": "feedforward_norm"}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def randomize(module, rng, torch):
    """Random numbers in all parameters, biases and norms too; they are returned by name."""
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(normal(rng, *parameter.shape) * 0.4))
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


def block_weights(theirs, heads):
    """The parameters of a block of timm by the ends of our paths, those of its attention below `heads`."""
    weights = {}
    for norm, name in NORMS.items():
        weights |= {f"{name}/gamma": theirs[f"{norm}.weight"], f"{name}/beta": theirs[f"{norm}.bias"]}
    for dense, name in DENSE.items():
        weights[f"{name}/kernel"] = theirs[f"mlp.{dense}.weight"].T
        weights[f"{name}/bias"] = theirs[f"mlp.{dense}.bias"]
    kernels = theirs["attn.qkv.weight"].T.reshape((CHANNELS, 3, NUM_HEADS, -1))
    biases = theirs["attn.qkv.bias"].reshape((3, NUM_HEADS, -1))
    for index, name in enumerate(("query", "key", "value")):
        weights[f"{heads}/{name}/kernel"], weights[f"{heads}/{name}/bias"] = kernels[:, index], biases[index]
    weights[f"{heads}/attention_output/kernel"] = theirs["attn.proj.weight"].T.reshape(
        (NUM_HEADS, -1, CHANNELS)
    )
    weights[f"{heads}/attention_output/bias"] = theirs["attn.proj.bias"]
    return weights


def assign(layer, weights):
    """Every weight of the layer, by the path below it."""
    for weight in layer.weights:
        if "seed" not in weight.path:
            weight.assign(weights.pop(weight.path.split("/", 1)[1]))
    assert not weights


@pytest.mark.parametrize(
    ("sizes", "window_size", "shift_size"),
    [((8, 12), 4, 0), ((8, 12), 4, 2), ((6, 9), (2, 3), 1), ((3, 8), 4, 2), ((3, 3), 7, 3)],
)
def test_swin_block_is_that_of_timm(rng, torch, sizes, window_size, shift_size):
    module = import_timm().models.swin_transformer.SwinTransformerBlock(
        CHANNELS, sizes, NUM_HEADS, None, window_size, shift_size, mlp_ratio=INTERMEDIATE / CHANNELS
    )
    theirs = randomize(module, rng, torch)
    block = SwinBlock(INTERMEDIATE, NUM_HEADS, module.window_size, module.shift_size)
    block.build((None, *sizes, CHANNELS))
    weights = block_weights(theirs, "attention/attention")
    weights["attention/position_bias/embeddings"] = theirs["attn.relative_position_bias_table"]
    assign(block, weights)
    images = normal(rng, BATCH, *sizes, CHANNELS)
    assert_close(block(images), module(torch.tensor(images)).detach().numpy(), atol=1e-4)


def test_patch_merging_is_that_of_timm(rng, torch):
    module = import_timm().models.swin_transformer.PatchMerging(CHANNELS)
    theirs = randomize(module, rng, torch)
    layer = PatchMerging()
    layer.build((None, 5, 6, CHANNELS))
    # theirs has the four neighbours column by column
    order = np.arange(4 * CHANNELS).reshape((2, 2, CHANNELS)).transpose((1, 0, 2)).ravel()
    kernel = theirs["reduction.weight"].T[order]
    scales = {"norm/gamma": theirs["norm.weight"][order], "norm/beta": theirs["norm.bias"][order]}
    assign(layer, {**scales, "projection/kernel": kernel})
    for sizes in ((4, 6), (5, 7)):
        images = normal(rng, BATCH, *sizes, CHANNELS)
        assert_close(layer(images), module(torch.tensor(images)).detach().numpy())


def test_vit_block_is_that_of_timm(rng, torch):
    timm = import_timm()
    module = timm.models.vision_transformer.Block(
        CHANNELS,
        NUM_HEADS,
        INTERMEDIATE / CHANNELS,
        qkv_bias=True,
        norm_layer=lambda *a, **k: torch.nn.LayerNorm(*a, eps=1e-6, **k),
    )
    theirs = randomize(module, rng, torch)
    block = ViTBlock(INTERMEDIATE, NUM_HEADS)
    block.build((None, None, CHANNELS))
    assign(block, block_weights(theirs, "attention"))
    tokens = normal(rng, BATCH, 7, CHANNELS)
    assert_close(block(tokens), module(torch.tensor(tokens)).detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("flatten", [True, False])
def test_patch_embedding_is_that_of_timm(rng, torch, flatten):
    module = import_timm().layers.PatchEmbed(
        (8, 12), 4, 3, CHANNELS, flatten=flatten, output_fmt=None if flatten else "NHWC"
    )
    theirs = randomize(module, rng, torch)
    layer = PatchEmbedding(4, CHANNELS, flatten=flatten)
    layer.build((None, 8, 12, 3))
    assign(layer, {"kernel": theirs["proj.weight"].transpose((2, 3, 1, 0)), "bias": theirs["proj.bias"]})
    images = normal(rng, BATCH, 8, 12, 3)
    expected = module(torch.tensor(images.transpose((0, 3, 1, 2)))).detach().numpy()
    assert_close(layer(images), expected)


def test_vit_block_is_the_encoder_block(rng):
    tokens, mask = normal(rng, BATCH, 7, CHANNELS), mixed_mask(rng, BATCH, 7)
    block, plain = (
        ViTBlock(INTERMEDIATE, NUM_HEADS),
        TransformerEncoderBlock(INTERMEDIATE, NUM_HEADS, epsilon=1e-6),
    )
    for layer in (block, plain):
        layer.build(tokens.shape)
    plain.set_weights(block.get_weights())
    assert_close(block(tokens, mask=mask), plain(tokens, mask=mask), atol=0)
    assert block.epsilon == 1e-6 and block.normalize_first and block.activation is keras.activations.gelu


def test_attached_masks_are_the_masks_given(rng):
    images, mask = normal(rng, BATCH, 4, 6, CHANNELS), mixed_mask(rng, BATCH, 4, 6)
    for normalize_first in (True, False):
        block = SwinBlock(INTERMEDIATE, NUM_HEADS, 2, 1, normalize_first=normalize_first)
        given = block(images, mask=mask, return_attention_scores=True)
        assert np.abs(to_numpy(given[0]) - to_numpy(block(images))).max() > 1e-3
        attached = keras.ops.convert_to_tensor(images)
        attached._keras_mask = keras.ops.convert_to_tensor(mask)
        assert_close(block(attached, return_attention_scores=True), given)


def test_dropout_draws_anew_everywhere(rng):
    images = normal(rng, BATCH, 4, 6, CHANNELS)
    block = SwinBlock(INTERMEDIATE, NUM_HEADS, 2, dropout=0.5, seed=3)
    assert_close(block(images, training=False), block(images), atol=0)
    assert np.abs(to_numpy(block(images, training=True)) - to_numpy(block(images))).max() > 0.1
    seeds = [weight.numpy().tolist() for weight in block.non_trainable_variables]
    assert len(seeds) == len({str(seed) for seed in seeds}) == 3


def test_patches_by_hand():
    """Kernels of ones: the sum of each patch; the second row of patches has one row of pixels."""
    image = np.arange(12, dtype="float32").reshape((1, 3, 4, 1))
    layer = PatchEmbedding(2, 1, flatten=False, kernel_initializer="ones")
    assert_close(layer(image)[0, :, :, 0], np.float32([[0 + 1 + 4 + 5, 2 + 3 + 6 + 7], [8 + 9, 10 + 11]]))


def test_class_token_and_positions(rng):
    image = normal(rng, BATCH, 4, 6, 3)
    layer = PatchEmbedding(2, 5, use_class_token=True, use_position_embedding=True)
    plain = PatchEmbedding(2, 5)
    for embedding in (layer, plain):
        embedding.build(image.shape)
    plain.set_weights(layer.get_weights()[:2])
    token, table = to_numpy(layer.class_token), to_numpy(layer.position_embedding)
    assert token.shape == (1, 5) and table.shape == (7, 5)
    output = to_numpy(layer(image))
    assert_close(output[:, 0], np.repeat(token + table[:1], BATCH, 0))
    assert_close(output[:, 1:], to_numpy(plain(image)) + table[1:])


def test_the_format_of_images_in_keras_does_not_matter(rng):
    image = normal(rng, BATCH, 4, 6, 3)
    layer = PatchEmbedding(2, 5)
    expected = layer(image)
    keras.config.set_image_data_format("channels_first")
    try:
        assert_close(layer(image), expected)
    finally:
        keras.config.set_image_data_format("channels_last")


INVALID = [
    (lambda: PatchEmbedding(0, 5), ValueError, "`patch_size` must hold positive integers"),
    (lambda: PatchEmbedding(None, 5), ValueError, r"`patch_size` must be an integer or \(height, width\)"),
    (lambda: PatchEmbedding(2, 0), ValueError, "`output_dim` must be a positive integer"),
    (lambda: PatchEmbedding(2, 5, flatten=None), TypeError, "`flatten` must be True or False"),
    (
        lambda: PatchEmbedding(2, 5, flatten=False, use_class_token=True),
        ValueError,
        "`use_class_token` needs `flatten=True`.*Received: use_class_token=True, flatten=False",
    ),
    (lambda: PatchMerging(0), ValueError, "`output_dim` must be a positive integer"),
    (lambda: PatchMerging(epsilon=0), ValueError, "`epsilon` must be finite and above 0"),
    (lambda: SwinBlock(24, 3, 4, 4), ValueError, "`shift_size` must be at least 0 and less than"),
    (
        lambda: SwinBlock(24, None),
        TypeError,
        "`num_heads` must be a positive integer. Received",
    ),
    (lambda: ViTBlock(24), ValueError, "Give either `num_heads`"),
]


@pytest.mark.parametrize(("make", "error", "message"), INVALID)
def test_invalid_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(symbolic):
    def tensor(*shape):
        return keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")

    for layer in (PatchEmbedding(2, 5), PatchMerging(), SwinBlock(24, 3)):
        with pytest.raises(ValueError, match=r"`inputs` must have rank 4.*inputs.shape=\(2, 5, 12\)"):
            layer(tensor(2, 5, 12))
    with pytest.raises(ValueError, match=r"multiple of `num_heads`. Received: num_heads=5, channels=12"):
        SwinBlock(24, 5)(tensor(2, 4, 6, 12))
    layer = PatchEmbedding(2, 5, use_position_embedding=True)
    layer(tensor(2, 4, 6, 3))
    with pytest.raises(ValueError, match=r"built for 2 x 3 patches.*Received: inputs.shape=\(2, 8, 6, 3\)"):
        layer(tensor(2, 8, 6, 3))


def test_positions_need_known_sizes():
    with pytest.raises(ValueError, match=r"known height and width.*inputs.shape=\(None, None, 6, 3\)"):
        PatchEmbedding(2, 5, use_position_embedding=True)(keras.Input((None, 6, 3)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: PatchEmbedding(2, 5),
        lambda: PatchMerging(),
        lambda: SwinBlock(16, 2, 2),
        lambda: WindowAttention(2, 4, 2),
    ],
)
def test_other_channels_than_those_it_was_built_for(rng, make):
    layer = make()
    layer(normal(rng, 2, 4, 4, 8))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 8"):
        layer(normal(rng, 2, 4, 4, 9))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_images_of_integers(rng, dtype):
    images = rng.integers(0, 255, (2, 6, 6, 3)).astype(dtype)
    layer = PatchEmbedding(3, 8)
    assert_close(layer(images), layer(images.astype("float32")))
