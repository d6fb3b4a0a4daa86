"""Modules of timm.layers without timm itself, whose import needs a torchvision that loads."""

import contextlib
import importlib
import importlib.util
import sys
import types

import pytest

PACKAGES = ("timm", "timm.layers")
OTHERS = ("torchvision", "torchvision.ops", "torchvision.ops.misc")
"""What timm.layers imports of torchvision is one class, which our modules don't use."""


@contextlib.contextmanager
def _without_init():
    """Empty packages in the place of timm's own, and sys.modules as it was afterwards."""
    spec = importlib.util.find_spec("timm")
    if spec is None:
        pytest.skip("timm is not installed")
    before = dict(sys.modules)
    (root,) = spec.submodule_search_locations
    for name, path in zip(PACKAGES, (root, f"{root}/layers"), strict=True):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [path]
    for name in OTHERS:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    sys.modules[OTHERS[-1]].FrozenBatchNorm2d = type("FrozenBatchNorm2d", (), {})
    try:
        yield
    finally:
        for name in _of_both(sys.modules):
            del sys.modules[name]
        sys.modules.update({name: before[name] for name in _of_both(before)})


def _of_both(modules):
    return [name for name in modules if name.partition(".")[0] in ("timm", "torchvision")]


def load(name):
    """The module `timm.layers.<name>`."""
    with _without_init():
        return importlib.import_module(f"timm.layers.{name}")
