"""Public names whose modules are imported once one is asked for: some need Keras, which takes seconds."""

import importlib
from collections.abc import Callable
from collections.abc import Mapping


def getter(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` (PEP 562) of a package.

    Args:
        package: its name.
        modules: public name -> the module of the package that holds it.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return get
