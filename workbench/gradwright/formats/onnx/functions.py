"""Scopes and calls as functions of a model, which equal ones share.

A group of nodes becomes a function where one node may stand in its place: where no way leads out of
the group and back in. Inner groups come first, so that functions call each other.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .model import graphs_of, names_read
from .output import to_tensor

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

Array = np.ndarray[Any, Any]

DOMAIN = "functions"
"""Domain of functions that were none of a model that was read."""


class Functions:
    """Functions in the making: nodes of scopes are taken out of a list, calls put in."""

    def __init__(
        self,
        nodes: Sequence[NodeProto],
        homes: Mapping[str, str],
        called: Mapping[str, tuple[str, str]] | None,
        constants: Mapping[str, Array],
        outputs: Iterable[str],
    ) -> None:
        self.nodes = list(nodes)
        self._homes = {node.name: homes.get(node.name, "") for node in self.nodes}
        self._called, self._constants, self._outputs = called, constants, set(outputs)
        self._known: dict[bytes, FunctionProto] = {}
        self._taken: collections.Counter[tuple[str, str]] = collections.Counter()
        scopes = self._scopes()
        for name, home in self._homes.items():
            self._homes[name] = _nearest(home, scopes)
        for scope in sorted(scopes, key=lambda s: (-s.count("/"), s)):
            self._gather(scope, _nearest(scope.rpartition("/")[0], scopes))

    @property
    def made(self) -> list[FunctionProto]:
        """The functions, each after those that it calls."""
        return list(self._known.values())

    def _scopes(self) -> set[str]:
        """Return the scopes of nodes and all that hold these; of a model that was read, its own."""
        found = set[str]()
        for home in self._homes.values():
            parts = home.split("/") if home else []
            found.update("/".join(parts[:i]) for i in range(1, len(parts) + 1))
        return found if self._called is None else found & self._called.keys()

    def _gather(self, scope: str, outer: str) -> None:
        """Put a call in the place of a scope's nodes, if one place is enough for them."""
        homes = self._homes
        inside = [n for n in self.nodes if homes[n.name] == scope]
        chosen = {n.name for n in inside}
        before: list[NodeProto] = []
        after: list[NodeProto] = []
        tainted = {name for n in inside for name in n.output}
        started = False
        for node in self.nodes:
            if node.name in chosen:
                started = True
                if _reads_back(node, after):
                    break
            elif started and not tainted.isdisjoint(_names(node)):
                tainted.update(node.output)
                after.append(node)
            else:
                before.append(node)
        else:
            if inside:
                call = self._call(scope, inside)
                homes[call.name] = outer
                self.nodes = [*before, call, *after]
                return
        for node in inside:
            homes[node.name] = outer

    def _call(self, scope: str, inside: Sequence[NodeProto]) -> NodeProto:
        from onnx import helper

        own = {name for node in inside for name in node.output if name}
        read = dict.fromkeys(n for node in inside for n in names_read(node) if n and n not in own)
        outside = set(self._outputs)
        chosen = {node.name for node in inside}
        for node in self.nodes:
            if node.name not in chosen:
                outside.update(names_read(node))
        inner = _made_in(inside)
        inputs = [n for n in read if n not in self._constants and n not in inner]
        outputs = [n for node in inside for n in node.output if n in outside]
        held = [n for n in read if n in self._constants]
        stored = [_constant(name, self._constants[name]) for name in held]
        function = self._function(scope, [*stored, *inside], inputs, outputs)
        return helper.make_node(function.name, inputs, outputs, name=scope, domain=function.domain)

    def _function(
        self, scope: str, nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str]
    ) -> FunctionProto:
        """Return the function of some nodes: one that is there already, if it is the same."""
        domain, name = (self._called or {}).get(scope, (DOMAIN, _title(scope)))
        key = _body(nodes, inputs, outputs, lambda _, number: f"t{number}")
        content = f"{domain} {name} ".encode() + key.SerializeToString(deterministic=True)
        held = self._known.get(content)
        if held is None:
            number = self._taken[domain, name]
            self._taken[domain, name] += 1
            held = _body(nodes, inputs, outputs, lambda name, _: _within(scope, name))
            held.domain, held.name = domain, f"{name}_{number}" if number else name
            self._known[content] = held
        return held


def _body(
    nodes: Sequence[NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    call: Callable[[str, int], str],
) -> FunctionProto:
    """Return nodes as a function that has no name yet; ``call(name, number)`` names tensors."""
    from onnx import FunctionProto

    made, names, taken = FunctionProto(), {"": ""}, {""}

    def own(name: str) -> str:
        if name not in names:
            wanted = call(name, len(names))
            free = (f"{wanted}_{i}" for i in itertools.count(1))
            names[name] = wanted if wanted not in taken else next(n for n in free if n not in taken)
            taken.add(names[name])
        return names[name]

    made.input.extend(map(own, inputs))
    for node in nodes:
        made.node.add().CopyFrom(node)
        made.node[-1].name = call(node.name, 0)
    _rename(made.node, own)
    made.output.extend(map(own, outputs))
    return made


def _nearest(scope: str, scopes: set[str]) -> str:
    """Return a scope, or the first around it, that is one of some."""
    while scope and scope not in scopes:
        scope = scope.rpartition("/")[0]
    return scope


def _reads_back(node: NodeProto, after: Sequence[NodeProto]) -> bool:
    """Tell whether a node reads what nodes outside have made of its group."""
    names = _names(node)
    return any(not names.isdisjoint(other.output) for other in after)


def _names(node: NodeProto) -> set[str]:
    return set(names_read(node))


def _made_in(nodes: Iterable[NodeProto]) -> set[str]:
    """Return the names that sub-graphs make themselves."""
    found, stack = set[str](), [g for node in nodes for g in graphs_of(node)]
    while stack:
        graph = stack.pop()
        found.update(info.name for info in graph.input)
        for node in graph.node:
            found.update(node.output)
            stack.extend(graphs_of(node))
    return found


def _constant(name: str, array: Array) -> NodeProto:
    from onnx import helper

    return helper.make_node("Constant", [], [name], value=to_tensor(array, "value"))


def _rename(nodes: Iterable[Any], own: Callable[[str], str]) -> None:
    """Give names to all tensors in the order in which they occur, those of sub-graphs, too."""
    for node in nodes:
        for field in (node.input, node.output):
            field[:] = list(map(own, field))
        for graph in graphs_of(node):
            graph.name = "body"
            for info in (*graph.input, *graph.output):
                info.name = own(info.name)
            for inner in graph.node:
                inner.name = ""
            _rename(graph.node, own)


def _within(scope: str, name: str) -> str:
    """Return what a tensor is called in a scope; one from outside by the end of its name."""
    inner = name.removeprefix(f"{scope}/")
    return inner if inner != name else name.rpartition("/")[2]


def _title(scope: str) -> str:
    """Return the name of the function that a scope is: its own, without numbers, as a word."""
    parts = [re.sub(r"\W", "_", p) for p in scope.split("/")]
    words = [w for p in parts if (w := re.sub(r"[_.]?\d+$", "", p))]
    return words[-1] if words else "scope"
