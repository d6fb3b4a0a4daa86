"""All rules for .tflite files, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from keras_attention.tflite import file_structure
from keras_attention.tflite.linting import edge_tpu
from keras_attention.tflite.linting import file_constants
from keras_attention.tflite.linting import file_graph
from keras_attention.tflite.linting import file_interface
from keras_attention.tflite.linting import file_operators
from keras_attention.tflite.linting import file_partitions
from keras_attention.tflite.linting import microcontroller
from keras_attention.tflite.linting.finding import Finding

_RULES: tuple[Callable[[Any], Iterator[Finding]], ...] = (
    file_interface.no_signature,
    file_interface.open_sizes,
    file_operators.not_builtin,
    file_operators.high_rank,
    file_operators.copying,
    file_operators.variables,
    file_constants.non_finite,
    file_constants.large_negative,
    file_operators.float_in_quantized,
    file_operators.loops,
    file_operators.first_axis,
    file_constants.float16_overflow,
    file_interface.quantized_interface,
    file_interface.runtime_version,
)


_TARGETS: dict[str, Callable[[Any], Iterator[Finding]]] = {
    "edgetpu": edge_tpu.check,
    "microcontroller": microcontroller.check,
}
_OF_PHONES = frozenset({"KA204", "KA211", "KA212", "KA213", "KA215"})
"""Rules about XNNPACK, the GPU delegate and LiteRT's releases."""


def check_content(content: bytes, target: str | None = None) -> list[Finding]:
    """Return what all rules find in a file's bytes; to be called in the child process.

    With a target, its rules take the place of those that speak of phones.

    Raises:
        ValueError: the bytes are no .tflite file, or a damaged one.
    """
    graph = file_structure.read(content)
    findings = [finding for rule in _RULES for finding in rule(graph)]
    if target is not None:
        findings = [finding for finding in findings if finding.code not in _OF_PHONES]
        return _ordered([*findings, *_TARGETS[target](graph)])
    lacks_kernels = any(operator.is_custom for operator in file_graph.operators(graph))
    if not lacks_kernels:  # KA203 has said that the plain runtime refuses the file
        try:
            findings.extend(file_partitions.outside_xnnpack(content))
        except (RuntimeError, ValueError) as error:
            findings.append(file_partitions.refused(error))
    return _ordered(findings)


def _ordered(findings: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(sorted(findings, key=lambda finding: finding.code)))
