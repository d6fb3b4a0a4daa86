"""Windows and patches of images, and the blocks of Transformers for them."""

import reference_windows as reference

from cases import blocks
from cases.case import Case
from keras_attention import PatchEmbedding
from keras_attention import PatchMerging
from keras_attention import SwinBlock
from keras_attention import ViTBlock
from keras_attention import WindowAttention

BATCH, NUM_HEADS, KEY_DIM, VALUE_DIM, CHANNELS, INTERMEDIATE, WIDTH = 2, 3, 5, 7, 11, 17, 13
HEADS = {"num_heads": NUM_HEADS, "key_dim": KEY_DIM}
KEY_BIAS = ("key/bias",)  # adds the same to all logits of a row, which softmax ignores
BOTH_SIZES = frozenset({(0, 1), (0, 2)})


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def geometry(config):
    return pair(config["window_size"]), pair(config.get("shift_size", 0))


def window_attention(inputs, *, weights, config, mask=None):
    return reference.window_attention(inputs, weights, *geometry(config), mask)


def swin_block(inputs, *, weights, config, mask=None):
    options = {name: config[name] for name in blocks.OPTIONS if name in config}
    return reference.swin_block(inputs, weights, *geometry(config), **options, mask=mask)


def vit_block(inputs, *, weights, config, **masks):
    return blocks.block(inputs, weights=weights, config={"epsilon": 1e-6, **config}, **masks)


def patch_embedding(images, *, weights, config):
    return reference.patch_embedding(images, weights, pair(config["patch_size"]), config.get("flatten", True))


def patch_merging(images, *, weights, config):
    return reference.patch_merging(images, weights, config.get("epsilon", 1e-5))


def _window(name, cls, function, config, num_weights, sizes, scores, channels=CHANNELS, **more):
    """A case of images of these sizes, with the heads of all windows and the cells of one as `scores`."""
    width = config.get("output_shape", channels)
    return Case(
        name=f"{name}",
        cls=cls,
        config=config,
        shapes=((BATCH, *sizes, channels),),
        output_shape=(BATCH, *sizes, width),
        scores_shape=(BATCH, scores[0], scores[1], scores[1]),
        num_weights=num_weights,
        masks={"mask": (BATCH, *sizes)},
        keys_masked_by=("mask",),
        unmoved=KEY_BIAS,
        reference=function,
        **more,
    )


def _attention(name, config, num_weights, sizes, scores, **more):
    config = {**HEADS, **config}
    return _window(
        f"window_attention_{name}",
        WindowAttention,
        window_attention,
        config,
        num_weights,
        sizes,
        scores,
        **more,
    )


def _swin(name, config, num_weights, sizes, scores):
    config = {"intermediate_dim": INTERMEDIATE, "num_heads": NUM_HEADS, **config}
    return _window(
        f"swin_block_{name}",
        SwinBlock,
        swin_block,
        config,
        num_weights,
        sizes,
        scores,
        channels=15,
        is_zero_when_masked=False,
    )


def _vit(name, config, num_weights):
    return Case(
        name=f"vit_block_{name}",
        cls=ViTBlock,
        config={"intermediate_dim": INTERMEDIATE, "num_heads": NUM_HEADS, **config},
        shapes=(blocks.SEQUENCE,),
        output_shape=blocks.SEQUENCE,
        scores_shape=blocks.SCORES,
        num_weights=num_weights,
        masks=blocks.MASKS,
        keys_masked_by=("mask", "attention_mask"),
        is_zero_when_masked=False,
        unmoved=KEY_BIAS,
        reference=vit_block,
    )


def _patches(name, config, num_weights, sizes, output_sizes, **more):
    return Case(
        name=f"patch_embedding_{name}",
        cls=PatchEmbedding,
        config={"output_dim": WIDTH, **config},
        shapes=((BATCH, *sizes, CHANNELS),),
        output_shape=(BATCH, *output_sizes, WIDTH),
        num_weights=num_weights,
        passes_mask=False,
        reference=patch_embedding,
        **more,
    )


def _merging(name, config, num_weights, sizes, output_shape):
    return Case(
        name=f"patch_merging_{name}",
        cls=PatchMerging,
        config=config,
        shapes=((BATCH, *sizes, CHANNELS),),
        output_shape=(BATCH, *output_shape),
        num_weights=num_weights,
        passes_mask=False,
        reference=patch_merging,
    )


CASES = [
    _attention("shifted", {"window_size": (2, 3), "shift_size": (1, 2)}, 9, (4, 6), (4 * 3, 6)),
    _attention("plain", {"window_size": (2, 3)}, 9, (4, 6), (4 * 3, 6)),
    _attention("padded", {"window_size": 3, "shift_size": 2, "dropout": 0.3}, 9, (5, 7), (6 * 3, 9)),
    _attention(
        "one_axis", {"window_size": (5, 3), "shift_size": (0, 1), "value_dim": VALUE_DIM}, 9, (3, 7), (9, 9)
    ),
    _attention(
        "one_window",
        {"window_size": 7, "shift_size": 3, "use_gate": True},
        11,
        (5, 3),
        (3, 15),
        known_axes=BOTH_SIZES,
    ),
    _attention(
        "no_bias",
        {
            "window_size": 2,
            "shift_size": 1,
            "use_bias": False,
            "use_position_bias": False,
            "use_query_key_norm": True,
            "num_key_value_heads": 1,
            "output_shape": WIDTH,
        },
        6,
        (4, 6),
        (6 * 3, 4),
    ),
    _swin("shifted", {"window_size": 2, "shift_size": 1}, 17, (4, 6), (6 * 3, 4)),
    _swin("plain", {"window_size": (2, 3), "kernel_regularizer": "l2"}, 17, (4, 6), (4 * 3, 6)),
    _swin(
        "post_norm",
        {
            "window_size": 3,
            "shift_size": 1,
            "normalize_first": False,
            "activation": "silu",
            "epsilon": 1e-3,
            "dropout": 0.3,
        },
        17,
        (5, 7),
        (6 * 3, 9),
    ),
    _vit("default", {}, 16),
    _vit("rms", {"normalization": "rms", "activation": "swiglu", "use_bias": False, "dropout": 0.3}, 9),
    _patches("tokens", {"patch_size": 2}, 2, (4, 6), (6,)),
    _patches(
        "class_token",
        {"patch_size": (2, 3), "use_class_token": True, "use_position_embedding": True},
        4,
        (5, 7),
        (1 + 9,),
        known_axes=BOTH_SIZES,
    ),
    _patches(
        "class_token_alone", {"patch_size": 3, "use_class_token": True, "use_bias": False}, 2, (5, 7), (7,)
    ),
    _patches(
        "grid",
        {"patch_size": 2, "flatten": False, "use_position_embedding": True, "kernel_regularizer": "l2"},
        3,
        (4, 6),
        (2, 3),
        known_axes=BOTH_SIZES,
    ),
    _merging("default", {}, 3, (4, 6), (2, 3, 2 * CHANNELS)),
    _merging("odd", {"output_dim": WIDTH, "use_bias": True, "epsilon": 1e-3}, 4, (5, 7), (3, 4, WIDTH)),
]
