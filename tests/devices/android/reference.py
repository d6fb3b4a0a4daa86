"""What the generated code must compute, written once more in NumPy and plain Python."""

import numpy as np


def stored(raw, scale, zero_point, dtype, mean=None, std=None):
    """Raw values as the file takes them."""
    value = np.asarray(raw, np.float32)
    if mean is not None:
        value = ((value.astype(np.float64) - mean) / std).astype(np.float32)
    if not scale:
        return value.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.round(value.astype(np.float64) / scale) + zero_point, limits.min, limits.max).astype(
        dtype
    )


def windows(events, axes, features, length, rate, hop, gap):
    """Windows of a stream of (source, nanoseconds, values): what SampleWindow's comment says, literally.

    Args:
        events: in the order of their arrival.
        axes: for each source the names of its axes.

    Returns:
        A list of (time of the last point, values).
    """
    found, segment = [], [[] for _ in axes]

    def finish():
        found.extend(_of_segment(segment, axes, features, length, rate, hop))
        for source in segment:
            source.clear()

    for source, time, values in events:
        own = segment[source]
        if own and time <= own[-1][0]:
            continue
        if own and time - own[-1][0] > gap:
            finish()
        own.append((time, values))
        if time - _oldest_needed(segment, source, rate) > gap:
            finish()
            own.append((time, values))
    finish()
    return found


def _oldest_needed(segment, source, rate):
    """The time of the sample before the next point, which waits for a source that says nothing."""
    own = [time for time, _ in segment[source]]
    if not all(segment):
        return own[0]
    start = max(other[0][0] for other in segment)
    last = min(other[-1][0] for other in segment) - start
    point = 0
    while point * 1e9 / rate <= last:
        point += 1
    return max([time for time in own if time - start <= point * 1e9 / rate], default=own[0])


def _of_segment(segment, axes, features, length, rate, hop):
    if not all(segment):
        return []
    start = max(source[0][0] for source in segment)
    last = min(source[-1][0] for source in segment) - start
    rows = []
    while (time := len(rows) * 1e9 / rate) <= last:
        row = np.zeros(len(features), np.float32)
        for source, names in zip(segment, axes, strict=True):
            times = np.array([moment - start for moment, _ in source])
            before = int(np.searchsorted(times, time, side="right")) - 1
            for axis, name in enumerate(names):
                first = float(source[before][1][axis])
                value = first
                if times[before] != time:
                    second = float(source[before + 1][1][axis])
                    share = (time - float(times[before])) / (float(times[before + 1]) - float(times[before]))
                    value = first + (second - first) * share
                row[features.index(name)] = np.float32(value)
        rows.append(row)
    ends = range(length, len(rows) + 1, hop)
    return [(start + int((end - 1) * 1e9 / rate), np.stack(rows[end - length : end])) for end in ends]
