"""Gates of images, written independently: place by place, channel by channel, in float64."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda x: x * sigmoid(x),
}
BATCH_NORM_EPSILON, LAYER_NORM_EPSILON = 1e-5, 1e-6


def places_of(sample, mask):
    """The places of one sample that count, one below the other."""
    rows = sample.reshape(-1, sample.shape[-1])
    return rows if mask is None else rows[mask.reshape(-1)]


def pooled(sample, mask):
    """Means and maxima of the places that count, or None where there are none."""
    places = places_of(sample, mask)
    return (places.mean(0), places.max(0)) if len(places) else None


def hidden(x, weights, activation):
    return activation(x @ weights["hidden_kernel"] + weights.get("hidden_bias", 0))


def per_sample(inputs, mask):
    return [(sample, None if mask is None else mask[index]) for index, sample in enumerate(inputs)]


def squeeze_excite(inputs, weights, mask=None, *, activation, gate_activation, use_bottleneck, use_max_pool):
    gates = []
    for sample, counts in per_sample(inputs, mask):
        found = pooled(sample, counts)
        if found is None:
            gates.append(np.zeros(inputs.shape[-1]))
            continue
        x = sum(found) / 2 if use_max_pool else found[0]
        if use_bottleneck:
            x = hidden(x, weights, activation)
        gates.append(gate_activation(x @ weights["gate_kernel"] + weights.get("gate_bias", 0)))
    return times_channels(inputs, gates)


def channel_attention(inputs, weights, mask=None, *, activation, gate_activation):
    gates = []
    for sample, counts in per_sample(inputs, mask):
        found = pooled(sample, counts)
        if found is None:
            gates.append(np.zeros(inputs.shape[-1]))
            continue
        logits = [
            hidden(x, weights, activation) @ weights["gate_kernel"] + weights.get("gate_bias", 0)
            for x in found
        ]
        gates.append(gate_activation(logits[0] + logits[1]))
    return times_channels(inputs, gates)


def efficient(inputs, weights, mask=None, *, gate_activation):
    kernel, channels = weights["kernel"], inputs.shape[-1]
    gates = []
    for sample, counts in per_sample(inputs, mask):
        found = pooled(sample, counts)
        gate = np.zeros(channels)
        if found is not None:
            for c in range(channels):
                for i in range(len(kernel)):
                    neighbour = c + i - len(kernel) // 2
                    if 0 <= neighbour < channels:
                        gate[c] += kernel[i] * found[0][neighbour]
            gate = gate_activation(gate + weights.get("bias", np.zeros(1)))
        gates.append(gate)
    return times_channels(inputs, gates)


def times_channels(inputs, gates):
    gates = np.stack(gates)
    output = np.empty_like(inputs)
    for index in np.ndindex(inputs.shape):
        output[index] = inputs[index] * gates[index[0], index[-1]]
    return output, gates


def batch_norm(x, weights, prefix="batch_norm"):
    if f"{prefix}/gamma" not in weights:
        return x
    deviation = np.sqrt(weights[f"{prefix}/moving_variance"] + BATCH_NORM_EPSILON)
    scaled = (x - weights[f"{prefix}/moving_mean"]) / deviation
    return scaled * weights[f"{prefix}/gamma"] + weights[f"{prefix}/beta"]


def spatial_attention(inputs, weights, mask=None, *, gate_activation):
    """Each place sees a window of maps around it, zeros beyond the border and where nothing counts."""
    kernel = weights["kernel"]
    reach = kernel.shape[0] // 2
    gates = np.zeros(inputs.shape[:-1])
    for sample, *place in np.ndindex(gates.shape):
        if mask is not None and not mask[(sample, *place)]:
            continue
        logit = weights.get("bias", np.zeros(1))[0]
        for offset in np.ndindex(kernel.shape[:-2]):
            other = tuple(p + o - reach for p, o in zip(place, offset, strict=True))
            inside = all(0 <= p < size for p, size in zip(other, gates.shape[1:], strict=True))
            if inside and (mask is None or mask[(sample, *other)]):
                values = inputs[(sample, *other)]
                logit += values.mean() * kernel[(*offset, 0, 0)] + values.max() * kernel[(*offset, 1, 0)]
        gates[(sample, *place)] = gate_activation(batch_norm(np.array([logit]), weights)[0])
    return inputs * gates[..., None], gates


def cbam(inputs, weights, mask=None, *, activation, gate_activation):
    parts = {
        part: {n.removeprefix(f"{part}/"): w for n, w in weights.items() if n.startswith(f"{part}/")}
        for part in ("channel_attention", "spatial_attention")
    }
    x, channel_gate = channel_attention(
        inputs, parts["channel_attention"], mask, activation=activation, gate_activation=gate_activation
    )
    output, spatial_gate = spatial_attention(
        x, parts["spatial_attention"], mask, gate_activation=gate_activation
    )
    return output, channel_gate, spatial_gate


def global_context(inputs, weights, mask=None, *, activation, gate_activation, fusion):
    output, scores = np.empty_like(inputs), np.zeros(inputs.shape[:-1])
    for index, (sample, counts) in enumerate(per_sample(inputs, mask)):
        chosen = [p for p in np.ndindex(sample.shape[:-1]) if counts is None or counts[p]]
        context = np.zeros(inputs.shape[-1])
        if chosen:
            logits = np.array([float((sample[p] @ weights["key_kernel"])[0]) for p in chosen])
            shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            for place, share in zip(chosen, shares, strict=True):
                scores[(index, *place)] = share
                context += share * sample[place]
        x = context @ weights["hidden_kernel"] + weights.get("hidden_bias", 0)
        if "layer_norm/gamma" in weights:
            x = (x - x.mean()) / np.sqrt(x.var() + LAYER_NORM_EPSILON)
            x = x * weights["layer_norm/gamma"] + weights["layer_norm/beta"]
        change = activation(x) @ weights["gate_kernel"] + weights.get("gate_bias", 0)
        if fusion == "add":
            output[index] = sample + change
        else:
            output[index] = sample * gate_activation(change) if chosen else 0
    return output, scores


def coordinate_attention(inputs, weights, mask=None, *, activation, gate_activation):
    batch, height, width, channels = inputs.shape
    rows, columns = np.zeros((batch, height, channels)), np.zeros((batch, width, channels))

    def gate(line, counts, part):
        places = line if counts is None else line[counts]
        if not len(places):
            return 0
        x = places.mean(0) @ weights["hidden_kernel"] + weights.get("hidden_bias", 0)
        x = activation(batch_norm(x, weights))
        return gate_activation(x @ weights[f"{part}_kernel"] + weights.get(f"{part}_bias", 0))

    for b in range(batch):
        for y in range(height):
            rows[b, y] = gate(inputs[b, y], None if mask is None else mask[b, y], "row")
        for x in range(width):
            columns[b, x] = gate(inputs[b, :, x], None if mask is None else mask[b, :, x], "column")
    return inputs * rows[:, :, None] * columns[:, None], rows, columns
