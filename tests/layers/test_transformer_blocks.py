"""Transformer blocks: parity with keras-hub, injected layers, masks, dropout, errors."""

import keras
import numpy as np
import pytest
from contract import assert_close
from contract import mixed_mask
from contract import normal
from contract import to_numpy

from keras_attention import ALiBi
from keras_attention import MultiHeadAttention
from keras_attention import ScaledDotProductAttention
from keras_attention import TransformerDecoderBlock
from keras_attention import TransformerEncoderBlock

BATCH, LENGTH, ENCODER_LENGTH, CHANNELS, INTERMEDIATE, NUM_HEADS = 2, 5, 7, 12, 17, 3
PAPER = {"activation": "relu", "normalize_first": False}
HUB = {"intermediate_dim": INTERMEDIATE, "num_heads": NUM_HEADS}
ATTENTION = [f"{x}/{w}" for x in ("query", "key", "value", "attention_output") for w in ("kernel", "bias")]
NAMES = {  # ours -> keras-hub's
    "attention": "self_attention",
    "attention_norm": "self_attention_layer_norm",
    "cross_attention": "cross_attention",
    "cross_attention_norm": "cross_attention_layer_norm",
    "feedforward_norm": "feedforward_layer_norm",
    "feedforward_intermediate_dense": "feedforward_intermediate_dense",
    "feedforward_output_dense": "feedforward_output_dense",
}


def copy_weights(ours, theirs, rng):
    """Random weights for both, matched by name."""
    sources = {}
    for weight in theirs.weights:
        sublayer, *rest = weight.path.split("/")[1:]
        sources["/".join([sublayer.removesuffix("_layer"), *rest])] = weight
    assert len(sources) == len(ours.weights)
    for weight in ours.weights:
        sublayer, *rest = weight.path.split("/")[1:]
        source = sources["/".join([NAMES[sublayer], *rest])]
        value = normal(rng, *source.shape) * 0.5
        source.assign(value)
        weight.assign(value)


@pytest.mark.parametrize(
    "options", [PAPER, {"activation": "gelu", "normalize_first": True}], ids=["post", "pre"]
)
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_encoder_is_that_of_keras_hub(rng, options, masked):
    keras_hub = pytest.importorskip("keras_hub")
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    theirs = keras_hub.layers.TransformerEncoder(**HUB, **options)
    ours = TransformerEncoderBlock(**HUB, **options)
    theirs.build(sequence.shape)
    ours.build(sequence.shape)
    copy_weights(ours, theirs, rng)
    mask = mixed_mask(rng, BATCH, LENGTH) if masked else None
    pairs = mixed_mask(rng, BATCH, LENGTH, LENGTH) if masked else None
    if masked:
        pairs[:, :, 0] = mask[:, 0] = True  # a query without keys: theirs averages all
    expected = theirs(sequence, padding_mask=mask, attention_mask=pairs, return_attention_scores=True)
    actual = ours(sequence, mask=mask, attention_mask=pairs, return_attention_scores=True)
    real = np.ones((BATCH, LENGTH), bool) if mask is None else mask  # padded queries: ours attend to nothing
    assert_close(to_numpy(actual[0])[real], to_numpy(expected[0])[real])
    heads = to_numpy(actual[1]).transpose(0, 2, 1, 3)[real], to_numpy(expected[1]).transpose(0, 2, 1, 3)[real]
    assert_close(*heads)


@pytest.mark.parametrize(
    "options", [PAPER, {"activation": "gelu", "normalize_first": True}], ids=["post", "pre"]
)
@pytest.mark.parametrize("with_encoder", [False, True], ids=["alone", "cross"])
def test_decoder_is_that_of_keras_hub(rng, options, with_encoder):
    keras_hub = pytest.importorskip("keras_hub")
    inputs = [normal(rng, BATCH, LENGTH, CHANNELS), normal(rng, BATCH, ENCODER_LENGTH, CHANNELS)]
    inputs = inputs[: 1 + with_encoder]
    theirs = keras_hub.layers.TransformerDecoder(**HUB, **options)
    ours = TransformerDecoderBlock(**HUB, **options)
    theirs.build(*[x.shape for x in inputs])
    ours.build(*[x.shape for x in inputs])
    copy_weights(ours, theirs, rng)
    masks, their_masks = {}, {}
    if with_encoder:
        masks["encoder_mask"] = their_masks["encoder_padding_mask"] = mixed_mask(rng, BATCH, ENCODER_LENGTH)
    assert_close(ours(*inputs, **masks), theirs(*inputs, **their_masks))
    assert_close(
        ours(*inputs, **masks, use_causal_mask=False), theirs(*inputs, **their_masks, use_causal_mask=False)
    )


def test_the_decoder_sees_no_later_step(rng):
    inputs, encoded = normal(rng, BATCH, LENGTH, CHANNELS), normal(rng, BATCH, ENCODER_LENGTH, CHANNELS)
    block = TransformerDecoderBlock(INTERMEDIATE, NUM_HEADS)
    before = to_numpy(block(inputs, encoded))
    inputs[:, 3] *= -1.0
    after = to_numpy(block(inputs, encoded))
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert np.abs(after[:, 3:] - before[:, 3:]).max(axis=(0, 2)).min() > 1e-4


def test_attached_masks_are_the_masks_given(rng):
    """Both ways, and they reach every attention."""
    inputs, encoded = normal(rng, BATCH, LENGTH, CHANNELS), normal(rng, BATCH, ENCODER_LENGTH, CHANNELS)
    inputs[0, 3:], encoded[1, 4:] = 0, 0
    given = {"mask": np.any(inputs != 0, -1), "encoder_mask": np.any(encoded != 0, -1)}
    attached = keras.layers.Masking()(inputs), keras.layers.Masking()(encoded)
    for normalize_first in (True, False):
        for normalization in ("layer", "rms"):
            block = TransformerDecoderBlock(
                INTERMEDIATE, NUM_HEADS, normalization=normalization, normalize_first=normalize_first
            )
            expected = block(inputs, encoded, **given, return_attention_scores=True)
            assert np.all(to_numpy(expected[1])[0, :, :, 3:] == 0)
            assert np.all(to_numpy(expected[2])[1, :, :, 4:] == 0)
            assert_close(block(*attached, return_attention_scores=True), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiHeadAttention(2, 5, sliding_window=2),
        lambda: keras.layers.MultiHeadAttention(2, 5),
        lambda: keras.layers.GroupQueryAttention(6, 4, 2),
        lambda: ScaledDotProductAttention(),
    ],
    ids=["ours", "keras", "keras_grouped", "no_weights"],
)
def test_any_attention_layer(rng, make, tmp_path):
    inputs = keras.Input((LENGTH, CHANNELS))
    model = keras.Model(inputs, TransformerEncoderBlock(INTERMEDIATE, attention=make())(inputs))
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    attention, block = make(), TransformerEncoderBlock(INTERMEDIATE, attention=make())
    attention.build(sequence.shape, sequence.shape)
    block.build(sequence.shape)
    # x + attention(norm(x)), and a feed-forward network whose last kernel is zero
    for weight in block.weights:
        if "feedforward_output" in weight.path:
            weight.assign(np.zeros(weight.shape))
    attention.set_weights(block.attention.get_weights())
    normalized = keras.layers.LayerNormalization(epsilon=1e-5)(sequence)
    assert_close(block(sequence), sequence + to_numpy(attention(normalized, normalized)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(sequence), model(sequence), atol=0)


def test_dropout(rng):
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    block = TransformerEncoderBlock(INTERMEDIATE, NUM_HEADS, dropout=0.5, seed=3)
    plain = block(sequence)
    assert_close(block(sequence, training=False), plain, atol=0)
    first = to_numpy(block(sequence, training=True))
    assert np.abs(first - to_numpy(plain)).max() > 0.1
    again = TransformerEncoderBlock(INTERMEDIATE, NUM_HEADS, dropout=0.5, seed=3)
    again.build(sequence.shape)
    again.set_weights(block.get_weights())
    seeds = [w.numpy().tolist() for w in again.non_trainable_variables]
    assert len(seeds) == len({str(seed) for seed in seeds}) == 3, "no two dropouts draw the same"


def test_swiglu_is_gated(rng):
    """With a gate of zero, silu(0) = 0: nothing passes but the bias of the last dense layer."""
    sequence = normal(rng, BATCH, LENGTH, CHANNELS)
    block = TransformerEncoderBlock(INTERMEDIATE, NUM_HEADS, activation="swiglu")
    block.build(sequence.shape)
    for weight in block.weights:
        if "feedforward_gate" in weight.path or "attention_output" in weight.path:
            weight.assign(np.zeros(weight.shape))
    assert_close(block(sequence), sequence, atol=0)


INVALID = [
    (lambda: TransformerEncoderBlock(17), ValueError, "Give either `num_heads`.*Received: num_heads=None"),
    (lambda: TransformerEncoderBlock(17, 3, MultiHeadAttention(3, 5)), ValueError, "Give either `num_heads`"),
    (lambda: TransformerDecoderBlock(17), ValueError, "Give `num_heads`.*Received: num_heads=None"),
    (lambda: TransformerEncoderBlock(0, 3), ValueError, "`intermediate_dim` must be a positive integer"),
    (
        lambda: TransformerEncoderBlock(17, attention=keras.layers.Attention()),
        TypeError,
        "`attention` must be a layer that is called with 'query' and 'value'.*`call` takes inputs, mask",
    ),
    (lambda: TransformerEncoderBlock(17, attention="local"), TypeError, "`attention` must be a Keras layer"),
    (
        lambda: TransformerDecoderBlock(17, 3, cross_attention=5),
        TypeError,
        "`cross_attention` must be a Keras",
    ),
    (
        lambda: TransformerEncoderBlock(17, 3, normalization="batch"),
        ValueError,
        "`normalization` must be 'layer' or 'rms'. Received: normalization='batch'",
    ),
    (lambda: TransformerEncoderBlock(17, 3, epsilon=0), ValueError, "`epsilon` must be finite and above 0"),
    (lambda: TransformerEncoderBlock(17, 3, activation="swish_glu"), ValueError, "swish_glu"),
]


@pytest.mark.parametrize(("make", "error", "message"), INVALID)
def test_invalid_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("symbolic", [False, True])
def test_invalid_calls(symbolic):
    def sequence(*shape):
        return keras.Input(batch_shape=shape) if symbolic else np.zeros(shape, "float32")

    with pytest.raises(ValueError, match=r"`inputs` must have rank 3.*Received: inputs.shape=\(2, 12\)"):
        TransformerEncoderBlock(17, 3)(sequence(2, 12))
    with pytest.raises(ValueError, match=r"multiple of `num_heads`.*Received: num_heads=5, channels=12"):
        TransformerEncoderBlock(17, 5)(sequence(2, 5, 12))
    with pytest.raises(
        ValueError, match=r"`attention` must return as many.*12 channels in and 4 out of MultiHead"
    ):
        TransformerEncoderBlock(17, attention=MultiHeadAttention(3, 4, output_shape=4))(sequence(2, 5, 12))
    decoder = TransformerDecoderBlock(17, 3)
    decoder(sequence(2, 5, 12))
    with pytest.raises(ValueError, match=r"in every call or in none.*Received: encoder_sequence given"):
        decoder(sequence(2, 5, 12), sequence(2, 7, 12))
    decoder = TransformerDecoderBlock(17, 3)
    decoder(sequence(2, 5, 12), sequence(2, 7, 12))
    with pytest.raises(ValueError, match=r"in every call or in none.*Received: encoder_sequence missing"):
        decoder(sequence(2, 5, 12))


def test_an_attention_shared_by_two_blocks_is_saved_as_one(rng, tmp_path):
    bias = ALiBi(2)
    shared = MultiHeadAttention(2, 4, position_bias=bias)
    inputs = keras.Input((7, 8))
    x = TransformerEncoderBlock(16, attention=shared)(inputs)
    x = TransformerEncoderBlock(16, attention=shared)(x)
    model = keras.Model(
        inputs, TransformerEncoderBlock(16, attention=MultiHeadAttention(2, 4, position_bias=bias))(x)
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    first, second, third = loaded.layers[1:]
    assert first.attention is second.attention
    assert third.attention.position_bias is first.attention.position_bias
    assert len(loaded.weights) == len(model.weights)
    batch = normal(rng, 3, 7, 8)
    assert_close(loaded(batch), model(batch), atol=0, rtol=0)
