"""LiteRT's reference kernels, to compare tflite-micro with. Native code: in the child process only.

A few operators have none, and that of SUM ignores the scales; the default kernels run these, in a file of
their own between files of the others.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.interpreter import OpResolverType

from keras_attention.tflite import graph as graphs

_WRONG = frozenset({"SUM"})
_LACKING = re.compile(r"Didn't find op for builtin opcode '(\w+)'")


class Reference:
    """A file on LiteRT's reference kernels.

    Attributes:
        kernels: what they are called, with the operators that others run.
    """

    def __init__(self, content: bytes, *, keep_tensors: bool = False) -> None:
        graph = graphs.read_graph(content)
        self._inputs = graphs.indices(graph.subgraphs[0].inputs)
        self._outputs = graphs.indices(graph.subgraphs[0].outputs)
        names = {graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators}
        others = set(_WRONG & names)
        while True:
            try:
                self._parts = [_Part(*part, keep_tensors) for part in _split(content, others)]
                break
            except (RuntimeError, ValueError) as error:
                lacking = set(_LACKING.findall(str(error))) - others
                if not lacking:
                    raise
                others |= lacking
        self.kernels = "LiteRT's reference kernels"
        if others:
            self.kernels += f" (for {', '.join(sorted(others))} the default ones)"
        self._values: dict[int, np.ndarray] = {}

    def run(self, sample: list[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for one sample."""
        self._values = dict(zip(self._inputs, sample, strict=True))
        for part in self._parts:
            self._values.update(part.run(self._values))
        return [self._values[index] for index in self._outputs]

    def tensor(self, index: int) -> np.ndarray:
        """Return a tensor after a run, where they are kept."""
        if index in self._values:
            return self._values[index]
        (part,) = (part for part in self._parts if index in part.written)
        return part.tensor(index)


class _Part:
    """Neighbouring operators of a file on the same kernels.

    Attributes:
        written: the tensors that they write.
    """

    def __init__(self, content: bytes, written: set[int], by_default: bool, keep_tensors: bool) -> None:
        resolver = OpResolverType
        self.written = written
        self._interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=(
                resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES if by_default else resolver.BUILTIN_REF
            ),
            experimental_preserve_all_tensors=keep_tensors,
        )
        self._interpreter.allocate_tensors()

    def run(self, values: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return tensor -> value of what goes out."""
        for detail in self._interpreter.get_input_details():
            self._interpreter.set_tensor(detail["index"], values[detail["index"]])
        self._interpreter.invoke()
        outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        return {index: self._interpreter.get_tensor(index) for index in outputs}

    def tensor(self, index: int) -> np.ndarray:
        """Return a tensor that is kept."""
        return np.asarray(self._interpreter.get_tensor(index))


def _split(content: bytes, others: set[str]) -> list[tuple[bytes, set[int], bool]]:
    """Return the file in parts: bytes, tensors written, and whether the default kernels run it.

    The tensors keep their numbers.
    """
    graph = graphs.read_graph(content)
    subgraph = graph.subgraphs[0]
    operators = list(subgraph.operators)
    is_other = [graphs.operator_name(graph, operator) in others for operator in operators]
    if not any(is_other):
        return [(content, {t for op in operators for t in graphs.indices(op.outputs)}, False)]
    outputs, codes = set(graphs.indices(subgraph.outputs)), graph.operatorCodes
    graph.signatureDefs, graph.metadata = [], []
    made = set(graphs.indices(subgraph.inputs))
    parts = []
    for by_default, group in itertools.groupby(range(len(operators)), key=is_other.__getitem__):
        numbers = list(group)
        part = [operators[number] for number in numbers]
        written = {t for operator in part for t in graphs.indices(operator.outputs)}
        read = {t for operator in part for t in graphs.indices(operator.inputs)}
        later = {t for operator in operators[numbers[-1] + 1 :] for t in graphs.indices(operator.inputs)}
        subgraph.operators = part
        subgraph.inputs = sorted(read & made)
        subgraph.outputs = sorted(written & (later | outputs))
        used = sorted({operator.opcodeIndex for operator in part})  # LiteRT asks for all that a file names
        graph.operatorCodes = [codes[index] for index in used]
        for operator in part:
            operator.opcodeIndex = used.index(operator.opcodeIndex)
        made |= written
        parts.append((graphs.write_graph(graph), written, by_default))
    return parts
