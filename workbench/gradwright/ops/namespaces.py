"""Namespaces: ``gw.nn``, ``gw.loss`` and the others, modules of the functions of ops.

There is no file behind them: what stands in each is what ops and makers say of themselves. Type
checkers read the stubs that ``python -m gradwright.ops.stubs`` writes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..op import Op
from ..op.calling import called, function
from ..op.registry import FUNCTIONS, OPS, registry_revision
from ..shared import first_use
from ..words import MODULE
from ..words.advised import no_attribute
from ..words.spelling import meant
from .loading import load, load_named

NAMESPACES = {
    "math": "elementary functions",
    "linalg": "products, factorisations and solutions of matrices",
    "bitwise": "operations on the bits of integers",
    "random": "random tensors of the active graph",
    "nn": "activations, normalisations, attention, embedding, dropout",
    "cnn": "convolution and pooling of images",
    "rnn": "recurrent layers and their cells",
    "loss": "losses of (labels, predictions, weights=None, *, reduction=...)",
    "image": "resizing, cropping, colour and geometry of images",
    "audio": "features, filters and synthesis of sound",
    "signal": "windows and Fourier transforms",
    "training": "what optimizers do in one step",
    "quant": "packed and scaled numbers, and products with them",
    "sequence": "lists of tensors, and optionals",
    "strings": "text in tensors",
}
"""Namespace -> what it holds. The ops of "base" stand at the top level alone."""


def modules() -> Mapping[str, ModuleType]:
    """Make the modules that stand for the namespaces, once, and return them by short name."""
    package = __name__.partition(".")[0]
    made = {}
    for name, what in NAMESPACES.items():
        module = ModuleType(f"{package}.{name}", f"``gw.{name}``: {what}.")
        module.__spec__ = ModuleSpec(module.__name__, None, origin=__file__)
        find, names = surface(module.__name__, name)
        module.__dict__.update(__getattr__=find, __dir__=names)
        made[name] = sys.modules.setdefault(module.__name__, module)
    return made


def namespace(*names: str) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of all ops in the namespaces, by short name."""
    load(*names)
    return loaded(*names)


def loaded(*names: str) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of those ops in the namespaces that are defined by now."""
    return {name: function(cls) for name, cls in _defined(names, registry_revision()).items()}


def members(*names: str) -> Mapping[str, Callable[..., Any]]:
    """Return all functions of the namespaces: those of ops, and in their place what is more."""
    found = dict(namespace(*names))  # first, for it defines makers, too
    for name in names:
        found |= FUNCTIONS.get(name, {}).copy()
    return found


@functools.lru_cache(maxsize=64)
def _defined(names: tuple[str, ...], revision: int) -> Mapping[str, type[Op]]:
    return {
        cls.name.rpartition("/")[2]: cls for cls in list(OPS.values()) if cls.namespace in names
    }


def member(module: str, name: str, *names: str, also: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a function of the namespaces as a member of the module that stands for them.

    ``also`` are other names of the module, of which one may have been meant.
    """
    found = _found(name, names)
    if found is None and not name.startswith("_"):
        load_named(name)
        found = _found(name, names)
    if found is None:
        raise missing(module, name, also)
    return found


def _found(name: str, names: tuple[str, ...]) -> Callable[..., Any] | None:
    for space in names:
        if made := FUNCTIONS.get(space, {}).get(name):
            return made
    cls = _defined(names, registry_revision()).get(name)
    return None if cls is None else function(cls)


def surface(
    module: str, *names: str, also: Sequence[str] = ()
) -> tuple[Callable[[str], Callable[..., Any]], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the module that stands for some namespaces."""
    return (
        lambda name: member(module, name, *names),
        lambda: sorted({*members(*names), *also}),
    )


def later(
    module: str, homes: Mapping[str, str], known: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module that imports names when first asked for.

    ``homes`` are the modules that they are imported from, each with their names; ``known`` are all
    public names of the module.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    held = vars(sys.modules[module])

    def find(name: str) -> Any:
        if name not in home_of:
            raise missing(module, name, known)
        with first_use:
            found = held[name] = getattr(import_module(home_of[name], module), name)
        return found

    return find, lambda: sorted({*held, *known})


def missing(module: str, name: str, known: Sequence[str] = ()) -> AttributeError:
    """Return the error for a name that a module does not have, with the one probably meant."""

    def find(name: str) -> str:
        close = meant(name, known)
        return f"gw.{module.rpartition('.')[2]}.{close}" if close else called(name)

    owners = () if _is_submodule(module, name) else (MODULE,)
    return no_attribute(f"module {module!r} has no attribute {name!r}", name, *owners, find=find)


def _is_submodule(module: str, name: str) -> bool:
    """Tell whether a name is a module that ``from ... import`` looks up before it imports it."""
    is_package = "__path__" in vars(sys.modules[module])
    return is_package and not name.startswith("_") and find_spec(f"{module}.{name}") is not None
