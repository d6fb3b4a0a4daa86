"""Attention for long sequences, on sequences of a few blocks and a bit."""

import reference
import reference_long_sequences

from cases.case import Case
from keras_attention import LinearAttention
from keras_attention import LocalAttention

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

    def attend(query, value, key, **masks):
        return reference_long_sequences.linear(query, value, key, (features, features), **masks)

    return reference.multi_head(query, value, key, weights, attend, **masks)[:2]


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

CASES = [
    _local("default", {"window_size": 3}),
    _local("wide_window", {"window_size": 18, "use_gate": True, "value_dim": VALUE_DIM}, 10),
    _local("global_tokens", {"window_size": 2, "num_global_tokens": 3, "dropout": 0.3}),
    _local("one_block", {"window_size": 41, "use_bias": False, "output_shape": 19}, 4, features=(19,)),
    _linear("default", {}, **_lengths(67)),  # more than one chunk
    _linear(
        "relu",
        {"feature_map": "relu", "use_gate": True, "output_shape": (3, 2), "value_dim": VALUE_DIM},
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
]
