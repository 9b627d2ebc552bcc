"""What is alive in a kernel: graphs, trainers, steppers, runs, checks, where the user has them.

Nobody registers anything. What a user can name is found in the namespace of the notebook, what is
shown in the widgets that are open; and a trainer that a function keeps to itself is found among
those that live.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gradwright import Graph, Tensor

MOST = 64
"""Values of a list or a dict that are looked at, and things of a kind that are told."""
_KINDS = {
    "trainers": ("gradwright.train.trainer", "Trainer"),
    "steppers": ("gradwright.debug.stepping.stepper", "Stepper"),
    "runs": ("gradwright.recording.run", "Run"),
    "reports": ("gradwright.debug.check.report", "Report"),
    "writers": ("gradwright.models.decoder.decoder", "Decoder"),
}
"""Each kind, and where its class is: one that nobody has imported has no instances."""

_KEYS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
"""Types of keys that are told: to write others, code of the user's would run."""
_PLAIN = _KEYS | frozenset(
    map(id, (type, np.ndarray, ModuleType, FunctionType, BuiltinFunctionType))
)
"""Types of what leads nowhere, most of a namespace; by ``id``, for a type may refuse to be hashed.
"""
_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""What widgets that are open are called."""


@dataclass
class Living:
    """What is alive, by the variable that holds it; ``trainer.graph`` and ``models[0]`` count."""

    graphs: dict[str, Any] = field(default_factory=dict)
    trainers: dict[str, Any] = field(default_factory=dict)
    steppers: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    reports: dict[str, Any] = field(default_factory=dict)
    writers: dict[str, Any] = field(default_factory=dict)
    """Language models, beside their graphs."""

    def add(self, kind: str, name: str, value: Any) -> None:
        """Enter a thing under a name, unless it is there already, or there are too many."""
        held: dict[str, Any] = getattr(self, kind)
        if len(held) < MOST and not any(value is other for other in held.values()):
            held.setdefault(name, value)


def living(namespace: Mapping[str, Any]) -> Living:
    """Return what is alive in a namespace, what it leads to, and which trainers live beside it.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w)
    >>> found = living({"g": g, "models": [trainer], "_": g, "n": 3})
    >>> found.graphs["g"] is g, found.trainers["models[0]"] is trainer
    (True, True)
    """
    found = Living()
    kinds = {kind: cls for kind, place in _KINDS.items() if (cls := _class(*place)) is not None}
    values = list(_values(namespace))
    kind_of = {id(cls): _kind(cls, {"graphs": Graph, **kinds}) for _, _, cls in values}
    for name, value, cls in values:
        if kind := kind_of[id(cls)]:
            found.add(kind, name, value)
    if "trainers" in kinds:
        for number, trainer in sys.modules["gradwright.train.living"].living().items():
            found.add("trainers", f"trainer {number}", trainer)
    for name, trainer in found.trainers.items():
        found.add("graphs", f"{name}.graph", trainer.graph)
        for run in trainer.callbacks:
            if "runs" in kinds and isinstance(run, kinds["runs"]):
                found.add("runs", f"{name}'s run", run)
    for name, stepper in found.steppers.items():
        found.add("graphs", f"{name}.graph", stepper.graph)
    for name, host in shown().items():
        graph = getattr(host.desk, "graph", None)
        if isinstance(graph, Graph):
            found.add("graphs", name, graph)
    for name, value, cls in values:  # the last way: a graph that only its tensors or a model hold
        graph = value.graph if issubclass(cls, Tensor) else _attribute(value)
        if issubclass(type(graph), Graph) and graph.parent is None:
            found.add("graphs", f"{name}.graph", graph)
    return found


def hosts() -> list[Any]:
    """Return the widgets of panels that are open, the oldest first."""
    host = _class("gradwright_widgets.host.host", "Host")
    if host is None:
        return []
    widgets = sys.modules["ipywidgets.widgets.widget"]._instances
    return [w for w in list(widgets.values()) if isinstance(w, host) and w.comm]


def shown() -> dict[str, Any]:
    """Return the widgets that are open, by what they are: ``of GraphView``, ``of GraphView 2``.

    Each keeps its name as long as it lives, whichever others are closed.
    """
    found = hosts()
    taken = {_NAMES[host] for host in found if host in _NAMES}
    for host in found:
        if host not in _NAMES:
            name = f"of {type(host).__name__}"
            names = itertools.chain([name], (f"{name} {n}" for n in itertools.count(2)))
            _NAMES[host] = next(free for free in names if free not in taken)
            taken.add(_NAMES[host])
    return {_NAMES[host]: host for host in found}


def _class(module: str, name: str) -> type[Any] | None:
    return getattr(sys.modules.get(module), name, None)


def _kind(cls: type[Any], kinds: Mapping[str, type[Any]]) -> str:
    """Return what instances of a class are.

    What they say of themselves is not asked: proxies and mocks answer by code of their own.
    """
    return next((kind for kind, known in kinds.items() if issubclass(cls, known)), "")


def _values(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any, type[Any]]]:
    """Yield what the user has named, and what stands in lists and dicts of it, with its type."""
    for name, value in list(namespace.items()):
        cls: type[Any] = type(value)
        if id(cls) in _PLAIN or type(name) is not str or name.startswith("_"):
            continue
        yield name, value, cls
        inside: Iterable[tuple[Any, Any]] = ()
        if cls is list or cls is tuple:
            inside = enumerate(value[:MOST])
        elif cls is dict and len(value) <= MOST and name not in ("In", "Out"):
            inside = list(value.items())
        for key, held in inside:
            if id(type(held)) not in _PLAIN and _is_told(key):
                yield f"{name}[{key!r}]", held, type(held)


def _is_told(key: Any) -> bool:
    if type(key) is tuple:
        return all(id(type(part)) in _KEYS for part in key)
    return id(type(key)) in _KEYS


def _attribute(value: Any) -> Any:
    """Return the graph of a model that keeps it as a plain attribute; no code of it is run."""
    try:
        return object.__getattribute__(value, "__dict__").get("graph")
    except Exception:  # it has none, or one that is computed
        return None
