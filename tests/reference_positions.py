"""Positions written independently, in NumPy and float64, number by number."""

import math

import numpy as np


def rotary(x, max_wavelength=10000, scaling_factor=1.0, sequence_axis=1, feature_axis=-1, start=0):
    """Each pair of features as a complex number, turned."""
    x = np.moveaxis(np.float64(x), (sequence_axis, feature_axis), (1, -1))
    output = np.zeros_like(x)
    half = x.shape[-1] // 2
    for position in range(x.shape[1]):
        for i in range(half):
            angle = (start + position) / scaling_factor / max_wavelength ** (2 * i / x.shape[-1])
            turned = (x[:, position, ..., i] + 1j * x[:, position, ..., half + i]) * np.exp(1j * angle)
            output[:, position, ..., i], output[:, position, ..., half + i] = turned.real, turned.imag
    return np.moveaxis(output, (1, -1), (sequence_axis, feature_axis))


def sinusoidal(length, channels, max_wavelength=10000, start=0):
    """Table `(length, channels)`."""
    table = np.zeros((length, channels))
    for t, i in np.ndindex(length, channels):
        angle = (start + t) / max_wavelength ** (2 * (i // 2) / channels)
        table[t, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return table


def alibi_slopes(num_heads, max_bias=8):
    """Slopes by the recursion of the paper's program."""
    if num_heads & (num_heads - 1) == 0:
        return [2 ** (-max_bias * (head + 1) / num_heads) for head in range(num_heads)]
    power = 1
    while 2 * power < num_heads:
        power *= 2
    return alibi_slopes(power, max_bias) + alibi_slopes(2 * power, max_bias)[::2][: num_heads - power]


def alibi(num_heads, query_length, key_length, max_bias=8):
    """Bias `(num_heads, query_length, key_length)`."""
    bias = np.zeros((num_heads, query_length, key_length))
    for h, q, k in np.ndindex(*bias.shape):
        bias[h, q, k] = -alibi_slopes(num_heads, max_bias)[h] * abs(q - k)
    return bias


def bucket(distance, num_buckets, max_distance, bidirectional):
    """Bucket of one distance, key position minus query position."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first, distance = (num_buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(0, -distance)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return first + min(num_buckets - 1, exact + int(share * (num_buckets - exact)))


def relative(table, query_length, key_length, num_buckets=32, max_distance=128, bidirectional=True):
    """Bias `(num_heads, query_length, key_length)` of a table `(num_buckets, num_heads)`."""
    bias = np.zeros((table.shape[1], query_length, key_length))
    for q, k in np.ndindex(query_length, key_length):
        bias[:, q, k] = table[bucket(k - q, num_buckets, max_distance, bidirectional)]
    return bias


def relative_window(table, height, width):
    """Bias `(num_heads, height * width, height * width)` of a table with a row per offset."""
    table = table.reshape(2 * height - 1, 2 * width - 1, -1)
    bias = np.zeros((table.shape[-1], height, width, height, width))
    for y, x, v, u in np.ndindex(height, width, height, width):
        bias[:, y, x, v, u] = table[y - v + height - 1, x - u + width - 1]
    return bias.reshape(-1, height * width, height * width)
