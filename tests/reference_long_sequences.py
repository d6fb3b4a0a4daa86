"""Attention for long sequences written independently, in NumPy and float64, pair by pair."""

import numpy as np
import reference


def local_pairs(length, window_size, num_global_tokens=0):
    """Boolean array (length, length): near each other, or one of them a global token."""
    allowed = np.zeros((length, length), bool)
    for q, k in np.ndindex(*allowed.shape):
        allowed[q, k] = abs(q - k) < window_size or min(q, k) < num_global_tokens
    return allowed


def linear(query, value, key, features, **masks):
    """Context and weights of one head; `features` are two functions, of a query and of a key."""
    allowed = reference.allowed_pairs(len(query), query.shape[1], key.shape[1], **masks)
    weights = np.zeros(allowed.shape)
    for b, q, k in np.argwhere(allowed):
        weights[b, q, k] = features[0](query[b, q]) @ features[1](key[b, k])
    sums = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    return np.einsum("bqk,bkc->bqc", weights, value), weights


def elu(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def relu(x):
    return np.maximum(x, 0) + 1e-3


def performer(projection):
    """exp(P x / d^(1/4) - |x|^2 / (2 sqrt(d))), for queries and keys alike."""
    width = len(projection)
    return lambda x: np.exp(x @ projection / width**0.25 - x @ x / (2 * width**0.5))
