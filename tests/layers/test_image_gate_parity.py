"""Gates against the modules of timm, with the weights of these, on images whose channels are first there."""

import importlib

import keras
import numpy as np
import pytest
from contract import normal
from contract import to_numpy
from published import import_timm

from keras_attention import CBAM
from keras_attention import CoordinateAttention
from keras_attention import EfficientChannelAttention
from keras_attention import GlobalContext
from keras_attention import SqueezeExcite

torch = pytest.importorskip("torch")


def timm_module(name):
    """The module `timm.layers.<name>`."""
    return importlib.import_module(f"{import_timm().__name__}.layers.{name}")


BATCH, HEIGHT, WIDTH, CHANNELS = 2, 7, 5, 72
SE = {
    "hidden_kernel": "fc1.weight",
    "hidden_bias": "fc1.bias",
    "gate_kernel": "fc2.weight",
    "gate_bias": "fc2.bias",
}
BATCH_NORM = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
CONTEXT = {
    "key_kernel": "conv_attn.weight",
    **{name: f"mlp.{other}" for name, other in SE.items()},
    "layer_norm/gamma": "mlp.norm.weight",
    "layer_norm/beta": "mlp.norm.bias",
}
"""Our weight -> that of timm."""
CASES = {
    "se": (SqueezeExcite, {}, "squeeze_excite.SEModule", {}, SE),
    "se_max": (
        SqueezeExcite,
        {"ratio": 4, "use_max_pool": True},
        "squeeze_excite.SEModule",
        {"rd_ratio": 1 / 4, "add_maxpool": True},
        SE,
    ),
    "effective_se": (
        SqueezeExcite,
        {"use_bottleneck": False, "gate_activation": "hard_sigmoid"},
        "squeeze_excite.EffectiveSEModule",
        {},
        {"gate_kernel": "fc.weight", "gate_bias": "fc.bias"},
    ),
    "eca": (EfficientChannelAttention, {}, "eca.EcaModule", {}, {"kernel": "conv.weight"}),
    "eca_5": (
        EfficientChannelAttention,
        {"kernel_size": 5},
        "eca.EcaModule",
        {"channels": None, "kernel_size": 5},
        {"kernel": "conv.weight"},
    ),
    "cbam": (
        CBAM,
        {"divisor": 1, "use_bias": False},
        "cbam.CbamModule",
        {},
        {
            "channel_attention/hidden_kernel": "channel.fc1.weight",
            "channel_attention/gate_kernel": "channel.fc2.weight",
            "spatial_attention/kernel": "spatial.conv.conv.weight",
            **{
                f"spatial_attention/batch_norm/{name}": f"spatial.conv.bn.{other}"
                for name, other in BATCH_NORM.items()
            },
        },
    ),
    "global_context": (
        GlobalContext,
        {"ratio": 8, "divisor": 1},
        "global_context.GlobalContext",
        {},
        {name: other.replace("mlp", "mlp_scale") for name, other in CONTEXT.items()},
    ),
    "global_context_added": (
        GlobalContext,
        {"ratio": 8, "divisor": 1, "fusion": "add"},
        "global_context.GlobalContext",
        {"fuse_add": True, "fuse_scale": False},
        {name: other.replace("mlp", "mlp_add") for name, other in CONTEXT.items()},
    ),
    "coordinate": (
        CoordinateAttention,
        {"use_bias": False, "activation": "hard_swish"},
        "coord_attn.CoordAttn",
        {"se_factor": 1},
        {
            "hidden_kernel": "conv1.weight",
            **{f"batch_norm/{name}": f"bn1.{other}" for name, other in BATCH_NORM.items()},
            "row_kernel": "conv_h.weight",
            "column_kernel": "conv_w.weight",
        },
    ),
}


def moved(value, shape):
    """A kernel of torch, outputs first, in the form of Keras."""
    value = value.numpy()
    if value.ndim == 4 and len(shape) == 4:
        return value.transpose(2, 3, 1, 0)
    return value.reshape(value.shape[:2]).T if len(shape) == 2 else value.reshape(shape)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of timm's imports
@pytest.mark.parametrize("name", CASES)
def test_equals_timm(rng, name):
    cls, config, path, arguments, names = CASES[name]
    module_name, _, class_name = path.partition(".")
    torch.manual_seed(5)
    other = getattr(timm_module(module_name), class_name)(**{"channels": CHANNELS, **arguments}).eval()
    state = other.state_dict()
    for key, value in state.items():
        if value.is_floating_point():
            random = torch.rand(value.shape) + 0.5 if "running_var" in key else torch.randn(value.shape) * 0.3
            state[key] = random
    other.load_state_dict(state)
    inputs = normal(rng, BATCH, HEIGHT, WIDTH, CHANNELS)
    layer = cls(**config, name="layer")
    layer.build(inputs.shape)
    assert {w.path.removeprefix("layer/") for w in layer.weights} == set(names)
    for weight in layer.weights:
        weight.assign(moved(state[names[weight.path.removeprefix("layer/")]], weight.shape))
    with torch.no_grad():
        expected = other(torch.tensor(inputs.transpose(0, 3, 1, 2))).numpy().transpose(0, 2, 3, 1)
    assert np.abs(expected - inputs).max() > 0.1
    np.testing.assert_allclose(to_numpy(layer(inputs)), expected, atol=1e-5)


def test_bottlenecks_are_rounded_as_by_timm():
    make_divisible = timm_module("helpers").make_divisible
    for channels in (3, 16, 24, 72, 96, 100, 256, 1000):
        for ratio, divisor in ((16, 8), (4, 8), (2, 1), (8, 3)):
            layer = SqueezeExcite(ratio, divisor)
            layer.build((None, 5, 5, channels))
            assert layer.hidden_kernel.shape[1] == make_divisible(channels / ratio, divisor, round_limit=0.0)


def test_kernel_of_efficient_attention_is_that_of_timm():
    module = timm_module("eca").EcaModule
    for channels in (8, 16, 64, 72, 256, 512, 4096):
        layer = EfficientChannelAttention()
        layer.build((None, 5, channels))
        assert layer.kernel.shape == tuple(module(channels).conv.weight.shape[2:])
    layer = EfficientChannelAttention()
    layer.build((None, 5, 4))
    assert layer.kernel.shape == (1,), "as in the paper; timm takes 3"
    assert keras.backend.standardize_dtype(layer.kernel.dtype) == "float32"
