"""The operators of a file in runs, for people: thousands of them in an unrolled network."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

MOST_SEGMENTS = 200
MOST_RUNS = 200


def segments(partition_map: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return neighbours in the same partition as one segment, and equal neighbours within it as one run.

    Returns:
        {"shown": segments, "hidden": how many more there are, "operators": number of operators}; a segment
        is {"partition", "first", "last", "count", "start", "width" (both in per cent of all operators),
        "operators" (name -> count), "runs", "hidden_runs"}; a run is {"operator", "dtype", "count"}.
    """
    total = len(partition_map)
    found = []
    for partition, group in itertools.groupby(partition_map, key=lambda row: row["partition"]):
        rows = list(group)
        runs = [
            {"operator": operator, "dtype": dtype, "count": len(list(equal))}
            for (operator, dtype), equal in itertools.groupby(
                rows, key=lambda row: (row["operator"], row["dtype"])
            )
        ]
        found.append(
            {
                "partition": partition,
                "first": rows[0]["index"],
                "last": rows[-1]["index"],
                "count": len(rows),
                "operators": dict(collections.Counter(row["operator"] for row in rows).most_common()),
                "runs": runs[:MOST_RUNS],
                "hidden_runs": max(len(runs) - MOST_RUNS, 0),
            }
        )
    starts = itertools.accumulate((segment["count"] for segment in found), initial=0)
    for segment, start in zip(found, starts, strict=False):
        segment["start"] = f"{100 * start / total:.3f}"
        segment["width"] = f"{100 * segment['count'] / total:.3f}"
    return {
        "shown": found[:MOST_SEGMENTS],
        "hidden": max(len(found) - MOST_SEGMENTS, 0),
        "operators": total,
    }
