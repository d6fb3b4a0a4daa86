"""Judging a quantized form of a graph on calibration samples, before the last activation."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime

SAMPLES = 64
"""Calibration samples on which forms are compared."""
REFUSED_DB = -metrics.EXACT_DB
"""Stands for a form that the runtime does not run at all."""
_FINAL_ACTIVATIONS = frozenset({"LOGISTIC", "SOFTMAX"})


class Trial:
    """The float graph without its last activation, and its answers on some calibration samples.

    Softmax hides noise where the model is sure, which it is on data like its training data; the
    numbers before it tell forms apart.

    Attributes:
        content: bytes of the shortened float file; its operators and tensors have the same indices.
    """

    def __init__(self, content: bytes, samples: Mapping[str, np.ndarray]) -> None:
        count = len(next(iter(samples.values())))
        chosen = np.unique(np.linspace(0, count - 1, min(count, SAMPLES)).astype(int))
        self._samples = {name: values[chosen] for name, values in samples.items()}
        graph = graphs.read_graph(content)
        _drop_final_activations(graph)
        self.content = graphs.write_graph(graph)
        self._pickled = pickle.dumps(graphs.read_graph(self.content))
        self._wanted = runtime.run_samples(self.content, self._samples)

    def fresh_graph(self) -> Any:
        """Return a copy of the shortened graph that may be changed; reading the file takes far longer."""
        return pickle.loads(self._pickled)  # noqa: S301  it never left this process

    def sqnr_db(self, quantized: bytes) -> float:
        """Return the SQNR of a quantized form of the shortened file, the worst output counting."""
        try:
            results = runtime.run_samples(quantized, self._samples)
        except (RuntimeError, ValueError):  # the runtime refuses a scale; such a form is out of the question
            return REFUSED_DB
        return min(metrics.sqnr_db(a, b) for a, b in zip(self._wanted, results, strict=True))


def _drop_final_activations(graph: Any) -> None:
    """Let the outputs be what the last softmax or sigmoid reads."""
    subgraph = graph.subgraphs[0]
    before = {
        operator.outputs[0]: operator.inputs[0]
        for operator in subgraph.operators
        if graphs.operator_name(graph, operator) in _FINAL_ACTIVATIONS
    }
    subgraph.outputs = [before.get(tensor, tensor) for tensor in subgraph.outputs]
    for signature in graph.signatureDefs or []:
        for entry in signature.outputs:
            entry.tensorIndex = before.get(entry.tensorIndex, entry.tensorIndex)
