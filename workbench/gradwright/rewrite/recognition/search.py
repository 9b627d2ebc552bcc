"""Finding patterns in a graph, putting ops in their place, and telling which."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...errors import GradwrightError, GraphError
from ...graph import Constant, Edit, Graph, Node, Source, Tensor, ancestors, members
from ...op import Op
from ...spec import Dim, shapes_differ
from ...words.spelling import meant
from ...words.tables import Table, Tabular
from .table import PATTERNS, Found, Pattern
from .view import View

MOST = 40
"""How many rows a table shows."""


@dataclass(frozen=True)
class Match:
    """One place that had a form written out."""

    kind: str
    where: str
    """The scope that held nothing else, or the last node."""
    node: str
    """The node that it is now."""
    op: str
    """The op of it, with attributes."""
    replaced: tuple[str, ...]
    """Names of the nodes that it was."""


@dataclass(frozen=True)
class Missed:
    """One place that is nearly a form, and why it stays."""

    kind: str
    where: str
    """The last node of it."""
    why: str


class Recognition(Tabular, Sequence[Match]):
    """What :func:`recognize` found: a sequence of matches, shown as a table.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 4))
    >>> y = gw.mul(x, gw.nn.sigmoid(x), name="y")
    >>> found = gw.recognize(g)
    >>> found.counts, found[0].replaced
    ({'silu': 1}, ('sigmoid', 'y'))
    """

    def __init__(
        self, matches: Iterable[Match], missed: Iterable[Missed], nodes: tuple[int, int]
    ) -> None:
        self.matches, self.missed = tuple(matches), tuple(missed)
        self.nodes = nodes
        """How many nodes the graph had, without sources, and how many it has."""

    def __len__(self) -> int:
        return len(self.matches)

    def __getitem__(self, item: int | slice) -> Match | tuple[Match, ...]:  # type: ignore[override]
        return self.matches[item]

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return dict(collections.Counter(m.kind for m in self.matches))

    def table(self) -> Table:
        """Return the matches with what each has become, and what was only nearly one."""
        rows = [
            [m.kind, m.where, m.op.removesuffix("()"), str(len(m.replaced))]
            for m in self.matches[:MOST]
        ]
        notes = [f"… and {len(self) - MOST} more"] if len(self) > MOST else []
        notes += [f"not {m.kind}: {m.where}: {m.why}" for m in self.missed[:MOST]]
        counts = ", ".join(f"{n} {kind}" for kind, n in self.counts.items()) or "nothing"
        title = f"{counts} found; {self.nodes[0]} ops are now {self.nodes[1]}"
        return Table(["kind", "where", "is now", "ops before"], rows, title=title, notes=notes)

    __repr__ = Tabular.__str__


def kinds() -> tuple[str, ...]:
    """Return what can be found.

    >>> from gradwright.rewrite.recognition import kinds
    >>> print(*kinds())
    gelu silu quick_gelu mish hard_swish layer_norm rms_norm softmax normalize rope attention
    """
    return tuple(dict.fromkeys(p.kind for p in PATTERNS))


def recognize(
    graph: Graph,
    only: Collection[str] | None = None,
    *,
    skip: Collection[str] = (),
    outputs: Sequence[Tensor | str] | None = None,
) -> Recognition:
    """Put one op in the place of what the graph has written out, as exporters do, and tell which.

    Found are attention (with masks, caps, and keys shared by heads), rotary embeddings, RMS and
    layer norms, softmax, and activations such as gelu. ``only`` and ``skip`` choose kinds; ``skip``
    also takes names of nodes, whose forms stay as they are.

    What is put in place is the same function, of values and of gradients: constants, axes, masks,
    and what a query gets that sees no key are compared. Numbers differ by rounding; in halves,
    which the ops compute in float32, by theirs. A form stays where a tensor inside of it is read
    elsewhere. The result keeps its name, and the tensors inside of it are gone. Bodies of loops and
    branches are left as they are.

    ``outputs`` are what is wanted of the graph, by default all that nothing reads. If they are
    given, what they do not need goes first, such as sizes that an exporter computed.

    The edit is atomic: after an error the graph is as it was. Raises GraphError for a kind that
    there is not.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 8))
    >>> r = x / gw.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    >>> y = gw.mul(r, g.variable("w", (8,), init=1.0), name="y")
    >>> print(gw.recognize(g))
    1 rms_norm found; 6 ops are now 1
    kind      where  is now               ops before
    rms_norm  y      rms_norm(eps=1e-06)  6
    """
    if not isinstance(graph, Graph):
        raise GraphError(f"{graph!r} is no graph", need="a gw.Graph")
    graph.settle()
    wanted = members(graph, () if outputs is None else outputs, "outputs")
    chosen = _wanted(graph, only, skip)
    before = _size(graph)
    with graph.edit() as edit:
        work = _Work(graph, edit, wanted, skip)
        for pattern in chosen:
            work.search(pattern)
        work.arrange()
    return Recognition(work.matches(), work.missed(), (before, _size(graph)))


def _wanted(graph: Graph, only: Collection[str] | None, skip: Collection[str]) -> list[Pattern]:
    known = kinds()
    only = known if only is None else only
    for names in (only, skip):
        if isinstance(names, str | bytes | Graph) or not isinstance(names, Collection):
            hint = f"[{names!r}]" if isinstance(names, str) else ""
            raise GraphError(f"{names!r} is no list", need="a list of kinds", hint=hint)
    for name in (*only, *(n for n in skip if n not in graph)):
        if name not in known:
            close = meant(name, known) if isinstance(name, str) else ""
            hint = f"did you mean {close!r}?" if close else ""
            raise GraphError(
                f"nothing called {name!r} is looked for", need=", ".join(known), hint=hint
            )
    allowed = {k for k in known if k in only and k not in skip}
    return [p for p in PATTERNS if p.kind in allowed]


def _size(graph: Graph) -> int:
    return sum(n.kind == "array" for n in graph.nodes)


class _Work:
    """One recognition under way: the graph, its edit, and what was found so far."""

    def __init__(
        self, graph: Graph, edit: Edit, outputs: Sequence[Tensor], skip: Collection[str]
    ) -> None:
        self.graph, self.edit, self.skip = graph, edit, skip
        self.at = View(graph, outputs)
        self.found: dict[str, tuple[str, list[str]]] = {}
        """By name of a node that was put in place: its kind, and the nodes that it was."""
        self.near: dict[tuple[str, str], tuple[Node, Missed]] = {}
        """By kind and place: the core around which something is nearly a form, and what it is."""
        self.helpers: dict[str, list[Node]] = {}
        """By name of a node that was put in place: nodes made for it, such as tables."""
        self.order = {name: i for i, name in enumerate(graph._nodes)}
        if outputs:
            needed = {*ancestors([*outputs, *self.at.kept])}
            self._sweep([n for n in graph.nodes if n not in needed])

    def search(self, pattern: Pattern) -> None:
        """Put ops in the place of one pattern, wherever it stands."""
        for node in [n for n in self.graph.nodes if n.op.name == pattern.core]:
            if self.graph._nodes.get(node.name) is node:
                self._look(pattern, node)

    def _look(self, pattern: Pattern, node: Node) -> None:
        found = list(pattern.find(self.at, node))
        why = [(f.root, f.wrong) for f in found if f.wrong]
        for f in sorted((f for f in found if not f.wrong), key=lambda f: -len(f.taken)):
            refused = self._kept(f) or self._put(pattern, f)
            if not refused:
                return
            why.append((f.root, refused))
        for root, reason in why[-1:]:
            missed = Missed(pattern.kind, root.name, reason)
            self.near.setdefault((pattern.kind, root.name), (node, missed))

    def _kept(self, found: Found) -> str:
        """Say why a form stays: it is to, or something in it is needed elsewhere."""
        if found.root.name in self.skip:
            return "it is left out"
        held = self.at.outside(found.taken, found.root.node)
        return f"{held[0].name!r}, inside of it, {held[1]}" if held else ""

    def _put(self, pattern: Pattern, found: Found) -> str:
        """Put what a form becomes in its place; returns why that cannot be, if so."""
        graph, root, old = self.graph, found.root, found.root.node
        latest = len(graph._nodes)
        try:
            with graph._at_top(), graph.scope(old.scope) if old.scope else graph:
                new = found.make()
            refused = _other(root, new)
        except GradwrightError as error:
            refused = str(error).partition("\n")[0]
        made = list(itertools.islice(graph._nodes.values(), latest, None))
        if refused:
            self._sweep(made)
            return refused
        self.edit.replace_use(root, new)
        self.at.moved(root, new)
        self._sweep(list(found.taken))
        graph.rename(new, old.name)
        for node in made:
            node.site, node.cell, node.named = old.site, old.cell, node.named and old.named
        self.helpers.setdefault(old.name, []).extend(n for n in made if n is not new.node)
        names = [node.name for node in found.taken]
        for name in list(names):
            names += self.found.pop(name, ("", []))[1]
        self.found[old.name] = pattern.kind, names
        return ""

    def _sweep(self, nodes: list[Node]) -> None:
        """Drop those of some nodes that nothing reads, and what only they read."""
        while nodes:
            node = nodes.pop()
            if self.graph._nodes.get(node.name) is not node:
                continue
            is_read = any(t.uses or t in self.at.kept for t in node.outputs)
            if is_read or (isinstance(node.op, Source) and not isinstance(node.op, Constant)):
                continue
            self.edit.remove(node.outputs[0])
            nodes += [t.node for t in node.inputs if t is not None]

    # -- what is told ------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Put nodes that were made where those stood that they replace."""
        graph = self.graph
        ordered: dict[str, Node] = {}
        for name in sorted(graph._nodes, key=lambda n: self.order.get(n, len(self.order))):
            for node in self.helpers.get(name, ()):
                if graph._nodes.get(node.name) is node:
                    ordered[node.name] = node
            ordered.setdefault(name, graph._nodes[name])
        graph._nodes = ordered

    def matches(self) -> Iterator[Match]:
        """Yield what was found, in the order of the graph."""
        inside = collections.Counter(
            scope for n in self.graph.nodes if n.kind == "array" for scope in _scopes(n.name)
        )
        for name in sorted(self.found, key=lambda n: self.order[n]):
            kind, was = self.found[name]
            names = sorted({*was, name} & self.order.keys(), key=lambda n: self.order[n])
            own = [s for s in _scopes(name) if inside[s] == 1 + len(self.helpers.get(name, ()))]
            shared = [s for s in own if all(n.startswith(s + "/") for n in names)]
            where = shared[-1] if shared and len(names) > 1 else name
            yield Match(kind, where, name, _text(self.graph.node(name).op), tuple(names))

    def missed(self) -> Iterator[Missed]:
        """Yield what is nearly a form, and was not taken for another."""
        for core, missed in self.near.values():
            if self.graph._nodes.get(core.name) is core and missed.where in self.graph:
                yield missed


def _other(old: Tensor, new: Tensor) -> str:
    """Say in what a result differs from what it is to replace; sizes left open may be known now."""
    same = old.dtype == new.dtype and not shapes_differ(old.shape, new.shape)
    sizes = zip(old.shape, new.shape, strict=False)
    if same and all(a == b or (isinstance(a, Dim) and a.is_open) for a, b in sizes):
        return ""
    return f"it would be {new.spec}, not {old.spec}"


def _text(op: Op) -> str:
    """Return an op with those of its attributes that are not the usual ones."""
    own = {k: v for k, v in op.attributes().items() if v != op.attrs[k].default}
    return f"{op.name}({', '.join(f'{k}={v!r}' for k, v in own.items())})"


def _scopes(name: str) -> Iterator[str]:
    """Yield the scopes that a node is in, the outermost first."""
    parts = name.split("/")
    return ("/".join(parts[:i]) for i in range(1, len(parts)))
