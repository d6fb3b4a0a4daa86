"""The C++ header for one file: its operators, the arena's size, scales and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TYPES = {"float32": "float", "bool": "bool"}
_WIDEST_COMMENT = 60


def render(path: Path, found: Mapping[str, Any]) -> str:
    """Return the text of the header.

    Args:
        path: of the .tflite file, whose name becomes that of the namespace.
        found: what the child job "micro" returned.
    """
    space = namespace(path)
    guard = f"{space.upper()}_H_"
    methods = found["methods"]
    calls = [f"  if (resolver.{method}() != kTfLiteOk) return kTfLiteError;" for method in methods]
    lines = [
        f"// For tflite-micro, from {_comment(path.name)}",
        f"// sha256 {found['sha256']}",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <cmath>",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"',
        "",
        f"namespace {space} {{",
        "",
        "// Smallest arena in which the file runs on a 64-bit machine, aligned to 16 bytes. A 32-bit one",
        "// needs less for its pointers; optimized kernels (CMSIS-NN and others) may ask for more.",
        f"constexpr std::size_t kArenaBytes = {found['arena_bytes']};",
        "",
        f"using Resolver = tflite::MicroMutableOpResolver<{len(methods)}>;",
        "",
        "inline TfLiteStatus RegisterOperators(Resolver& resolver) {",
        *calls,
        "  return kTfLiteOk;",
        "}",
    ]
    for side in ("inputs", "outputs"):
        for index, spec in enumerate(found["interface"][side]):
            lines += _tensor(f"{side[:-1].capitalize()}{index}", spec, side)
            names = found["labels"].get(spec["name"]) if side == "outputs" else None
            lines += _labels(f"Output{index}", names) if names else []
    return "\n".join([*lines, "", f"}}  // namespace {space}", "", f"#endif  // {guard}", ""])


def namespace(path: Path) -> str:
    """Return an identifier of C++ from a file's name: model_ and its letters and digits."""
    words = re.findall(r"[A-Za-z0-9]+", path.stem)
    return "_".join(["model", *(word.lower() for word in words)])


def _tensor(name: str, spec: Mapping[str, Any], side: str) -> list[str]:
    """Return the constants of an input or output, and how real numbers become its steps or back."""
    kind = _TYPES.get(spec["dtype"], f"std::{spec['dtype']}_t")
    size = 1
    for length in spec["shape"]:
        size *= length
    lines = [
        "",
        f"// {side[:-1].capitalize()} {_comment(spec['name'])}: {spec['dtype']}{spec['shape']}",
        f"constexpr std::size_t k{name}Size = {size};",
    ]
    if spec["scale"] is None or kind == "float":
        return lines
    scale, zero_point = f"k{name}Scale", f"k{name}ZeroPoint"
    lines += [
        f"constexpr double {scale} = {spec['scale']!r};",
        f"constexpr int {zero_point} = {spec['zero_point']};",
        "",
    ]
    if side == "outputs":
        return [
            *lines,
            f"inline float Dequantize{name}({kind} steps) {{",
            f"  return static_cast<float>((steps - {zero_point}) * {scale});",
            "}",
        ]
    low, high = _limits(spec["dtype"])
    return [
        *lines,
        "// Writes one value as steps, as Python rounds it: in double, halves to even, limited to the type.",
        "// Returns false and writes nothing for NaN and infinities (compile without -ffast-math).",
        f"inline bool Quantize{name}(float value, {kind}* steps) {{",
        "  if (!std::isfinite(value)) return false;",
        f"  const double rounded = std::nearbyint(value / {scale}) + {zero_point};",
        f"  *steps = static_cast<{kind}>(rounded < {low} ? {low} : rounded > {high} ? {high} : rounded);",
        "  return true;",
        "}",
    ]


def _limits(dtype: str) -> tuple[str, str]:
    bits = int(re.sub(r"\D", "", dtype))
    if dtype.startswith("u"):
        return "0.0", f"{2**bits - 1}.0"
    return f"-{2 ** (bits - 1)}.0", f"{2 ** (bits - 1) - 1}.0"


def _labels(name: str, labels: Sequence[str]) -> list[str]:
    texts = [f"    {_literal(label)}," for label in labels]
    return ["", f"constexpr const char* k{name}Labels[] = {{", *texts, "};"]


def _literal(text: str) -> str:
    """Return a text as C++ writes it, in UTF-8: whatever is not a plain character as three octal digits."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;+()"
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def _comment(text: str) -> str:
    """Return a text that can't end a comment or continue it on the next line."""
    return re.sub(r"[^\w .-]", "?", text, flags=re.ASCII)[:_WIDEST_COMMENT]
