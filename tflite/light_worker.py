"""The child process for jobs that need no Keras: `python light_worker.py FOLDER`.

The packages above a job's module import Keras and with it TensorFlow, which takes seconds and hundreds of
megabytes. Here empty packages stand in their place, so that a job starts at once and its memory is its own.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path


def replace_packages() -> None:
    """Put empty packages in the place of those that import Keras."""
    here = Path(__file__).resolve().parent
    # This folder's `inspect` and other names would hide those of Python. It may be spelled through a link.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    for name, path in (("keras_attention", []), ("keras_attention.tflite", [str(here)])):
        package = types.ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


def main() -> int:
    """Run the worker on the folder that the command line names."""
    replace_packages()
    from keras_attention.tflite import worker

    return worker.main(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
