"""Layers of window attention and patches written independently, in NumPy and float64.

Window attention is full attention over all cells of the image, under a mask of pairs.
"""

import numpy as np
import reference
import reference_blocks


def places(size, window, shift):
    """For each row (or column) of an image: its window, its place there, whether rolling took it around."""
    if size <= window:
        window, shift = size, 0
    padded = -(-size // window) * window
    rolled = [(index - shift) % padded for index in range(size)]
    return [(r // window, r % window, r >= padded - shift) for r in rolled]


def cells(sizes, window_size, shift_size):
    """The places of all cells, row by row, as pairs of (row, column)."""
    rows, columns = (places(*axis) for axis in zip(sizes, window_size, shift_size, strict=True))
    return [tuple(zip(row, column, strict=True)) for row in rows for column in columns]


def allowed_pairs(sizes, window_size, shift_size):
    """Boolean (cells, cells): of one window, and not brought together by rolling."""
    found = cells(sizes, window_size, shift_size)
    return np.array([[a[0] == b[0] and a[2] == b[2] for b in found] for a in found])


def pair_bias(sizes, window_size, shift_size, table):
    """`(num_heads, cells, cells)`: the row of the table for each distance between two places of a window."""
    found = cells(sizes, window_size, shift_size)
    height, width = window_size
    bias = np.zeros((table.shape[1], len(found), len(found)))
    for i, (_, a, _) in enumerate(found):
        for j, (_, b, _) in enumerate(found):
            row, column = a[0] - b[0] + height - 1, a[1] - b[1] + width - 1
            if 0 <= row < 2 * height - 1 and 0 <= column < 2 * width - 1:
                bias[:, i, j] = table[row * (2 * width - 1) + column]
    return bias


def scores_of_windows(scores, sizes, window_size, shift_size):
    """`(batch, num_heads, cells, cells)` of the image as `(batch, windows * num_heads, cells, cells)`."""
    window = [min(pair) for pair in zip(sizes, window_size, strict=True)]
    counts = [-(-size // part) for size, part in zip(sizes, window, strict=True)]
    batch, num_heads = scores.shape[:2]
    result = np.zeros((batch, *counts, num_heads, *window, *window))
    found = cells(sizes, window_size, shift_size)
    for i, (window_i, a, _) in enumerate(found):
        for j, (window_j, b, _) in enumerate(found):
            if window_i == window_j:
                result[:, window_i[0], window_i[1], :, a[0], a[1], b[0], b[1]] = scores[:, :, i, j]
    size = window[0] * window[1]
    return result.reshape((batch, counts[0] * counts[1] * num_heads, size, size))


def window_attention(inputs, weights, window_size, shift_size=(0, 0), mask=None):
    """Output and scores of images."""
    batch, *sizes, channels = inputs.shape
    own = {n.removeprefix("attention/"): w for n, w in weights.items() if n.startswith("attention/")}
    geometry = (sizes, window_size, shift_size)
    bias = None
    if "position_bias/embeddings" in weights:
        bias = pair_bias(*geometry, weights["position_bias/embeddings"])
    masks = {"attention_mask": allowed_pairs(*geometry)[None]}
    if mask is not None:
        flat = np.reshape(mask, (batch, -1))
        masks |= {"query_mask": flat, "value_mask": flat}
    tokens = np.reshape(inputs, (batch, -1, channels))
    output, scores, _ = reference.multi_head(tokens, tokens, None, own, bias=bias, **masks)
    return output.reshape((batch, *sizes, -1)), scores_of_windows(scores, *geometry)


def swin_block(
    inputs,
    weights,
    window_size,
    shift_size=(0, 0),
    activation="gelu",
    normalization="layer",
    normalize_first=True,
    epsilon=1e-5,
    mask=None,
):
    """Output and scores of images."""
    own = {n.removeprefix("attention/"): w for n, w in weights.items() if n.startswith("attention/")}
    norms = [
        lambda x, name=name: reference_blocks.norm(x, weights, name, normalization, epsilon)
        for name in ("attention_norm", "feedforward_norm")
    ]
    x = norms[0](inputs) if normalize_first else inputs
    x, scores = window_attention(x, own, window_size, shift_size, mask)
    x = inputs + x if normalize_first else norms[0](inputs + x)
    hidden = reference_blocks.dense(norms[1](x) if normalize_first else x, weights, "intermediate")
    hidden = reference_blocks.ACTIVATIONS[activation](hidden)
    output = x + reference_blocks.dense(hidden, weights, "output")
    return output if normalize_first else norms[1](output), scores


def patches(images, patch_size):
    """`(batch, rows, columns, height * width * channels)`, each patch cut out by itself."""
    batch, *sizes, channels = images.shape
    counts = [-(-size // part) for size, part in zip(sizes, patch_size, strict=True)]
    result = np.zeros((batch, *counts, *patch_size, channels))
    for y, x in np.ndindex(*sizes):
        row, column = y // patch_size[0], x // patch_size[1]
        result[:, row, column, y % patch_size[0], x % patch_size[1]] = images[:, y, x]
    return result.reshape((batch, *counts, -1))


def patch_embedding(images, weights, patch_size, flatten=True):
    """Vectors of the patches."""
    kernel = weights["kernel"]
    grid = patches(images, patch_size) @ kernel.reshape((-1, kernel.shape[-1]))
    grid = grid + weights.get("bias", 0)
    tokens = grid.reshape((len(grid), -1, grid.shape[-1]))
    if "class_token" in weights:
        tokens = np.concatenate([np.repeat(weights["class_token"][None], len(grid), 0), tokens], 1)
    tokens = tokens + weights.get("position_embedding", 0)
    return tokens if flatten else tokens.reshape(grid.shape)


def patch_merging(images, weights, epsilon=1e-5):
    """Four cells as one."""
    merged = reference_blocks.norm(patches(images, (2, 2)), weights, "norm", "layer", epsilon)
    return merged @ weights["projection/kernel"] + weights.get("projection/bias", 0)
