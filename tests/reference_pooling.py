"""Luong attention and pooling, written independently: pair by pair, position by position, nothing folded."""

import numpy as np
import reference


def luong(query, value, key=None, *, weights, score="dot", **masks):
    """Output and scores of rank 3 inputs."""
    query, value = np.float64(query), np.float64(value)
    key = value if key is None else np.float64(key)
    logits = np.zeros((len(query), query.shape[1], key.shape[1]))
    for b, q, k in np.ndindex(*logits.shape):
        if score == "dot":
            logits[b, q, k] = query[b, q] @ key[b, k]
        elif score == "general":
            logits[b, q, k] = query[b, q] @ weights["query_kernel"] @ key[b, k]
        else:
            joint = np.concatenate([query[b, q], key[b, k]])
            kernel = np.concatenate([weights["query_kernel"], weights["key_kernel"]])
            logits[b, q, k] = np.tanh(joint @ kernel + weights.get("bias", 0)) @ weights["score_kernel"][:, 0]
    context, scores = reference.attend(logits, value, reference.allowed_pairs(*logits.shape, **masks))
    if "output_kernel" not in weights:
        return context, scores
    output = np.zeros((*logits.shape[:2], weights["output_kernel"].shape[1]))
    for b, q in np.ndindex(*logits.shape[:2]):
        joint = np.concatenate([context[b, q], query[b, q]])
        output[b, q] = np.tanh(joint @ weights["output_kernel"] + weights.get("output_bias", 0))
    return output, scores


def pool(inputs, *, weights, mask=None, num_heads=1, key_dim=None, query="learned", score="dot", **rest):
    """Output and scores of `AttentionPooling`: every position is projected, as the formula has it."""
    batch, length, channels = inputs.shape
    width = channels if key_dim is None else key_dim
    per_head = {
        name: weights[name].reshape(channels, num_heads, width)
        for name in ("query_kernel", "key_kernel", "value_kernel")
        if name in weights
    }
    bias = weights.get("bias", np.zeros((num_heads, width))).reshape(num_heads, width)
    outputs, all_scores = [], np.zeros((batch, num_heads, length))
    for b in range(batch):
        positions = [k for k in range(length) if mask is None or mask[b, k]]
        last = inputs[b, positions[-1]] if positions else np.zeros(channels)
        contexts = []
        for h in range(num_heads):
            logits = np.array(
                [
                    _logit(inputs[b, k], last, h, query, score, key_dim, weights, per_head, bias)
                    for k in positions
                ]
            )
            context = np.zeros(channels if key_dim is None else key_dim)
            if positions:
                exponentials = np.exp(logits - logits.max())
                all_scores[b, h, positions] = exponentials / exponentials.sum()
            for k in positions:
                value = inputs[b, k] if key_dim is None else inputs[b, k] @ per_head["value_kernel"][:, h]
                context += all_scores[b, h, k] * value
            contexts.append(context)
        output = np.concatenate(contexts)
        if key_dim is not None:
            output = output @ weights["merge_kernel"].reshape(num_heads * key_dim, channels)
            output = output + weights.get("merge_bias", 0)
        if "output_kernel" in weights:
            joint = np.concatenate([output, last]) if query == "last" else output
            output = np.tanh(joint @ weights["output_kernel"] + weights.get("output_bias", 0))
        outputs.append(output)
    return np.stack(outputs), all_scores


def _logit(x, last, head, query, score, key_dim, weights, per_head, bias):
    if score == "additive":
        hidden = x @ per_head["key_kernel"][:, head] + bias[head]
        if query == "last":
            hidden = hidden + last @ per_head["query_kernel"][:, head]
        return np.tanh(hidden) @ weights["score_kernel"][head]
    if score == "general":
        return last @ (x @ weights["key_kernel"])
    if key_dim is None:
        return (last if query == "last" else weights["query_vectors"][0]) @ x
    q = last @ per_head["query_kernel"][:, head] if query == "last" else weights["query_vectors"][head]
    return q @ (x @ per_head["key_kernel"][:, head]) / np.sqrt(key_dim)
