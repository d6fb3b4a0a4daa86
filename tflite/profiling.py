"""How long each operator takes, also inside XNNPACK, by the profiler of LiteRT's own library.

The Python classes of LiteRT don't offer it, so this calls the library's C functions. Called in a wrong way
they end the process, so this runs in the child process only, one file a process.
"""

from __future__ import annotations

import ctypes
import re
import statistics
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ai_edge_litert
import numpy as np

_CPU = 1
_ALIGNMENT = 64
_LAYOUT_BYTES = 68  # LiteRtLayout: rank and flag, 8 sizes, 8 strides
_ELEMENT_TYPES = {
    "float32": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "int8": 9,
    "float16": 10,
}
_ROW = re.compile(
    r"\s*(?P<name>\S.*?)\s+[\d.]+\s+[\d.]+\s+(?P<average>[\d.]+)\s+(?P<percent>[\d.]+)%\s+[\d.]+%\s+[\d.-]+"
    r"\s+(?P<calls>\d+)\s+\[(?P<place>\w+)\]:(?P<index>\d+)"
)
_GROUPS = 9
_CONTAINERS = ("WHILE", "IF")  # their time is that of the operators inside, which are listed too


def profile(path: Path, inputs: Sequence[np.ndarray], *, num_threads: int, runs: int) -> list[dict[str, Any]]:
    """Return name, engine, calls per run, milliseconds per run and share of each operator, in order.

    The operators are those that run: XNNPACK fuses and inserts some of its own. Its clock counts whole
    microseconds.

    Raises:
        RuntimeError: the library refused a call.
    """
    library = ctypes.CDLL(str(Path(ai_edge_litert.__file__).with_name("libLiteRt.so")))
    groups = []
    for _ in range(_GROUPS):  # a session each, since the profiler adds up all that it has ever seen
        session = _Session(library, path, num_threads, inputs)
        groups.append(read_summary(session.summary(runs), runs))
        session.close()
    return median_rows(groups)


def median_rows(groups: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the median over groups of runs, so that a disturbed run doesn't count; shares add up to 1.

    Where most groups saw all operators end within a tick of the clock, the mean over the groups tells more.
    Shares are 0 where no group saw a tick.
    """
    rows = _averaged(groups, statistics.median)
    if not any(row["share"] for row in rows):
        rows = _averaged(groups, statistics.fmean)
    whole = sum(row["share"] for row in rows) or 1.0
    return [{**row, "share": row["share"] / whole} for row in rows]


def _averaged(
    groups: Sequence[list[dict[str, Any]]], average: Callable[[list[float]], float]
) -> list[dict[str, Any]]:
    keys = ("milliseconds", "share")
    return [
        {**ones[0], **{key: average([one[key] for one in ones]) for key in keys}}
        for ones in zip(*groups, strict=True)
    ]


def read_summary(text: str, runs: int) -> list[dict[str, Any]]:
    """Return the rows of the profiler's first table, "Run Order"; shares add up to 1."""
    table = text.partition("Run Order")[2].partition("Top by Computation Time")[0]
    rows = [match for match in map(_ROW.match, table.splitlines()) if match]
    rows = [row for row in rows if row["name"] not in _CONTAINERS]
    if not rows:
        raise RuntimeError("the profiler of LiteRT listed no operator")
    whole = sum(float(row["percent"]) for row in rows) or 1.0
    return [
        {
            "name": row["name"].removeprefix("Delegate/"),
            "engine": "XNNPACK" if row["place"] == "Delegate" else "built-in",
            "calls": int(row["calls"]) / runs,
            "milliseconds": float(row["average"]) * int(row["calls"]) / runs,
            "share": float(row["percent"]) / whole,
        }
        for row in rows
    ]


class _Session:
    """A compiled model with profiling on, and its buffers. The process ends soon, which releases the rest."""

    def __init__(
        self, library: ctypes.CDLL, path: Path, num_threads: int, inputs: Sequence[np.ndarray]
    ) -> None:
        self._library = library
        self._memory: list[np.ndarray] = []
        environment = self._new("LiteRtCreateEnvironment", 0, None)
        model = self._new("LiteRtCreateModelFromFile", environment, str(path).encode())
        options = self._new("LiteRtCreateOptions")
        self._call("LiteRtSetOptionsHardwareAccelerators", options, _CPU)
        self._add_options(options, b"runtime_options_string", b"enable_profiling = true\n")
        self._add_options(options, b"xnnpack", f"num_threads = {num_threads}\n".encode())
        self._compiled = self._new("LiteRtCreateCompiledModel", environment, model, options)
        self._profiler = self._new("LiteRtCompiledModelGetProfiler", self._compiled)
        subgraph = self._new("LiteRtGetModelSubgraph", model, ctypes.c_size_t(0))
        self._inputs = self._make_inputs(inputs)
        self._outputs = self._make_outputs(subgraph)

    def summary(self, runs: int) -> str:
        """Run the model and return the profiler's report of these runs."""
        for run in range(runs + 1):
            if run == 1:  # the first one warms up
                self._call("LiteRtStartProfiler", self._profiler)
            self._call(
                "LiteRtRunCompiledModel",
                *(self._compiled, ctypes.c_size_t(0)),
                *(ctypes.c_size_t(len(self._inputs)), self._inputs),
                *(ctypes.c_size_t(len(self._outputs)), self._outputs),
            )
        self._call("LiteRtStopProfiler", self._profiler)
        text = ctypes.c_char_p()
        self._call("LiteRtGetProfileSummary", self._profiler, self._compiled, ctypes.byref(text))
        return (text.value or b"").decode(errors="replace")

    def close(self) -> None:
        """Release the compiled model, which is most of the memory."""
        self._library.LiteRtDestroyCompiledModel(self._compiled)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} of LiteRT's library failed with status {status}")

    def _new(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call(name, *arguments, ctypes.byref(handle))
        return handle

    def _add_options(self, options: ctypes.c_void_p, kind: bytes, text: bytes) -> None:
        c = ctypes.CDLL(None)
        c.strdup.restype = ctypes.c_void_p
        payload = ctypes.c_void_p(c.strdup(text))
        release = ctypes.cast(c.free, ctypes.c_void_p)
        self._call(
            "LiteRtAddOpaqueOptions", options, self._new("LiteRtCreateOpaqueOptions", kind, payload, release)
        )

    def _make_inputs(self, values: Sequence[np.ndarray]) -> Any:
        buffers = []
        for number, value in enumerate(values):
            place = (self._compiled, ctypes.c_size_t(0), ctypes.c_size_t(number))
            layout = ctypes.create_string_buffer(_LAYOUT_BYTES)
            self._call("LiteRtGetCompiledModelInputTensorLayout", *place, layout)
            needs = self._new("LiteRtGetCompiledModelInputBufferRequirements", *place)
            buffers.append(self._buffer(needs, layout.raw, value.dtype.name))
            data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            self._memory[-1][: len(data)] = data
        return (ctypes.c_void_p * len(buffers))(*buffers)

    def _make_outputs(self, subgraph: ctypes.c_void_p) -> Any:
        count = ctypes.c_size_t()
        self._call("LiteRtGetNumSubgraphOutputs", subgraph, ctypes.byref(count))
        layouts = ctypes.create_string_buffer(_LAYOUT_BYTES * count.value)
        self._call(
            "LiteRtGetCompiledModelOutputTensorLayouts",
            *(self._compiled, ctypes.c_size_t(0), count, layouts, ctypes.c_bool(False)),
        )
        buffers = []
        for number in range(count.value):
            place = (self._compiled, ctypes.c_size_t(0), ctypes.c_size_t(number))
            needs = self._new("LiteRtGetCompiledModelOutputBufferRequirements", *place)
            layout = layouts.raw[_LAYOUT_BYTES * number : _LAYOUT_BYTES * (number + 1)]
            buffers.append(self._buffer(needs, layout, "uint8"))  # the type of an output is not looked at
        return (ctypes.c_void_p * len(buffers))(*buffers)

    def _buffer(self, needs: ctypes.c_void_p, layout: bytes, dtype: str) -> ctypes.c_void_p:
        size = ctypes.c_size_t()
        self._call("LiteRtGetTensorBufferRequirementsBufferSize", needs, ctypes.byref(size))
        padded = -(-size.value // _ALIGNMENT) * _ALIGNMENT
        memory = np.zeros(padded + _ALIGNMENT, np.uint8)
        memory = memory[-memory.ctypes.data % _ALIGNMENT :][:padded]
        self._memory.append(memory)
        kind = ctypes.create_string_buffer(_ELEMENT_TYPES[dtype].to_bytes(4, "little") + layout)
        address = ctypes.c_void_p(memory.ctypes.data)
        return self._new(
            "LiteRtCreateTensorBufferFromHostMemory", kind, address, ctypes.c_size_t(padded), None
        )
