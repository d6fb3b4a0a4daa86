"""The published PyTorch code of layers for images, as an independent implementation."""

import sys

import pytest


def import_timm():
    """The package timm; skips the test where it isn't installed.

    It imports torchvision, whose compiled operators are missing where it was built for another torch. The
    layers use none of them: it is enough that the two that torchvision looks for by name are declared.
    """
    torch = pytest.importorskip("torch")
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        pytest.skip("timm needs torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
    return pytest.importorskip("timm")


_LIBRARIES = []
"""Torch forgets the operators of a library that nobody holds."""
