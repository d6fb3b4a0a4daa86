"""Memory layers, written independently: every fact is embedded, every slot stands beside the keys."""

import numpy as np
import reference


def memory_attention(query, value, key=None, *, weights, num_heads, key_dim, num_slots, **masks):
    """Output and scores; the slots are keys and values like the others, joined to them."""
    query, value = np.float64(query), np.float64(value)
    key = value if key is None else np.float64(key)
    query_mask = masks.pop("query_mask", None)
    allowed = reference.allowed_pairs(len(query), query.shape[1], key.shape[1], **masks)
    allowed = np.concatenate([allowed, np.ones((*allowed.shape[:2], num_slots), bool)], axis=-1)
    if query_mask is not None:
        allowed = allowed & query_mask[:, :, None]

    def head(x, name, index):
        return (
            x @ weights[f"{name}/kernel"][:, index]
            + weights.get(f"{name}/bias", np.zeros((num_heads, 1)))[index]
        )

    output, all_scores = 0.0, []
    for i in range(num_heads):
        slot_keys = np.stack([np.sqrt(key_dim) * weights["slot_keys"][0, i]] * len(query))
        slot_values = np.stack([np.sqrt(num_slots) * weights["slot_values"][0, i]] * len(query))
        keys = np.concatenate([head(key, "key", i), slot_keys], axis=1)
        values = np.concatenate([head(value, "value", i), slot_values], axis=1)
        logits = np.einsum("bqc,bkc->bqk", head(query, "query", i), keys) / np.sqrt(key_dim)
        context, scores = reference.attend(logits, values, allowed)
        if "gate/kernel" in weights:
            context = context / (1 + np.exp(-head(query, "gate", i)))
        output = output + context @ weights["attention_output/kernel"][i]
        all_scores.append(scores)
    return output + weights.get("attention_output/bias", 0), np.stack(all_scores, axis=1)


def memory_network(
    query, value, *, weights, value_mask=None, units, num_hops=3, tying="adjacent", max_facts=None, **rest
):
    """Output and scores, hop by hop and fact by fact."""
    num_facts = value.shape[1]
    outputs, all_scores = [], np.zeros((len(query), num_hops, num_facts))
    for b in range(len(query)):
        state = query[b] @ weights["query_kernel"] + weights.get("query_bias", 0)
        facts = [i for i in range(num_facts) if value_mask is None or value_mask[b, i]]
        for hop in range(num_hops):
            read = hop if tying == "adjacent" else 0
            memory, answer = (_embed(value[b], weights, i, max_facts) for i in (read, read + 1))
            all_scores[b, hop] = _softmax(memory @ state, facts)
            if tying == "layer_wise":
                state = state @ weights["state_kernel"]
            state = state + sum(all_scores[b, hop, i] * answer[i] for i in range(num_facts))
        outputs.append(state)
    return np.stack(outputs), all_scores


def _embed(facts, weights, index, max_facts):
    embedded = facts @ weights[f"fact_kernel_{index}"]
    return embedded if max_facts is None else embedded + weights[f"place_table_{index}"][: len(facts)]


def _softmax(logits, allowed):
    scores = np.zeros(len(logits))
    if allowed:
        exponentials = np.exp(logits[allowed] - logits[allowed].max())
        scores[allowed] = exponentials / exponentials.sum()
    return scores


def dynamic_memory(query, value, *, weights, value_mask=None, units, num_passes=3, episode="soft", **rest):
    """Output and scores, pass by pass and fact by fact."""

    def dense(x, name):
        return x @ weights[f"{name}_kernel"] + weights.get(f"{name}_bias", 0)

    num_facts = value.shape[1]
    outputs, all_scores = [], np.zeros((len(query), num_passes, num_facts))
    for b in range(len(query)):
        question, facts = dense(query[b], "query"), dense(value[b], "fact")
        allowed = [i for i in range(num_facts) if value_mask is None or value_mask[b, i]]
        memory = question
        for index in range(num_passes):
            logits = []
            for f in facts:
                z = np.concatenate([f * question, np.abs(f - question), f * memory, np.abs(f - memory)])
                logits.append(np.tanh(dense(z, "gate")) @ weights["score_kernel"][:, 0])
            scores = all_scores[b, index] = _softmax(np.array(logits), allowed)
            found = np.zeros(units)
            for f, score in zip(facts, scores, strict=True):
                if episode == "soft":
                    found = found + score * f
                else:
                    reset = dense(f, "reset") + found @ weights["reset_recurrent_kernel"]
                    recurrent = found @ weights["candidate_recurrent_kernel"] / (1 + np.exp(-reset))
                    found = score * np.tanh(dense(f, "candidate") + recurrent) + (1 - score) * found
            memory = np.maximum(dense(np.concatenate([memory, found, question]), f"memory_{index}"), 0)
        outputs.append(memory)
    return np.stack(outputs), all_scores
