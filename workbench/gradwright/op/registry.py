"""The registry: ops by name, who may define more of them, and functions that are more than ops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import GraphError, UnsupportedOpError
from ..shared import first_use, module_lock
from ..words.advised import advised
from ..words.spelling import meant

if TYPE_CHECKING:
    from .op import Op

OPS: dict[str, type[Op]] = {}
"""Every op that graphs and archives may name, by registered name.

Families are loaded on first use, in any thread: who goes through all takes a list of them first.
"""

_registering = module_lock()
_revision = 0
_redefined = 0


def registry_revision() -> int:
    """Return a number that grows whenever an op is defined or redefined; lists depend on it."""
    return _revision


def redefinitions() -> int:
    """Return how often an op has taken the place of another; gradients and plans depend on it."""
    return _redefined


def enter(cls: type[Op]) -> None:
    """Make an op the one of its name."""
    global _revision, _redefined
    with _registering:
        replaces = cls.name in OPS
        OPS[cls.name], cls.registered = cls, True
        _redefined += replaces  # after the op, or what is made meanwhile would keep the old one
        _revision += 1


OpType = TypeVar("OpType", bound="type[Op]")


def register(name: str) -> Callable[[OpType], OpType]:
    """Give a user's op its name, ``"owner/op"``; defining it again replaces it everywhere.

    >>> import gradwright as gw
    >>> @gw.register("me/double")
    ... class Double(gw.Op):
    ...     '''Twice the input.'''
    ...     def infer(self, x): return x
    ...     def forward(self, x): return 2 * x
    ...     def vjp(self, gs, ys, xs): return (gs[0] * 2,)
    >>> g = gw.Graph()
    >>> g.output({}, Double()(g.constant([1.0, 2.0]), name="y"))["y"].tolist()
    [2.0, 4.0]
    """

    def decorate(cls: OpType) -> OpType:
        owner, _, _ = name.rpartition("/")
        if not owner or not re.fullmatch(r"[A-Za-z_][\w./-]*", name):
            raise GraphError(f"{name!r} is not an op name", need='"owner/op"', hint='"me/softcap"')
        cls.name, cls.namespace = name, cls.__dict__.get("namespace", owner)
        enter(cls)
        return cls

    return decorate


finders: list[Callable[[str], None]] = []
"""Who may define an op, or a function, that is asked for by name; by "" for all. ``ops`` is one."""


def find_op(name: str) -> type[Op]:
    """Return the op registered as ``name``; packages may offer more (``gradwright.ops``)."""
    if name not in OPS:
        for find in finders:
            find(name)
    if name not in OPS:
        import importlib.metadata  # 24 ms, and only for ops of other packages

        with first_use:
            for entry in importlib.metadata.entry_points(group="gradwright.ops"):
                if name.startswith(entry.name + "/"):
                    entry.load()
    if name not in OPS:
        close = meant(name, list(OPS))
        slip = f"did you mean {close!r}?" if close else ""
        hint = slip or "import or define the op before using the graph"
        raise UnsupportedOpError(f"no op is called {name!r}", hint=hint)
    return OPS[name]


FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {}
"""Namespace -> its functions that are more than one op: they draw streams, or make variables."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def maker(namespace: str, name: str = "") -> Callable[[FunctionT], FunctionT]:
    """Make a function one of a namespace, in the place of the one derived from an op, if any.

    >>> from gradwright.op.registry import FUNCTIONS
    >>> FUNCTIONS["nn"]["dropout"].__name__
    'dropout'
    """

    def decorate(function: FunctionT) -> FunctionT:
        global _revision
        function = advised(function)
        with _registering:
            FUNCTIONS.setdefault(namespace, {})[name or function.__name__] = function
            _revision += 1
        return function

    return decorate
