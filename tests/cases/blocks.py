"""Transformer blocks."""

import reference_blocks as reference

from cases.case import Case
from keras_attention import MultiHeadAttention
from keras_attention import TransformerDecoderBlock
from keras_attention import TransformerEncoderBlock

BATCH, LENGTH, ENCODER_LENGTH, NUM_HEADS, CHANNELS, ENCODER_CHANNELS, INTERMEDIATE = 2, 5, 7, 3, 15, 11, 17
SEQUENCE = (BATCH, LENGTH, CHANNELS)
ENCODED = (BATCH, ENCODER_LENGTH, ENCODER_CHANNELS)
SCORES = (BATCH, NUM_HEADS, LENGTH, LENGTH)
CROSS_SCORES = (BATCH, NUM_HEADS, LENGTH, ENCODER_LENGTH)
MASKS = {"mask": (BATCH, LENGTH), "attention_mask": (BATCH, LENGTH, LENGTH), "use_causal_mask": ()}
ENCODER_MASKS = {
    "encoder_mask": (BATCH, ENCODER_LENGTH),
    "encoder_attention_mask": (BATCH, LENGTH, ENCODER_LENGTH),
}
KEY_BIAS = ("attention/key/bias",)  # adds the same to all logits of a row, which softmax ignores
OPTIONS = ("activation", "normalization", "normalize_first", "epsilon")


def injected():
    """Attention as a user makes it, with a name of his own."""
    return MultiHeadAttention(NUM_HEADS, 13, sliding_window=2, use_bias=False, name="own")


def block(*inputs, weights, config, **masks):
    options = {name: config[name] for name in OPTIONS if name in config}
    names = ("own",) if "attention" in config else ("attention", "cross_attention")
    window = config["attention"].sliding_window if "attention" in config else None
    return reference.block(*inputs, weights=weights, names=names, sliding_window=window, **options, **masks)


def decoder(*inputs, **arguments):
    return block(*inputs, **{"use_causal_mask": True, **arguments})


def _encoder(name, config, num_weights):
    return Case(
        name=f"encoder_block_{name}",
        cls=TransformerEncoderBlock,
        config={"intermediate_dim": INTERMEDIATE, **config},
        shapes=(SEQUENCE,),
        output_shape=SEQUENCE,
        scores_shape=SCORES,
        num_weights=num_weights,
        masks=MASKS,
        keys_masked_by=("mask", "attention_mask"),
        is_zero_when_masked=False,
        unmoved=KEY_BIAS,
        reference=block,
    )


def _decoder(name, config, num_weights, shapes, masks, **more):
    return Case(
        name=f"decoder_block_{name}",
        cls=TransformerDecoderBlock,
        config={"intermediate_dim": INTERMEDIATE, **config},
        shapes=shapes,
        output_shape=SEQUENCE,
        scores_shape=SCORES,
        num_weights=num_weights,
        masks=masks,
        keys_masked_by=tuple(name for name in ("mask", "attention_mask") if name in masks),
        is_zero_when_masked=False,
        unmoved=KEY_BIAS,
        reference=decoder,
        **more,
    )


HEADS = {"num_heads": NUM_HEADS}
RMS = {"normalization": "rms", "activation": "swiglu", "use_bias": False, "dropout": 0.3, "seed": 7}
CASES = [
    _encoder("default", HEADS, 16),
    _encoder("post_norm", {**HEADS, "normalize_first": False, "activation": "relu", "epsilon": 1e-3}, 16),
    _encoder("rms", {**HEADS, **RMS}, 9),
    _encoder("injected", {"attention": injected, "kernel_regularizer": "l2"}, 12),
    _decoder("alone", {**HEADS, **RMS}, 9, (SEQUENCE,), MASKS),
    _decoder(
        "cross",
        HEADS,
        26,
        (SEQUENCE, ENCODED),
        {**MASKS, **ENCODER_MASKS},
        more_scores_shapes=(CROSS_SCORES,),
    ),
    _decoder(
        "post_norm",
        {**HEADS, "normalize_first": False, "activation": "silu"},
        26,
        (SEQUENCE, ENCODED),
        ENCODER_MASKS,
        more_scores_shapes=(CROSS_SCORES,),
        call={"use_causal_mask": False},
    ),
]
