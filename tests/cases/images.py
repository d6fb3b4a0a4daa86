"""Gates of images and sequences."""

import reference_images as reference

from cases.case import Case
from keras_attention import CBAM
from keras_attention import ChannelAttention
from keras_attention import CoordinateAttention
from keras_attention import EfficientChannelAttention
from keras_attention import GlobalContext
from keras_attention import SpatialAttention
from keras_attention import SqueezeExcite

BATCH, HEIGHT, WIDTH, CHANNELS = 2, 5, 7, 11
IMAGE, SEQUENCE = (BATCH, HEIGHT, WIDTH, CHANNELS), (BATCH, 13, CHANNELS)
SHAPES = {2: IMAGE, 1: SEQUENCE}
FEW = {"ratio": 2, "divisor": 3}
"""Six units in the middle for eleven channels."""
DEFAULTS = {
    SqueezeExcite: {"use_bottleneck": True, "use_max_pool": False, "activation": "relu"},
    EfficientChannelAttention: {},
    ChannelAttention: {"activation": "relu"},
    SpatialAttention: {},
    CBAM: {"activation": "relu"},
    GlobalContext: {"activation": "relu", "fusion": "multiply"},
    CoordinateAttention: {"activation": "relu"},
}
REFERENCES = {
    SqueezeExcite: reference.squeeze_excite,
    EfficientChannelAttention: reference.efficient,
    ChannelAttention: reference.channel_attention,
    SpatialAttention: reference.spatial_attention,
    CBAM: reference.cbam,
    GlobalContext: reference.global_context,
    CoordinateAttention: reference.coordinate_attention,
}
NAMES = {
    SqueezeExcite: "squeeze_excite",
    EfficientChannelAttention: "efficient",
    ChannelAttention: "channel_gate",
    SpatialAttention: "spatial_gate",
    CBAM: "cbam",
    GlobalContext: "global_context",
    CoordinateAttention: "coordinate",
}


def _reference(cls):
    def call(inputs, *, weights, config, mask=None):
        options = {"gate_activation": "sigmoid", **DEFAULTS[cls]}
        options = {name: config.get(name, value) for name, value in options.items()}
        options = {n: reference.ACTIVATIONS[v] if "activation" in n else v for n, v in options.items()}
        return REFERENCES[cls](inputs, weights, mask, **options)

    return call


def _gate(cls, name, config, num_weights, num_spatial=2, gates=None, **more):
    shape = SHAPES[num_spatial]
    gates = gates or ((BATCH, CHANNELS),)
    has_batch_norm = config.get("use_batch_norm", cls in (SpatialAttention, CBAM, CoordinateAttention))
    return Case(
        name=f"{NAMES[cls]}_{name}",
        cls=cls,
        config=config,
        shapes=(shape,),
        output_shape=shape,
        scores_shape=gates[0],
        more_scores_shapes=gates[1:],
        num_weights=num_weights,
        num_frozen=2 if has_batch_norm else 0,
        moving=("/moving_mean", "/moving_variance") if has_batch_norm else (),
        masks={"mask": shape[:-1]},
        keys_masked_by=("mask",),
        reference=_reference(cls),
        **more,
    )


def _spatial(name, config, num_weights, num_spatial=2):
    return _gate(
        SpatialAttention, name, config, num_weights, num_spatial, (SHAPES[num_spatial][:-1],), **KINKS
    )


def _cbam(name, config, num_weights, num_spatial=2):
    gates = (BATCH, CHANNELS), SHAPES[num_spatial][:-1]
    return _gate(CBAM, name, config, num_weights, num_spatial, gates, **KINKS)


def _context(name, config, num_weights, num_spatial=2, **more):
    return _gate(GlobalContext, name, config, num_weights, num_spatial, (SHAPES[num_spatial][:-1],), **more)


def _coordinate(name, config, num_weights):
    gates = (BATCH, HEIGHT, CHANNELS), (BATCH, WIDTH, CHANNELS)
    return _gate(CoordinateAttention, name, config, num_weights, 2, gates, gradient_tolerance=0.05)  # ReLU


KINKS = {"gradient_tolerance": 0.01}
"""Maxima and ReLU."""

CASES = [
    _gate(SqueezeExcite, "default", {}, 4),
    _gate(SqueezeExcite, "sequence", {**FEW, "activation": "silu", "use_max_pool": True}, 4, 1, **KINKS),
    _gate(
        SqueezeExcite,
        "effective",
        {"use_bottleneck": False, "gate_activation": "hard_sigmoid", "kernel_regularizer": "l2"},
        2,
    ),
    _gate(EfficientChannelAttention, "default", {}, 1),
    _gate(EfficientChannelAttention, "sequence", {"kernel_size": 5, "use_bias": True}, 2, 1),
    _gate(ChannelAttention, "default", {}, 4, **KINKS),
    _gate(
        ChannelAttention,
        "sequence",
        {**FEW, "use_bias": False, "kernel_constraint": "max_norm"},
        2,
        1,
        **KINKS,
    ),
    _spatial("default", {}, 3),
    _spatial("sequence", {"kernel_size": 3, "use_batch_norm": False}, 2, 1),
    _spatial("no_bias", {"kernel_size": 3, "use_batch_norm": False, "use_bias": False}, 1),
    _cbam("default", {}, 7),
    _cbam("sequence", {**FEW, "kernel_size": 5, "use_batch_norm": False, "use_bias": False}, 3, 1),
    _context("default", {}, 7),
    _context("sequence", {**FEW, "use_layer_norm": False, "gate_activation": "hard_sigmoid"}, 5, 1),
    _context("add", {**FEW, "fusion": "add", "use_bias": False}, 5, is_zero_when_masked=False),
    _coordinate("default", {}, 7),
    _coordinate("no_batch_norm", {**FEW, "use_batch_norm": False, "activation": "silu"}, 6),
]
