"""The ops, one file per family; functions, namespaces and Tensor methods are derived from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.methods import TensorMethods
from ..op import OPS, function
from . import elementwise, like, linalg, movement, reduce

__all__ = ["elementwise", "like", "linalg", "movement", "namespace", "reduce"]


def namespace(*names: str) -> dict[str, Callable[..., Any]]:
    """Return the functions of all ops in the namespaces, by short name."""
    return {
        cls.name.rpartition("/")[2]: function(cls)
        for cls in OPS.values()
        if cls.namespace in names
    }


for _cls in OPS.values():
    if _cls.is_method:
        setattr(TensorMethods, _cls.name, function(_cls))
