"""Tables in Markdown, with what they were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("keras", "tensorflow", "ai-edge-litert", "litert-quantizer")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def provenance(how: str = "one thread, one sample at a time") -> str:
    """Return date, Python, packages, processor and how it was measured in one line."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"Measured on {today}: Python {python}, {versions}; {_processor()}, {how}."


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def replace_between(path: Path, mark: str, text: str) -> None:
    """Replace what stands between `<!-- mark:begin -->` and `<!-- mark:end -->` in a file."""
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    content = path.read_text()
    if content.count(begin) != 1 or content.count(end) != 1:
        raise ValueError(f"{path} must hold {begin!r} and {end!r} once each.")
    head, rest = content.split(begin)
    tail = rest.split(end)[1]
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}")
