"""Child job "openvino_file": from a checked ONNX file to OpenVINO's two files, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Write model.xml and model.bin from model.onnx, and the answers to samples.npz as answers.npz."""
    import openvino

    emit("openvino", 0, 0)
    core = openvino.Core()
    model = core.read_model(folder / "model.onnx")
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
    emit("verify", 0, 0)
    # What was written is read again; half precision, which some CPUs would take, is another model.
    compiled = core.compile_model(
        core.read_model(folder / "model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    with np.load(folder / "samples.npz") as data:
        inputs = [data[name] for name in data.files]
    batches = []
    for start in range(0, len(inputs[0]), job["batch"]):
        part = {
            name: values[start : start + job["batch"]]
            for name, values in zip(job["inputs"], inputs, strict=True)
        }
        found = compiled(part)
        batches.append([found[name] for name in job["outputs"]])
    np.savez(folder / "answers.npz", *(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    return {}
