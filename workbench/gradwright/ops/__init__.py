"""The ops, one file per family; functions, namespaces and Tensor methods are derived from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..calling import called, function
from ..graph.methods import TensorMethods
from ..op import OPS, Op, registry_revision
from . import (
    activation,
    attention,
    averages,
    choice,
    cnn,
    comparison,
    complex,
    creation,
    cross_entropy,
    einsum,
    elementwise,
    functions,
    index,
    items,
    joining,
    like,
    linalg,
    loss,
    masking,
    movement,
    nn,
    norm,
    padding,
    pooling,
    random,
    reduce,
    reshape,
    scatter,
    slicing,
    sorting,
    special,
    statistics,
    trigonometry,
)
from .describe import Entries, Entry, find, schema, table

__all__ = [
    "Entries",
    "Entry",
    "activation",
    "attention",
    "averages",
    "choice",
    "cnn",
    "comparison",
    "complex",
    "creation",
    "cross_entropy",
    "einsum",
    "elementwise",
    "find",
    "functions",
    "index",
    "items",
    "joining",
    "like",
    "linalg",
    "loaded",
    "loss",
    "masking",
    "member",
    "missing",
    "movement",
    "namespace",
    "nn",
    "norm",
    "padding",
    "pooling",
    "random",
    "reduce",
    "reshape",
    "scatter",
    "schema",
    "slicing",
    "sorting",
    "special",
    "statistics",
    "surface",
    "table",
    "trigonometry",
]


def namespace(*names: str) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of all ops in the namespaces, by short name."""
    from ..catalogue import load

    load(*names)
    return loaded(*names)


def loaded(*names: str) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of those ops in the namespaces that are defined by now."""
    return {name: function(cls) for name, cls in _defined(names, registry_revision()).items()}


@functools.lru_cache(maxsize=64)
def _defined(names: tuple[str, ...], revision: int) -> Mapping[str, type[Op]]:
    return {
        cls.name.rpartition("/")[2]: cls for cls in list(OPS.values()) if cls.namespace in names
    }


def member(module: str, name: str, *names: str) -> Callable[..., Any]:
    """Return a function of the namespaces as a member of the module that stands for them."""
    from ..catalogue import load, load_op

    found = _defined(names, registry_revision()).get(name)
    if found is None and not name.startswith("_"):
        load_op(name)
        found = _defined(names, registry_revision()).get(name)
    if found is None and not name.startswith("_"):
        load(*names)
        found = _defined(names, registry_revision()).get(name)
    if found is None:
        raise missing(module, name)
    return function(found)


def surface(
    module: str, *names: str, also: Sequence[str] = ()
) -> tuple[Callable[[str], Callable[..., Any]], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the module that stands for some namespaces."""
    return (
        lambda name: member(module, name, *names),
        lambda: sorted({*namespace(*names), *also}),
    )


def missing(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have, with the one probably meant."""
    close = "" if name.startswith("_") else called(name)
    hint = f"; did you mean {close}?" if close else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


for _cls in OPS.values():
    if _cls.is_method:
        setattr(TensorMethods, _cls.name, function(_cls))
