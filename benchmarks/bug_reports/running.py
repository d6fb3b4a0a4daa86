"""The half of a check that needs the file alone: run it, and read what it is made of.

It shares no code with the converter, whose own measurements it checks. Call it in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.tools import flatbuffer_utils

_OPERATORS = {code: name for name, code in vars(schema.BuiltinOperator).items() if name.isupper()}
_TYPES = {code: name for name, code in vars(schema.TensorType).items() if name.isupper()}


@dataclass(frozen=True)
class Facts:
    """What a file does and holds.

    Attributes:
        outputs: the answers to all samples, one array per output, in float where the file has scales.
        is_repeatable: whether a second run gave equal answers.
        input_types: input name -> type, with "quantized" where it has a scale.
        partitions: pieces that XNNPACK took; 1 is best.
        is_whole: whether nothing was left outside them.
        kilobytes: size in 1,000 bytes.
        versions: operator name -> highest version; custom operators by their own name.
        custom: names of operators that are not builtin.
        float_tensors: how many tensors of all subgraphs are of a float type.
        int8_weights: how many stored tensors of two axes or more are int8.
    """

    outputs: list[np.ndarray]
    is_repeatable: bool
    input_types: dict[str, str]
    partitions: int
    is_whole: bool
    kilobytes: float
    versions: dict[str, int]
    custom: list[str]
    float_tensors: int
    int8_weights: int


def examine(path: str, samples: Any) -> Facts:
    """Run all samples through the file, one at a time, twice, and read the flatbuffer."""
    content = Path(path).read_bytes()
    graph: Any = flatbuffer_utils.read_model_from_bytearray(bytearray(content))
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    inputs = _named_inputs(graph, interpreter)
    columns = _columns(inputs, samples)
    first, second = (_answers(interpreter, columns) for _ in range(2))
    names = [detail["op_name"] for detail in interpreter._get_ops_details()]
    with CompiledModel.from_buffer(content) as compiled:
        is_whole = bool(compiled.is_fully_accelerated())
    versions, custom = _operators(graph)
    tensors = [(tensor, _TYPES[tensor.type]) for part in graph.subgraphs for tensor in part.tensors]
    return Facts(
        outputs=first,
        is_repeatable=all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)),
        input_types={name: _describe(detail) for name, detail in inputs.items()},
        partitions=names.count("DELEGATE"),
        is_whole=is_whole,
        kilobytes=len(content) / 1000,
        versions=versions,
        custom=custom,
        float_tensors=sum("FLOAT" in kind for _, kind in tensors),
        int8_weights=sum(
            kind == "INT8" and len(tensor.shape) >= 2 and graph.buffers[tensor.buffer].data is not None
            for tensor, kind in tensors
        ),
    )


def _named_inputs(graph: Any, interpreter: Interpreter) -> dict[str, Any]:
    """Input name, as in the signature -> the interpreter's details, in the file's order."""
    (signature,) = graph.signatureDefs
    names = {entry.tensorIndex: entry.name.decode() for entry in signature.inputs}
    return {names[detail["index"]]: detail for detail in interpreter.get_input_details()}


def _columns(inputs: Mapping[str, Any], samples: Any) -> list[tuple[Any, np.ndarray]]:
    """Pair each input with its samples, in the type that the file takes."""
    if not isinstance(samples, Mapping):
        samples = {next(iter(inputs)): samples}
    if list(inputs) != list(samples):
        raise ValueError(f"the file's inputs are {list(inputs)} where Keras has {list(samples)}")
    return [(detail, quantized_input(samples[name], detail)) for name, detail in inputs.items()]


def quantized_input(values: np.ndarray, detail: Any) -> np.ndarray:
    """Return float samples by the scale of the input, integers as they are, in the input's type."""
    kind, (scale, zero) = detail["dtype"], detail["quantization"]
    if scale and values.dtype.kind == "f":
        limits = np.iinfo(kind)
        return (np.round(values / scale) + zero).clip(limits.min, limits.max).astype(kind)
    converted = values.astype(kind)
    if not np.array_equal(converted, values):
        raise ValueError(f"the file takes {np.dtype(kind)}, which cannot hold the samples")
    return converted


def _answers(interpreter: Interpreter, columns: list[tuple[Any, np.ndarray]]) -> list[np.ndarray]:
    details = interpreter.get_output_details()
    answers: list[list[np.ndarray]] = [[] for _ in details]
    for index in range(len(columns[0][1])):
        for detail, values in columns:
            interpreter.set_tensor(detail["index"], values[index : index + 1])
        interpreter.invoke()
        for collected, detail in zip(answers, details, strict=True):
            values, (scale, zero) = interpreter.get_tensor(detail["index"]), detail["quantization"]
            collected.append((values.astype(np.float32) - zero) * np.float32(scale) if scale else values)
    return [np.concatenate(collected) for collected in answers]


def _describe(detail: Any) -> str:
    return f"{np.dtype(detail['dtype'])}{' quantized' if detail['quantization'][0] else ''}"


def _operators(graph: Any) -> tuple[dict[str, int], list[str]]:
    """Highest version of each operator that the file asks for, and the custom ones."""
    versions: dict[str, int] = {}
    custom = []
    for code in graph.operatorCodes:
        name = _OPERATORS[max(code.builtinCode, code.deprecatedBuiltinCode)]
        if name == "CUSTOM":
            custom.append(code.customCode.decode())
        versions[name] = max(versions.get(name, 0), code.version)
    return versions, custom
