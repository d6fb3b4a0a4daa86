"""The program of the child process: `python -m keras_attention.tflite.worker FOLDER`.

Reads job.json, does the stages that it asks for, and leaves result.json with the files it names, or
failure.json with the reason. Progress goes to standard output, one JSON object per line.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LATENCY_SECONDS = 0.5
_BACKTRACE = re.compile(r"\s*(<unknown>|loc\(|callsite\(|note: ).*")


def main(folder: Path) -> int:
    """Do the job in `folder` and return the exit code."""
    emit = _protect_standard_output()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process itself
    job = json.loads((folder / "job.json").read_text())
    try:
        result = _convert(folder, job, emit) if job["task"] == "convert" else _inspect(job, emit)
    except Exception as error:  # the boundary: everything becomes a message for the parent
        import traceback

        traceback.print_exc()
        (folder / "failure.json").write_text(json.dumps({"message": _readable(error)}))
        return 1
    (folder / "result.json").write_text(json.dumps(result))
    return 0


def _convert(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    from keras_attention.tflite import quantization
    from keras_attention.tflite import runtime
    from keras_attention.tflite import saved_model

    result: dict[str, Any] = {}
    saved = folder / "saved_model"
    outputs = job["outputs"]
    if outputs is None:
        emit("export", 0, 0)
        outputs, result["changes"], result["loops"] = _export(folder, job, saved)
    result["outputs"] = outputs

    emit("convert", 0, 0)
    content = _prepared(saved_model.convert_saved_model(saved), job["inputs"], outputs)
    samples = _load(folder, "calibration", job["inputs"])
    chosen: dict[str, Any] = {}
    emit("quantize", 0, 0)
    if job["precision"] == "float32":
        final = content
    elif job["precision"] == "float16":
        final = _prepared(saved_model.convert_saved_model(saved, float16=True), job["inputs"], outputs)
    else:
        quantized = quantization.quantize(
            content, job["precision"], samples, lambda done, total: emit("calibrate", done, total)
        )
        final = quantized.content
        chosen = {name: value for name, value in vars(quantized).items() if name != "content"}
    result["quantization"] = chosen

    float_file, file = _stripped(content), _stripped(final)
    (folder / "float32.tflite").write_bytes(float_file)
    (folder / "model.tflite").write_bytes(file)
    evaluation = _load(folder, "evaluation", job["inputs"]) or {}
    for name, bytes_ in (("float32", float_file), ("model", file)):
        values = runtime.run_samples(bytes_, evaluation, lambda done, total: emit("verify", done, total))
        np.savez(folder / f"{name}_outputs.npz", *values)
    emit("measure", 0, 0)
    first = {name: values[0] for name, values in evaluation.items()}
    latency = runtime.measure_latency([float_file, file], first, seconds=LATENCY_SECONDS)
    return {**result, "latency": latency, "file": _describe(file)}


def _describe(content: bytes) -> dict[str, Any]:
    """Return what `Inspection` and `Report` say of a file."""
    from keras_attention.tflite import graph as graphs
    from keras_attention.tflite import runtime

    graph = graphs.read_graph(content)
    partitions, operators = runtime.partitions_and_operators(content)
    return {
        **graphs.describe_interface(graph),
        "operators": operators,
        "tensor_dtypes": graphs.count_tensor_types(graph),
        "delegate_partitions": partitions,
        "fully_delegated": runtime.is_fully_delegated(content),
    }


def _inspect(job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    from keras_attention.tflite import graph as graphs

    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    try:
        return {**_describe(content), "signatures": graphs.signature_names(graphs.read_graph(content))}
    except Exception as error:  # flatbuffer classes raise whatever the wrong bytes lead to
        raise ValueError(f"The file is damaged, or needs another runtime: {error}") from error


def _export(folder: Path, job: dict[str, Any], saved: Path) -> tuple[list[str], Any, Any]:
    """Load the model that another backend trained, and trace it here."""
    from keras_attention.tflite import loading
    from keras_attention.tflite import model_signature
    from keras_attention.tflite import saved_model

    model = loading.load_model(folder / "model.keras")
    samples = _load(folder, "evaluation", job["inputs"])
    shapes = {name: values.shape[1:] for name, values in (samples or {}).items()}
    signature = model_signature.read_signature(model, None, shapes)
    names, lowering = saved_model.export_saved_model(model, signature, saved, job["max_unrolled_steps"])
    return names, lowering.changes, lowering.loops


def _load(folder: Path, kind: str, names: list[str]) -> dict[str, np.ndarray] | None:
    path = folder / f"{kind}.npz"
    if not path.exists():
        return None
    with np.load(path) as data:
        return {name: data[f"arr_{index}"] for index, name in enumerate(names)}


def _prepared(content: bytes, inputs: list[str], outputs: list[str]) -> bytes:
    """Give the converter's graph Keras' interface, the form that XNNPACK takes, and a name per tensor."""
    from keras_attention.tflite import graph as graphs
    from keras_attention.tflite import rewriting

    graph = graphs.read_graph(content)
    graphs.set_interface(graph, inputs, outputs)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    graphs.name_tensors(graph)
    return graphs.write_graph(graph)


def _stripped(content: bytes) -> bytes:
    from keras_attention.tflite import graph as graphs

    graph = graphs.read_graph(content)
    graphs.strip_names(graph)
    return graphs.write_graph(graph)


def _readable(error: Exception) -> str:
    """Return the error's text without MLIR's call sites, with a cure where the cause is known."""
    lines = [line for line in str(error).splitlines() if line.strip() and not _BACKTRACE.fullmatch(line)]
    text = "\n".join(lines[:30]) or type(error).__name__
    missing = sorted(set(re.findall(r"\b(?:tf\.|Flex)(\w+)", text)))
    if "is neither a custom op nor a flex op" in text or "Some ops are not supported" in text:
        layers = sorted(set(re.findall(r'"([\w./-]+)/[\w.-]+@|fused\["\w+:", "([^"@]+)', text)))
        where = f" (at {', '.join(filter(None, (a or b for a, b in layers)))})" if layers else ""
        return (
            f"the model uses operators that the phone's runtime lacks: "
            f"{', '.join(missing) or 'unknown'}{where}. "
            "Replace the layer that uses them by one made of standard operators, or move that step out of "
            f"the model.\n{text}"
        )
    return text


def _protect_standard_output() -> Callable[[str, int, int], None]:
    """Keep standard output for progress alone; whatever libraries print goes to the log."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(stage: str, done: int, total: int) -> None:
        channel.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")

    return emit


def _end_with_parent() -> None:
    """Wait for the parent's end of standard input to close, which it does however the parent ends."""
    sys.stdin.read()
    os._exit(2)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
