"""Attention over one sequence or between two."""

import reference
import reference_positions

from cases.case import Case
from keras_attention import ALiBi
from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention import RelativePositionBias
from keras_attention import RotaryEmbedding
from keras_attention import ScaledDotProductAttention

BATCH, QUERY_LENGTH, KEY_LENGTH, NUM_HEADS = 2, 5, 7, 3
CHANNELS, VALUE_CHANNELS, KEY_CHANNELS, UNITS, KEY_DIM, VALUE_DIM = 11, 13, 17, 29, 19, 23
QUERY, VALUE, KEY = (
    (BATCH, QUERY_LENGTH, CHANNELS),
    (BATCH, KEY_LENGTH, VALUE_CHANNELS),
    (BATCH, KEY_LENGTH, KEY_CHANNELS),
)
PAIRS = (BATCH, QUERY_LENGTH, KEY_LENGTH)
MASKS = {
    "query_mask": (BATCH, QUERY_LENGTH),
    "value_mask": (BATCH, KEY_LENGTH),
    "key_mask": (BATCH, KEY_LENGTH),
    "attention_mask": PAIRS,
    "use_causal_mask": (),
}
KEYS = ("value_mask", "key_mask", "attention_mask")
KEY_BIAS = ("key/bias",)  # adds the same to all logits of a row, which softmax ignores


def bahdanau(query, value, key, *, weights, config, **masks):
    return reference.bahdanau(query, value, key, **weights, **masks)


def bahdanau_step(query, value, *, weights, config, **masks):
    for name in masks.keys() & {"query_mask", "attention_mask"}:
        masks[name] = masks[name][:, None]
    context, scores = reference.bahdanau(query[:, None], value, **weights, **masks)
    return context[:, 0], scores[:, 0]


def scaled_dot_product(query, value, key, *, weights, config, **masks):
    scale = weights.get("scale", config.get("scale"))
    return reference.scaled_dot_product(query, value, key, scale=scale, **masks)


def multi_head(query, value, key=None, *, weights, config, **masks):
    masks["sliding_window"] = config.get("sliding_window")
    rotate = reference_positions.rotary if "rotary" in config else None
    sizes, bias = (query.shape[1], value.shape[1]), config.get("position_bias")
    if isinstance(bias, ALiBi):
        bias = reference_positions.alibi(bias.num_heads, *sizes)
    elif isinstance(bias, RelativePositionBias):
        bias = reference_positions.relative(weights["bias/embeddings"], *sizes, num_buckets=8, max_distance=5)
    output, scores, _ = reference.multi_head(query, value, key, weights, rotate, bias, **masks)
    return output, scores


def _multi_head(name, config, num_weights, features=(CHANNELS,), unmoved=KEY_BIAS, **more):
    return Case(
        name=f"multi_head_{name}",
        cls=MultiHeadAttention,
        config={"num_heads": NUM_HEADS, "key_dim": KEY_DIM, **config},
        shapes=(QUERY, VALUE, KEY),
        output_shape=(BATCH, QUERY_LENGTH, *features),
        scores_shape=(BATCH, config.get("num_heads", NUM_HEADS), QUERY_LENGTH, KEY_LENGTH),
        num_weights=num_weights,
        masks=MASKS,
        keys_masked_by=KEYS,
        unmoved=unmoved,
        reference=multi_head,
        **more,
    )


def _bahdanau(name, config, num_weights):
    return Case(
        name=f"bahdanau_{name}",
        cls=BahdanauAttention,
        config={"units": UNITS, **config},
        shapes=(QUERY, VALUE, KEY),
        output_shape=(BATCH, QUERY_LENGTH, VALUE_CHANNELS),
        scores_shape=PAIRS,
        num_weights=num_weights,
        masks=MASKS,
        keys_masked_by=KEYS,
        reference=bahdanau,
    )


def _scaled_dot_product(name, config, num_weights):
    return Case(
        name=f"scaled_dot_product_{name}",
        cls=ScaledDotProductAttention,
        config=config,
        shapes=(QUERY, VALUE, (BATCH, KEY_LENGTH, CHANNELS)),
        output_shape=(BATCH, QUERY_LENGTH, VALUE_CHANNELS),
        scores_shape=PAIRS,
        num_weights=num_weights,
        masks=MASKS,
        keys_masked_by=KEYS,
        reference=scaled_dot_product,
    )


CASES = [
    _bahdanau("default", {}, 3),
    _bahdanau("bias", {"use_bias": True, "dropout": 0.3, "kernel_regularizer": "l2"}, 4),
    Case(
        name="bahdanau_step",
        cls=BahdanauAttention,
        config={"units": UNITS},
        shapes=((BATCH, CHANNELS), VALUE),
        output_shape=(BATCH, VALUE_CHANNELS),
        scores_shape=(BATCH, KEY_LENGTH),
        num_weights=3,
        masks={
            "query_mask": (BATCH,),
            "value_mask": (BATCH, KEY_LENGTH),
            "attention_mask": (BATCH, KEY_LENGTH),
        },
        keys_masked_by=("value_mask", "attention_mask"),
        reference=bahdanau_step,
    ),
    _scaled_dot_product("default", {}, 0),
    _scaled_dot_product("learned_scale", {"use_scale": True, "dropout": 0.3}, 1),
    _multi_head("default", {}, 8),
    _multi_head(
        "no_bias",
        {"use_bias": False, "value_dim": VALUE_DIM, "output_shape": 31, "dropout": 0.3},
        4,
        (31,),
    ),
    _multi_head(
        "gate", {"use_gate": True, "output_shape": [31, 37], "kernel_constraint": "max_norm"}, 10, (31, 37)
    ),
    _multi_head("window", {"sliding_window": 2}, 8),
    _multi_head(
        "grouped", {"num_heads": 6, "num_key_value_heads": 2, "value_dim": VALUE_DIM, "use_gate": True}, 10
    ),
    _multi_head("multi_query", {"num_key_value_heads": 1, "use_bias": False, "sliding_window": 3}, 4),
    _multi_head(
        "rotary",
        {
            "key_dim": 14,
            "num_heads": 6,
            "num_key_value_heads": 3,
            "use_query_key_norm": True,
            "rotary": lambda: RotaryEmbedding(),
        },
        10,
        unmoved=(),
    ),
    _multi_head("alibi", {"position_bias": lambda: ALiBi(NUM_HEADS), "num_key_value_heads": 1}, 8),
    _multi_head(
        "relative_bias",
        {
            "position_bias": lambda: RelativePositionBias(
                NUM_HEADS, num_buckets=8, max_distance=5, name="bias"
            ),
            "dropout": 0.3,
        },
        9,
    ),
    _multi_head("blocks", {"block_size": 2, "value_dim": VALUE_DIM}, 8),
    _multi_head("blocks_alibi", {"block_size": 2, "position_bias": lambda: ALiBi(NUM_HEADS)}, 8),
    _multi_head(
        "blocks_grouped", {"block_size": 3, "num_key_value_heads": 1, "dropout": 0.3, "use_gate": True}, 10
    ),
]
