"""What TensorFlow prints of itself while it works for us, which is not the user's to solve."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_LOGGER = "tensorflow"
_RETRACING = "triggered tf.function retracing"
_FILTER = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
remarks = (b"I0000 ", b"WARNING: All log messages before absl::InitializeLog() is called")
for line in sys.stdin.buffer:
    if not line.startswith(remarks):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


@contextlib.contextmanager
def without_remarks_at_start() -> Iterator[None]:
    """Drop TensorFlow's remarks on processor and CUDA, if it is imported in the block; for our commands.

    Errors come as exceptions, and what ends the process is still logged: all other lines of standard error
    pass, through a process of their own that outlives this one. TensorFlow minds its log level only in
    part (https://github.com/tensorflow/tensorflow/issues/100442). TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    wants_all = os.environ.setdefault(_LEVEL, "3") == "0"
    if wants_all or "tensorflow" in sys.modules or sys.stderr is None:
        yield
        return
    before = os.dup(2)
    filtering = subprocess.Popen([sys.executable, "-I", "-S", "-c", _FILTER], stdin=subprocess.PIPE)
    with filtering:
        if filtering.stdin is not None:
            os.dup2(filtering.stdin.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)


@contextlib.contextmanager
def without_retracing_warnings() -> Iterator[None]:
    """Drop the advice to trace less often: each model that is asked for its answers must be traced.

    All other messages pass, and so does this one outside of the block.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return _RETRACING not in str(record.msg)

    logger = logging.getLogger(_LOGGER)
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
