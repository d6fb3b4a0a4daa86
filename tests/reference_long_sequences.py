"""Attention for long sequences written independently, in NumPy and float64, pair by pair."""

import numpy as np
import reference


def local_pairs(length, window_size, num_global_tokens=0):
    """Boolean array (length, length): near each other, or one of them a global token."""
    allowed = np.zeros((length, length), bool)
    for q, k in np.ndindex(*allowed.shape):
        allowed[q, k] = abs(q - k) < window_size or min(q, k) < num_global_tokens
    return allowed


def sparse_pairs(length, size, pattern, num_columns=1):
    """Boolean array (length, length): who meets whom."""
    allowed = np.zeros((length, length), bool)
    for q, k in np.ndindex(*allowed.shape):
        if pattern == "strided":
            near = abs(q - k) < size
        else:
            near = q // size == k // size
        far = k % size >= size - num_columns if pattern == "fixed" else (q - k) % size == 0
        allowed[q, k] = near or far
    return allowed


def routed_pairs(query, key, size, num_blocks, query_mask=None, key_mask=None, use_causal_mask=False):
    """Boolean array (batch, length, length) of one head: keys in the blocks chosen for the query's block."""
    batch, length, _ = query.shape
    count = -(-length // size)
    allowed = np.zeros((batch, length, length), bool)

    def mean(x, mask, block):
        index = [i for i in range(block * size, min((block + 1) * size, length)) if mask is None or mask[i]]
        return x[index].mean(axis=0) if block >= 0 and index else None

    for b in range(batch):
        masks = [None if mask is None else mask[b] for mask in (query_mask, key_mask)]
        for block in range(count):
            asks = mean(query[b], masks[0], block - 1 if use_causal_mask else block)
            asks = np.zeros(query.shape[2]) if asks is None else asks
            fit = {}
            for other in range(block if use_causal_mask else count):
                answers = mean(key[b], masks[1], other)
                if other != block and answers is not None:
                    fit[other] = asks @ answers
            chosen = [block, *sorted(fit, key=fit.get, reverse=True)[: num_blocks - 1]]
            rows = slice(block * size, (block + 1) * size)
            for other in chosen:
                allowed[b, rows, other * size : (other + 1) * size] = True
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
