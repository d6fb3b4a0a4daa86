"""Attention of recurrent models: Luong's scores, and pooling of a sequence into a vector."""

import reference_pooling as reference

from cases.attention import BATCH
from cases.attention import CHANNELS
from cases.attention import KEY_LENGTH
from cases.attention import KEYS
from cases.attention import MASKS
from cases.attention import PAIRS
from cases.attention import QUERY_LENGTH
from cases.attention import UNITS
from cases.attention import VALUE_CHANNELS
from cases.case import Case
from keras_attention import AttentionPooling
from keras_attention import LuongAttention

KEY_CHANNELS, OUTPUT_UNITS, NUM_HEADS, KEY_DIM = 17, 19, 3, 5


def luong(query, value, key=None, *, weights, config, **masks):
    return reference.luong(query, value, key, weights=weights, score=config.get("score", "dot"), **masks)


def luong_step(query, value, *, weights, config, **masks):
    for name in masks.keys() & {"query_mask", "attention_mask"}:
        masks[name] = masks[name][:, None]
    output, scores = luong(query[:, None], value, weights=weights, config=config, **masks)
    return output[:, 0], scores[:, 0]


def pool(inputs, *, weights, config, mask=None):
    return reference.pool(inputs, weights=weights, mask=mask, **config)


def _luong(name, config, num_weights, key_channels=KEY_CHANNELS):
    units = config.get("output_units")
    return Case(
        name=f"luong_{name}",
        cls=LuongAttention,
        config=config,
        shapes=(
            (BATCH, QUERY_LENGTH, CHANNELS),
            (BATCH, KEY_LENGTH, VALUE_CHANNELS),
            (BATCH, KEY_LENGTH, key_channels),
        ),
        output_shape=(BATCH, QUERY_LENGTH, units or VALUE_CHANNELS),
        scores_shape=PAIRS,
        num_weights=num_weights,
        masks=MASKS,
        keys_masked_by=KEYS,
        is_zero_when_masked=units is None,
        reference=luong,
    )


def _pooling(name, config, num_weights):
    units = config.get("output_units")
    return Case(
        name=f"pooling_{name}",
        cls=AttentionPooling,
        config=config,
        shapes=((BATCH, KEY_LENGTH, CHANNELS),),
        output_shape=(BATCH, units or CHANNELS),
        scores_shape=(BATCH, config.get("num_heads", 1), KEY_LENGTH),
        num_weights=num_weights,
        masks={"mask": (BATCH, KEY_LENGTH)},
        keys_masked_by=("mask",),
        passes_mask=False,
        reference=pool,
    )


HEADS = {"num_heads": NUM_HEADS, "key_dim": KEY_DIM}

CASES = [
    _luong("dot", {}, 0, CHANNELS),
    _luong("general", {"score": "general", "output_units": OUTPUT_UNITS, "kernel_regularizer": "l2"}, 2),
    _luong(
        "concat",
        {"score": "concat", "units": UNITS, "output_units": OUTPUT_UNITS, "use_bias": True, "dropout": 0.3},
        6,
    ),
    _luong("concat_context", {"score": "concat", "units": UNITS}, 3),
    Case(
        name="luong_step",
        cls=LuongAttention,
        config={"score": "general", "output_units": OUTPUT_UNITS},
        shapes=((BATCH, CHANNELS), (BATCH, KEY_LENGTH, VALUE_CHANNELS)),
        output_shape=(BATCH, OUTPUT_UNITS),
        scores_shape=(BATCH, KEY_LENGTH),
        num_weights=2,
        masks={
            "query_mask": (BATCH,),
            "value_mask": (BATCH, KEY_LENGTH),
            "attention_mask": (BATCH, KEY_LENGTH),
        },
        keys_masked_by=("value_mask", "attention_mask"),
        is_zero_when_masked=False,
        reference=luong_step,
    ),
    _pooling("default", {}, 1),
    _pooling("additive", {"score": "additive", "use_bias": True, "kernel_regularizer": "l2"}, 3),
    _pooling("last_dot", {"query": "last", "output_units": OUTPUT_UNITS, "use_bias": True}, 2),
    _pooling("last_general", {"query": "last", "score": "general", "output_units": OUTPUT_UNITS}, 2),
    _pooling("last_additive", {"query": "last", "score": "additive", "dropout": 0.3}, 3),
    _pooling("heads", HEADS, 4),
    _pooling("one_head", {"key_dim": KEY_DIM, "use_bias": True, "output_units": OUTPUT_UNITS}, 7),
    _pooling("heads_last", {**HEADS, "query": "last", "kernel_constraint": "max_norm"}, 4),
    _pooling("heads_additive", {**HEADS, "score": "additive", "use_bias": True, "dropout": 0.3}, 6),
    _pooling("heads_last_additive", {**HEADS, "query": "last", "score": "additive", "use_bias": True}, 7),
]
