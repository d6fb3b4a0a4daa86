"""Attention for long sequences, on sequences of a few blocks and a bit."""

import numpy as np
import reference
import reference_long_sequences

from cases.case import Case
from keras_attention import AxialAttention
from keras_attention import LinearAttention
from keras_attention import LocalAttention
from keras_attention import SparseAttention

BATCH, LENGTH, NUM_HEADS, KEY_DIM, VALUE_DIM = 2, 37, 3, 5, 7
CHANNELS, VALUE_CHANNELS, KEY_CHANNELS = 11, 13, 17
SHAPES = tuple((BATCH, LENGTH, c) for c in (CHANNELS, VALUE_CHANNELS, KEY_CHANNELS))
POSITIONS = dict.fromkeys(("query_mask", "value_mask", "key_mask"), (BATCH, LENGTH))
MASKS = {**POSITIONS, "use_causal_mask": ()}
KEY_BIAS = ("key/bias",)  # adds the same to all logits of a row, which softmax ignores


def local(query, value, key, *, weights, config, **masks):
    pairs = reference_long_sequences.local_pairs(
        query.shape[1], config["window_size"], config.get("num_global_tokens", 0)
    )
    return reference.multi_head(query, value, key, weights, attention_mask=pairs, **masks)[:2]


def linear(query, value, key, *, weights, config, **masks):
    features = {
        "elu": lambda: reference_long_sequences.elu,
        "relu": lambda: reference_long_sequences.relu,
        "performer": lambda: reference_long_sequences.performer(weights["random_features"]),
    }[config.get("feature_map", "elu")]()

    def attend(query, value, key, bias, **masks):
        return reference_long_sequences.linear(query, value, key, (features, features), **masks)

    return reference.multi_head(query, value, key, weights, attend=attend, **masks)[:2]


def sparse(query, value, key, *, weights, config, **masks):
    size, pattern = config["block_size"], config["pattern"]
    pairs = reference_long_sequences.sparse_pairs(query.shape[1], size, pattern, config.get("num_columns", 1))
    return reference.multi_head(query, value, key, weights, attention_mask=pairs, **masks)[:2]


def routed(query, value, key, *, weights, config, **masks):
    key_masks = [masks[name] for name in ("value_mask", "key_mask") if name in masks]
    routing = {name: masks[name] for name in ("query_mask", "use_causal_mask") if name in masks}
    if key_masks:
        routing["key_mask"] = key_masks[0] & key_masks[-1]

    def attend(query, value, key, bias, **masks):
        pairs = reference_long_sequences.routed_pairs(
            query, key, config["block_size"], config.get("num_blocks", 4), **routing
        )
        return reference.scaled_dot_product(query, value, key, attention_mask=pairs, **masks)

    return reference.multi_head(query, value, key, weights, attend=attend, **masks)[:2]


def axial(inputs, *, weights, config, mask=None):
    """Row by row, then column by column."""
    for step, axis in (("row", 1), ("column", 2)):
        own = {n.removeprefix(f"{step}_attention/"): w for n, w in weights.items() if n.startswith(step)}
        lines = []
        for index in range(inputs.shape[axis]):
            masks = {}
            if mask is not None:
                line_mask = np.take(mask, index, axis)
                masks = {"query_mask": line_mask, "value_mask": line_mask}
            line = np.take(inputs, index, axis)
            lines.append(reference.multi_head(line, line, None, own, **masks)[0])
        inputs = np.stack(lines, axis)
    return inputs


def _case(name, cls, reference, config, num_weights=8, features=(CHANNELS,), shapes=SHAPES, **more):
    return Case(
        name=name,
        cls=cls,
        config={"num_heads": NUM_HEADS, "key_dim": KEY_DIM, **config},
        shapes=shapes,
        output_shape=(*shapes[0][:2], *features),
        scores_shape=(BATCH, NUM_HEADS, shapes[0][1], shapes[1][1]),
        num_weights=num_weights,
        **{"masks": MASKS, **more},
        keys_masked_by=("value_mask", "key_mask"),
        reference=reference,
    )


def _local(name, config, num_weights=8, **more):
    return _case(f"local_{name}", LocalAttention, local, config, num_weights, unmoved=KEY_BIAS, **more)


def _linear(name, config, num_weights=8, **more):
    return _case(f"linear_{name}", LinearAttention, linear, config, num_weights, **more)


def _lengths(length):
    """Shapes and masks of sequences of another length."""
    shapes = tuple((*shape[:1], length, *shape[2:]) for shape in SHAPES)
    return {"shapes": shapes, "masks": {name: MASKS[name] and (BATCH, length) for name in MASKS}}


CROSS = ((BATCH, 5, CHANNELS), (BATCH, 7, VALUE_CHANNELS), (BATCH, 7, KEY_CHANNELS))


def _sparse(name, config, num_weights=8, reference=sparse, **more):
    return _case(
        f"sparse_{name}",
        SparseAttention,
        reference,
        config,
        num_weights,
        unmoved=KEY_BIAS,
        **_lengths(19),
        **more,
    )


def _axial(name, config, num_weights, features=(CHANNELS,)):
    return Case(
        name=f"axial_{name}",
        cls=AxialAttention,
        config={"num_heads": NUM_HEADS, "key_dim": KEY_DIM, **config},
        shapes=((BATCH, 5, 7, CHANNELS),),
        output_shape=(BATCH, 5, 7, *features),
        num_weights=num_weights,
        masks={"mask": (BATCH, 5, 7)},
        keys_masked_by=("mask",),
        unmoved=KEY_BIAS,
        reference=axial,
    )


CASES = [
    _local("default", {"window_size": 3}),
    _local("wide_window", {"window_size": 18, "use_gate": True, "value_dim": VALUE_DIM}, 10),
    _local("global_tokens", {"window_size": 2, "num_global_tokens": 3, "dropout": 0.3}),
    _local("shared_heads", {"window_size": 5, "num_key_value_heads": 1}),
    _local("one_block", {"window_size": 41, "use_bias": False, "output_shape": 19}, 4, features=(19,)),
    _linear("default", {}, **_lengths(67)),  # more than one chunk
    _linear(
        "relu",
        {
            "feature_map": "relu",
            "key_dim": 13,
            "use_gate": True,
            "output_shape": (3, 2),
            "value_dim": VALUE_DIM,
        },
        10,
        features=(3, 2),
        **_lengths(7),  # more numbers are nearer to the corner of the ReLU than a difference quotient may be
    ),
    _linear("performer", {"feature_map": "performer", "dropout": 0.3, "use_bias": False}, 4, num_frozen=1),
    _linear(
        "two_sequences",
        {"feature_map": "performer", "num_features": 23},
        num_frozen=1,
        shapes=CROSS,
        masks={"query_mask": (BATCH, 5), "value_mask": (BATCH, 7), "key_mask": (BATCH, 7)},
    ),
    _sparse("strided", {"block_size": 5, "pattern": "strided"}),
    _sparse("fixed", {"block_size": 5, "pattern": "fixed", "num_columns": 2, "dropout": 0.3}),
    _sparse("block", {"block_size": 5, "pattern": "block", "use_gate": True, "value_dim": VALUE_DIM}, 10),
    # sizes for which no choice of a block is so close that the rounding of bfloat16 decides it
    _sparse("top_k", {"block_size": 5, "pattern": "top_k", "num_blocks": 2}, reference=routed),
    _sparse(
        "top_k_no_bias",
        {"block_size": 3, "pattern": "top_k", "use_bias": False, "output_shape": 23},
        4,
        reference=routed,
        features=(23,),
    ),
    _axial("default", {"dropout": 0.3}, 16),
    _axial("no_bias", {"use_bias": False, "output_shape": 13, "value_dim": VALUE_DIM}, 8, (13,)),
]
