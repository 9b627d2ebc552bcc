"""The ops, a folder per family; functions, namespaces and Tensor methods are derived from them.

Those imported here are defined by ``import gradwright``: small networks are written with them, and
gradients are. They are a third; importing all would take twice as long. The others are defined when
a name of theirs is first asked for.
"""

from __future__ import annotations

from ..graph.methods import TensorMethods
from ..op import OPS
from ..op.calling import function
from .arithmetic import trigonometry
from .attention import scaled
from .convolutions import averages, cnn, pooling
from .core import (
    activation,
    choice,
    comparison,
    complex,
    creation,
    elementwise,
    functions,
    index,
    joining,
    like,
    masking,
    movement,
    padding,
    reduce,
    reshape,
    scatter,
    slicing,
    sorting,
    special,
    statistics,
)
from .draws import drawing
from .layers import drawn, nn, norm
from .losses import cross_entropy, loss
from .matrices import einsum, linalg
from .namespaces import later, loaded, member, members, missing, modules, namespace, surface
from .reference.changes import Change, Changes, check
from .reference.description import descriptors, schema
from .reference.entries import Entries, Entry, table
from .reference.finding import find, search
from .sequences import items

__all__ = [
    "Change",
    "Changes",
    "Entries",
    "Entry",
    "check",
    "descriptors",
    "find",
    "later",
    "loaded",
    "member",
    "members",
    "missing",
    "modules",
    "namespace",
    "schema",
    "search",
    "surface",
    "table",
]

for _cls in OPS.values():
    if _cls.is_method:
        setattr(TensorMethods, _cls.name, function(_cls))
