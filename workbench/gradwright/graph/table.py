"""What a graph holds and how it is named: lists of nodes, lookups, free names, trainable marks."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import GraphError
from ..op import Op
from ..spec import is_floating
from .build import check_name
from .tensor import Constant, Node, Placeholder, Rng, Tensor, Variable

RNG = "rng"
"""The name of the random key; sessions feed it by this name."""


class NodeTable:
    """Nodes by name; the part of a graph that needs to know nothing of how nodes are made."""

    name: str

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self.idle: dict[str, Any] = {}
        """Sessions of its own that nobody uses now, by what they are for; rooms above take them."""
        self.marked = 0
        """How often a node has got another name, or was frozen or freed: no edits, but some ask."""
        self._stale: dict[str, Node] = {}
        """Nodes of a cell that runs again and has not built them anew."""
        self._scopes: list[str] = []
        self._counters: dict[str, int] = {}
        self._deriving = ""
        self.known_as: dict[str, Tensor] = {}
        """What a file that the graph was read from calls tensors; names of the graph go before."""
        self.classes: dict[str, str] = {}
        """Of which class the module is that a scope stands for, where a file or a model tells."""

    def settle(self) -> None:
        """Remove what a re-run cell did not build again, once that cell has ended."""

    @property
    def nodes(self) -> list[Node]:
        """Nodes the user built, in order of creation."""
        self.settle()
        return [n for n in self.all_nodes if not n.derived]

    @property
    def derived(self) -> list[Node]:
        """Nodes of gradients and updates; drawable, never saved, and of no notebook cell."""
        return [n for n in self.all_nodes if n.derived]

    @property
    def all_nodes(self) -> list[Node]:
        """Nodes of both layers; a copy, for another thread may add some: a step that is built."""
        return list(self._nodes.values())

    @property
    def placeholders(self) -> list[Tensor]:
        """Tensors to be fed, without the random key."""
        return [n.outputs[0] for n in self.nodes if isinstance(n.op, Placeholder)]

    @property
    def variables(self) -> list[Tensor]:
        """Stored tensors that updates may change; not those of the derived layer."""
        return [n.outputs[0] for n in self.nodes if isinstance(n.op, Variable)]

    @property
    def constants(self) -> list[Tensor]:
        """Stored tensors that never change; not those of the derived layer."""
        return [n.outputs[0] for n in self.nodes if isinstance(n.op, Constant)]

    @property
    def trainable(self) -> list[Tensor]:
        """Variables that trainers update."""
        return [t for t in self.variables if t.trainable]

    @property
    def scopes(self) -> list[str]:
        """Names of all scopes of the user's nodes, outer before inner."""
        found: dict[str, None] = {}
        for node in self.nodes:
            parts = node.name.split("/")
            for i in range(1, len(parts)):
                found["/".join(parts[:i])] = None
        return list(found)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str) -> Tensor | None:
        """Return the tensor called ``name`` (``split:1`` is a second output), or None.

        Of a graph read from a file, also by the name that the file has for it.
        """
        tensor = self._named(name)
        return self._as_elsewhere(name) if tensor is None else tensor

    def _named(self, name: str) -> Tensor | None:
        node, index = self._nodes.get(name), 0
        if node is None:
            head, _, tail = name.rpartition(":")
            short = tail.isdecimal() and len(tail) < 10  # int() refuses thousands of digits
            node, index = self._nodes.get(head), int(tail) if short else -1
        if node is None or not 0 <= index < len(node.outputs):
            return None
        return node.outputs[index]

    def _as_elsewhere(self, name: str) -> Tensor | None:
        tensor = self.known_as.get(name)
        here = tensor is not None and self._nodes.get(tensor.node.name) is tensor.node
        return tensor if here else None

    def __getitem__(self, name: str) -> Tensor:
        tensor = self.get(name)
        if tensor is None:
            raise GraphError(
                f"graph {self.name!r} has no tensor {name!r}", hint=self._similar(name)
            )
        return tensor

    def node(self, name: str) -> Node:
        """Return the node called ``name``."""
        return self[name].node

    def find(self, pattern: str) -> list[Tensor]:
        """Return the first outputs of all nodes whose name fits a pattern such as ``"*/w"``."""
        return [n.outputs[0] for n in self.nodes if fnmatch.fnmatchcase(n.name, pattern)]

    def _similar(self, name: str) -> str:
        import difflib

        close = difflib.get_close_matches(name, list(self._nodes), 3, 0.5)
        return " or ".join(map(repr, close)) if close else "g.summary() lists all names"

    def check_member(self, tensor: Tensor) -> Tensor:
        """Return the tensor if it is part of this graph as it is now."""
        if not isinstance(tensor, Tensor):
            hint = f"g[{tensor!r}]" if isinstance(tensor, str) else ""
            need = f"a tensor of graph {self.name!r}"
            raise GraphError(f"{tensor!r} is no tensor", need=need, hint=hint)
        if tensor.graph is not self:
            inside = tensor.graph.closed
            raise GraphError(
                f"{tensor!r} is of another graph",
                facts=[f"this is graph {self.name!r}"],
                hint=f"return it from the {inside}" if inside else "",
            )
        if self._nodes.get(tensor.node.name) is not tensor.node:
            raise GraphError(
                f"{tensor!r} is no longer in the graph: an edit replaced or dropped it",
                hint="g[name], gw.gradients(...) again, or run the cell again that built it",
            )
        return tensor

    # -- new names -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _at_top(self) -> Iterator[None]:
        held, self._scopes = self._scopes, []
        try:
            yield
        finally:
            self._scopes = held

    def _full_name(self, name: str) -> str:
        parts = [self._deriving, *self._scopes, name] if self._deriving else [*self._scopes, name]
        return "/".join(parts) if len(parts) > 1 else name

    def _free_name(self, base: str) -> str:
        """Return ``base``, ``base_1``, ``base_2`` ...: the first that is free."""
        full = self._full_name(base)
        n = self._counters.get(full, 0)
        candidate = full if n == 0 else f"{full}_{n}"
        while candidate in self._nodes and candidate not in self._stale:
            n += 1
            candidate = f"{full}_{n}"
        self._counters[full] = n + 1
        return candidate

    def _free_scope(self, base: str) -> str:
        """Return ``base``, ``base_1`` ...: the first that no node is in."""
        names = [k for k in list(self._nodes) if k not in self._stale]
        candidates = itertools.chain([base], (f"{base}_{n}" for n in itertools.count(1)))
        return next(c for c in candidates if not any(k.startswith(c + "/") for k in names))

    def _check_free(self, op: Op, full: str) -> None:
        check_name(full)
        if full in self._nodes and full not in self._stale:
            raise GraphError(
                f"the name {full!r} is taken",
                facts=[f"by {self._nodes[full]!r} {self._nodes[full].where}"],
                hint="another name, or with g.scope(...)",
            )
        if (full == RNG) != isinstance(op, Rng):
            raise GraphError(f"{RNG!r} is the name of the random key alone", hint="another name")

    # -- which variables are trained -------------------------------------------------------------

    def set_trainable(self, tensor: Tensor, value: bool) -> None:
        """Say whether trainers update a variable; one that was a parameter is frozen without."""
        self._check_trainable(tensor, value)
        node = tensor.node
        node.frozen = not value and (node.trainable or node.frozen)
        node.trainable = value
        self.marked += 1

    @staticmethod
    def _check_trainable(tensor: Tensor, value: bool) -> None:
        if tensor.kind != "variable":
            raise GraphError(f"{tensor!r} is a {tensor.kind}, so it cannot be trained")
        if value and not is_floating(tensor.dtype):
            raise GraphError(f"{tensor!r} is not floating, so it cannot be trained")

    def freeze(self, *patterns: str | Tensor) -> list[str]:
        """Stop training the parameters that fit (default all); returns their names.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.nn.batch_norm(g.placeholder("x", (None, 3)), name="bn")
        >>> g.freeze("bn/*")
        ['bn/weight', 'bn/bias']
        >>> g.unfreeze()
        ['bn/weight', 'bn/bias']
        """
        return self._mark(patterns, False)

    def unfreeze(self, *patterns: str | Tensor) -> list[str]:
        """Train the parameters that fit (default all) as before ``freeze``; returns their names.

        What was made with ``trainable=False`` is no parameter, such as a running mean; setting
        ``trainable`` of the tensor makes it one.
        """
        return self._mark(patterns, True)

    def _mark(self, patterns: Sequence[str | Tensor], value: bool) -> list[str]:
        variables = [t for t in self.variables if is_floating(t.dtype)]
        chosen: dict[str, Tensor] = {}
        for pattern in patterns or ("*",):
            if isinstance(pattern, Tensor):
                self._check_trainable(pattern, value)
                chosen[pattern.name] = pattern
                continue
            fitting = [t for t in variables if fnmatch.fnmatchcase(t.name, pattern)]
            if not fitting:
                raise GraphError(
                    f"no floating variable fits {pattern!r}", hint=self._similar(pattern)
                )
            chosen.update((t.name, t) for t in fitting)
        marked = {name: t for name, t in chosen.items() if t.node.trainable or t.node.frozen}
        for t in marked.values():
            self.set_trainable(t, value)
        return list(marked)


def member(graph: NodeTable, key: Tensor | str) -> Tensor:
    """Return the tensor of a graph that is meant, by its name or itself; raises GraphError."""
    return graph[key] if isinstance(key, str) else graph.check_member(key)


def members(graph: NodeTable, keys: Iterable[Tensor | str], argument: str) -> list[Tensor]:
    """Return the tensors that a list means, each once; raises GraphError, naming the argument.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> loss = g.placeholder("loss", ())
    >>> members(g, ["loss", loss], "outputs") == [loss]
    True
    """
    if isinstance(keys, str | Tensor | NodeTable | Mapping) or not isinstance(keys, Iterable):
        raise GraphError(
            f"{argument}={' '.join(repr(keys).split())[:60]} makes no sense",
            need="a list of tensors or names",
            hint=f"{argument}=[...]" if isinstance(keys, str | Tensor) else "",
        )
    return list(dict.fromkeys(member(graph, key) for key in keys))
