"""Methods of fine-tuning, a file each; a new file is found by itself."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..adapter import Adapter

METHODS: dict[str, type[Adapter]] = {}
"""Each by its name."""

for _file in iter_modules(__path__):
    _module = import_module(f".{_file.name}", __name__)
    METHODS.update(
        (name, held)
        for name, held in vars(_module).items()
        if isinstance(held, type)
        and issubclass(held, Adapter)
        and held.__module__ == _module.__name__
        and not name.startswith("_")
    )

globals().update(METHODS)
__all__ = ["METHODS", *METHODS]
