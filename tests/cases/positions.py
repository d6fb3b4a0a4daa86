"""Positions: encodings of inputs, rotations, biases of logits."""

import reference_positions as reference

from cases.case import Case
from keras_attention import ALiBi
from keras_attention import LearnedPositionEmbedding
from keras_attention import RelativePositionBias
from keras_attention import RotaryEmbedding
from keras_attention import SinusoidalPositionEncoding

BATCH, LENGTH, KEY_LENGTH, NUM_HEADS, CHANNELS, HEIGHT, WIDTH = 2, 5, 7, 3, 11, 5, 3
SEQUENCE = (BATCH, LENGTH, CHANNELS)
LOGITS = (BATCH, NUM_HEADS, LENGTH, KEY_LENGTH)
WINDOW = (BATCH, NUM_HEADS, HEIGHT * WIDTH, HEIGHT * WIDTH)


def sinusoidal(inputs, *, weights, config, start_index=0):
    return inputs + reference.sinusoidal(*inputs.shape[1:], **config, start=start_index)


def learned(inputs, *, weights, config, start_index=0):
    return inputs + weights["embeddings"][start_index : start_index + inputs.shape[1]]


def rotary(inputs, *, weights, config, start_index=0):
    return reference.rotary(inputs, **config, start=start_index)


def alibi(logits, *, weights, config):
    return logits + reference.alibi(config["num_heads"], *logits.shape[2:], config.get("max_bias", 8))


def relative(logits, *, weights, config):
    if "window_size" in config:
        return logits + reference.relative_window(weights["embeddings"], *config["window_size"])
    options = {n: v for n, v in config.items() if n not in ("num_heads", "initializer")}
    return logits + reference.relative(weights["embeddings"], *logits.shape[2:], **options)


def _case(name, cls, config, shape, reference, num_weights=0, **more):
    return Case(
        name=name,
        cls=cls,
        config=config,
        shapes=(shape,),
        output_shape=shape,
        num_weights=num_weights,
        reference=reference,
        **more,
    )


def _relative(name, config, shape=LOGITS, **more):
    config = {"num_heads": NUM_HEADS, **config}
    return _case(f"relative_bias_{name}", RelativePositionBias, config, shape, relative, 1, **more)


HEADS = frozenset({(0, 1)})
CASES = [
    _case("sinusoidal_default", SinusoidalPositionEncoding, {}, SEQUENCE, sinusoidal),
    _case(
        "sinusoidal_start",
        SinusoidalPositionEncoding,
        {"max_wavelength": 100},
        SEQUENCE,
        sinusoidal,
        call={"start_index": 3},
    ),
    _case("learned_position", LearnedPositionEmbedding, {"sequence_length": 13}, SEQUENCE, learned, 1),
    _case(
        "learned_position_start",
        LearnedPositionEmbedding,
        {"sequence_length": 13, "initializer": "ones"},
        SEQUENCE,
        learned,
        1,
        call={"start_index": 2},
    ),
    _case("rotary_heads", RotaryEmbedding, {}, (BATCH, LENGTH, NUM_HEADS, 14), rotary),
    _case(
        "rotary_scaled",
        RotaryEmbedding,
        {"max_wavelength": 100, "scaling_factor": 2.5},
        (BATCH, LENGTH, 14),
        rotary,
        call={"start_index": 3},
    ),
    _case(
        "rotary_axes",
        RotaryEmbedding,
        {"sequence_axis": 3, "feature_axis": 1},
        (BATCH, 14, NUM_HEADS, LENGTH),
        rotary,
        known_axes=HEADS,
    ),
    _case("alibi_default", ALiBi, {"num_heads": NUM_HEADS}, LOGITS, alibi, known_axes=HEADS),
    _case(
        "alibi_max_bias",
        ALiBi,
        {"num_heads": 4, "max_bias": 5.0},
        (BATCH, 4, LENGTH, KEY_LENGTH),
        alibi,
        known_axes=HEADS,
    ),
    _relative("default", {}, known_axes=HEADS),
    _relative("causal", {"num_buckets": 6, "max_distance": 5, "bidirectional": False}, known_axes=HEADS),
    _relative(
        "window",
        {"window_size": (HEIGHT, WIDTH), "initializer": "zeros"},
        WINDOW,
        known_axes=HEADS | {(0, 2)},
    ),
]
