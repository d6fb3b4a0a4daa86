"""Makes float files integer and runs them, each in a process of its own; the tests read what came of it.

Run as a program on a folder with NAME.tflite and NAME.npz, the samples. Native code may crash on
a wrong file, which then is a failed test and not the end of all tests.
"""

import json
import os
import sys
import types
from pathlib import Path

import numpy as np


def without_keras(package):
    """Stand-ins for the packages that import Keras, which nothing here needs."""
    for name, path in (("keras_attention", []), ("keras_attention.tflite", [package])):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = path


def run_one(content, samples, bits):
    """Answers of the integer file beside those of the float one, and which operators are integer."""
    from keras_attention.tflite import calibration
    from keras_attention.tflite import graph as graphs
    from keras_attention.tflite import metrics
    from keras_attention.tflite import runtime
    from keras_attention.tflite.integer import coverage
    from keras_attention.tflite.integer import graph_writer

    graph = graphs.read_graph(content)
    ranges = calibration.collect_ranges(content, samples, coverage.float_activations(graph)).by_kind["minmax"]
    chosen = coverage.integer_operators(graph, ranges, bits)
    written = graph_writer.write_integer(graphs.read_graph(content), chosen, ranges, bits, io_dtype="float32")
    wanted, got = runtime.run_samples(content, samples), runtime.run_samples(written, samples)
    new = graphs.read_graph(written)
    kinds = {}
    for operator in new.subgraphs[0].operators:
        tensors = [new.subgraphs[0].tensors[t] for t in (*operator.inputs, *operator.outputs) if t >= 0]
        found = [graphs.tensor_type(tensor) for tensor in tensors]
        kinds.setdefault(graphs.operator_name(new, operator), []).append(found)
    return {
        "sqnr_db": [metrics.sqnr_db(a, b) for a, b in zip(wanted, got, strict=True)],
        "equal": [float(np.mean(a == b)) for a, b in zip(wanted, got, strict=True)],
        "kinds": kinds,
    }


def run_whole(content, samples, bits):
    """The file that `int8_full` or `int16x8` makes, beside the float one."""
    from keras_attention.tflite import graph as graphs
    from keras_attention.tflite import metrics
    from keras_attention.tflite import runtime
    from keras_attention.tflite.integer import search

    made = search.to_integers(content, samples, bits, io_dtype="int8" if bits == 8 else "float32")
    wanted, got = runtime.run_samples(content, samples), runtime.run_samples(made.content, samples)
    graph = graphs.read_graph(made.content)
    return {
        "sqnr_db": [metrics.sqnr_db(a, b) for a, b in zip(wanted, got, strict=True)],
        "types": graphs.count_tensor_types(graph),
        "interface": graphs.interface(graph),
        "left": list(made.left),
    }


def run_apart(path, bits, run):
    """The result of one run in a forked process, or the signal that ended it."""
    with np.load(path.with_suffix(".npz")) as data:
        samples = dict(data)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = run(path.read_bytes(), samples, bits)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as stream:
            json.dump(result, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(text) if text else {"error": f"the process ended with status {status}"}


if __name__ == "__main__":
    without_keras(sys.argv[1])
    from keras_attention.tflite.integer import search  # noqa: F401  imported once, not in each process

    folder, run = Path(sys.argv[2]), {"operators": run_one, "whole": run_whole}[sys.argv[3]]
    results = {
        f"{path.stem} {bits}": run_apart(path, bits, run)
        for path in sorted(folder.glob("*.tflite"))
        for bits in (8, 16)
    }
    (folder / "results.json").write_text(json.dumps(results))
