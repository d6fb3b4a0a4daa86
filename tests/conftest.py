"""Makes the tests run from a checkout without installation, and seeds the random numbers of each test."""

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path

# Tests compile much and run little: JAX need not optimize. Before Keras imports JAX.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import keras
import numpy as np
import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
FOLDERS = {"keras_attention": ROOT / "keras_attention", "keras_attention.tflite": ROOT / "tflite"}


class CheckoutFinder(importlib.abc.MetaPathFinder):
    """Finds the package in the checkout; `keras_attention.tflite` is the folder `tflite/`, see setup.cfg."""

    def find_spec(self, fullname, path=None, target=None):
        folder = FOLDERS.get(fullname)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if (ROOT / "setup.cfg").is_file() and (ROOT / "tflite").is_dir():  # not when tests/ was copied elsewhere
    sys.meta_path.insert(0, CheckoutFinder())
sys.path.insert(0, str(TESTS))  # for `import contract` and `import reference`


@pytest.fixture(scope="session", autouse=True)
def short_measurements():
    """Conversions measure how fast the file is for a moment only: no test rests on a time."""
    from keras_attention.tflite import building

    building.LATENCY_SECONDS = 0.05


@pytest.fixture
def rng():
    """A generator that every test starts afresh; the initial weights of layers are seeded too."""
    keras.utils.set_random_seed(1234)
    return np.random.default_rng(1234)
