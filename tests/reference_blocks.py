"""Transformer blocks written independently, in NumPy and float64, over the reference of their attention."""

import math

import numpy as np
import reference

ACTIVATIONS = {
    "gelu": np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def norm(x, weights, name, normalization, epsilon):
    """Layer norm, or the root mean square alone, over the channels."""
    if normalization == "rms":
        return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + epsilon) * weights[f"{name}/scale"]
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt(np.mean(centered**2, -1, keepdims=True) + epsilon)
    return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def dense(x, weights, name):
    """Product with the kernel, and the bias where there is one."""
    return x @ weights[f"feedforward_{name}_dense/kernel"] + weights.get(f"feedforward_{name}_dense/bias", 0)


def below(weights, name):
    """Weights of one sublayer, by their paths in it."""
    return {path.split("/", 1)[1]: w for path, w in weights.items() if path.split("/")[0] == name}


def block(
    inputs,
    encoder_sequence=None,
    *,
    weights,
    names=("attention", "cross_attention"),
    activation="gelu",
    normalization="layer",
    normalize_first=True,
    epsilon=1e-5,
    sliding_window=None,
    mask=None,
    attention_mask=None,
    use_causal_mask=False,
    encoder_mask=None,
    encoder_attention_mask=None,
):
    """Output and the scores of each attention; `names` are those of the attention layers."""
    x, all_scores = np.float64(inputs), []

    def residual(x, norm_name, function):
        if normalize_first:
            return x + function(norm(x, weights, norm_name, normalization, epsilon))
        return norm(x + function(x), weights, norm_name, normalization, epsilon)

    def attend(x, value, name, masks):
        output, scores, _ = reference.multi_head(x, x if value is None else value, None, name, **masks)
        all_scores.append(scores)
        return output

    def feedforward(x):
        hidden = dense(x, weights, "intermediate")
        if activation == "swiglu":
            hidden = hidden * ACTIVATIONS["silu"](dense(x, weights, "gate"))
        else:
            hidden = ACTIVATIONS[activation](hidden)
        return dense(hidden, weights, "output")

    own = {"query_mask": mask, "value_mask": mask, "attention_mask": attention_mask}
    own |= {"use_causal_mask": use_causal_mask, "sliding_window": sliding_window}
    x = residual(x, "attention_norm", lambda x: attend(x, None, below(weights, names[0]), own))
    if encoder_sequence is not None:
        cross = {"value_mask": encoder_mask, "attention_mask": encoder_attention_mask}
        x = residual(
            x,
            "cross_attention_norm",
            lambda x: attend(x, encoder_sequence, below(weights, names[1]), cross),
        )
    return residual(x, "feedforward_norm", feedforward), *all_scores
