"""Attention written independently, in NumPy and float64, row by row: only allowed keys enter a softmax."""

import numpy as np


def allowed_pairs(
    batch,
    query_length,
    key_length,
    query_mask=None,
    value_mask=None,
    key_mask=None,
    attention_mask=None,
    use_causal_mask=False,
    sliding_window=None,
):
    """Boolean array (batch, query_length, key_length): who may attend to whom."""
    allowed = np.ones((batch, query_length, key_length), bool)
    for b, q, k in np.ndindex(*allowed.shape):
        if query_mask is not None and not query_mask[b, q]:
            allowed[b, q, k] = False
        if value_mask is not None and not value_mask[b, k]:
            allowed[b, q, k] = False
        if key_mask is not None and not key_mask[b, k]:
            allowed[b, q, k] = False
        if attention_mask is not None and not np.broadcast_to(attention_mask, allowed.shape)[b, q, k]:
            allowed[b, q, k] = False
        if use_causal_mask and k > q:
            allowed[b, q, k] = False
        if sliding_window is not None and abs(k - q) >= sliding_window:
            allowed[b, q, k] = False
    return allowed


def attend(logits, value, allowed):
    """Context and scores of logits (batch, query_length, key_length)."""
    scores = np.zeros(logits.shape)
    for b, q in np.ndindex(*logits.shape[:2]):
        keys = np.flatnonzero(allowed[b, q])
        if len(keys):
            exponentials = np.exp(logits[b, q, keys] - logits[b, q, keys].max())
            scores[b, q, keys] = exponentials / exponentials.sum()
    return np.einsum("bqk,bkc->bqc", scores, value), scores


def scaled_dot_product(query, value, key=None, scale=None, bias=0.0, **masks):
    """Context and scores of rank 3 inputs; `bias` is added to the logits."""
    query, value = np.float64(query), np.float64(value)
    key = value if key is None else np.float64(key)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    allowed = allowed_pairs(len(query), query.shape[1], key.shape[1], **masks)
    return attend(np.einsum("bqc,bkc->bqk", query, key) * scale + bias, value, allowed)


def bahdanau(query, value, key=None, *, query_kernel, key_kernel, score_kernel, bias=None, **masks):
    """Context and scores of rank 3 inputs."""
    query, value = np.float64(query), np.float64(value)
    key = value if key is None else np.float64(key)
    logits = np.zeros((len(query), query.shape[1], key.shape[1]))
    for b, q, k in np.ndindex(*logits.shape):
        hidden = query[b, q] @ query_kernel + key[b, k] @ key_kernel + (0 if bias is None else bias)
        logits[b, q, k] = np.tanh(hidden) @ score_kernel[:, 0]
    return attend(logits, value, allowed_pairs(*logits.shape, **masks))


def multi_head(query, value, key, weights, rotate=None, bias=None, attend=scaled_dot_product, **masks):
    """Output, scores and context before the projection.

    Args:
        query: array of rank 3; value and key alike.
        value: see query.
        key: see query, or None.
        weights: "query/kernel" ... -> array. Kernels of key and value with fewer heads are shared.
        rotate: None, or a function that turns one head of queries or keys, (batch, length, width).
        bias: None, or an array (num_heads, query_length, key_length) that is added to the logits.
        attend: what each head does, a function of query, value, key and by keyword of the bias and the masks.
        masks: arguments of `allowed_pairs`.
    """
    query, value = np.float64(query), np.float64(value)
    key = value if key is None else np.float64(key)
    num_heads, num_shared = weights["query/kernel"].shape[1], weights["key/kernel"].shape[1]

    def head(x, name, index):
        projected = x @ weights[f"{name}/kernel"][:, index]
        if f"{name}/bias" in weights:
            projected = projected + weights[f"{name}/bias"][index]
        if f"{name}_norm/scale" in weights:
            size = np.sqrt((projected**2).mean(-1, keepdims=True) + 1e-6)
            projected = projected / size * weights[f"{name}_norm/scale"]
        return rotate(projected) if rotate and name in ("query", "key") else projected

    contexts, scores = [], []
    for index in range(num_heads):
        shared = index // (num_heads // num_shared)
        context, score = attend(
            head(query, "query", index),
            head(value, "value", shared),
            head(key, "key", shared),
            bias=0.0 if bias is None else bias[index],
            **masks,
        )
        if "gate/kernel" in weights:
            context = context / (1 + np.exp(-head(query, "gate", index)))
        contexts.append(context)
        scores.append(score)
    output = sum(
        np.tensordot(contexts[i], weights["attention_output/kernel"][i], axes=1) for i in range(num_heads)
    )
    if "attention_output/bias" in weights:
        output = output + weights["attention_output/bias"]
    return output, np.stack(scores, axis=1), np.stack(contexts, axis=2)
