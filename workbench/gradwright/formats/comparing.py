"""``gw.compare_files``: what two files of models differ in, node by node and tensor by tensor."""

from __future__ import annotations

import math
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Graph, Node
from ..spec import TensorSpec, dtype_name
from ..words.tables import Table
from .registry import Format, TensorRange, find
from .report import table
from .source import Source, as_path, at, naming
from .stored import Files, Stored

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NodePair:
    """A node of both graphs, and what differs: ``name``, ``op``, ``spec`` or ``inputs``."""

    a: str
    b: str
    differs: tuple[str, ...]


@dataclass(frozen=True)
class GraphComparison:
    """Nodes of two graphs: how many are the same, which are not, and which only one has."""

    same: int
    changed: tuple[NodePair, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "same": self.same,
            "changed": [{"a": p.a, "b": p.b, "differs": list(p.differs)} for p in self.changed],
            "removed": list(self.removed),
            "added": list(self.added),
        }


@dataclass(frozen=True)
class TensorPair:
    """A tensor of two files; ``a`` or ``b`` is None where only the other has it.

    ``max`` is the largest |b - a|, infinite where a NaN or an infinity stands against a number, and
    ``relative`` is |b - a| / |a| in the 2-norm. Both are NaN where there is nothing to subtract.
    """

    name: str
    other: str
    a: TensorSpec | None
    b: TensorSpec | None
    max: float = math.nan
    relative: float = math.nan
    at: tuple[int, ...] = ()
    """Where the difference is largest."""
    every: int = 1
    """Of how many pieces one was read."""

    @property
    def status(self) -> str:
        """``"equal"``, ``"differs"``, ``"shape"``, ``"only a"`` or ``"only b"``."""
        if self.a is None or self.b is None:
            return "only b" if self.a is None else "only a"
        if self.a.shape != self.b.shape:
            return "shape"
        return "equal" if self.max == 0 and self.a.dtype == self.b.dtype else "differs"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it; numbers may be NaN."""

        def spec(s: TensorSpec | None) -> dict[str, Any] | None:
            if s is None:
                return None
            return {"dtype": dtype_name(s.dtype), "shape": list(s.shape), "spec": str(s)}

        return {
            "name": self.name,
            "other": self.other,
            "status": self.status,
            "a": spec(self.a),
            "b": spec(self.b),
            "max": self.max,
            "relative": self.relative,
            "at": list(self.at),
            "every": self.every,
        }


@dataclass(frozen=True, repr=False)
class FileComparison:
    """What two files differ in; ``print`` and a notebook show it.

    ``graphs`` is None where one of them holds no graph.
    """

    a: str
    b: str
    graphs: GraphComparison | None
    tensors: tuple[TensorPair, ...]

    @property
    def equal(self) -> bool:
        """Whether graphs and tensors are the same, names included."""
        g = self.graphs
        return all(t.status == "equal" and t.name == t.other for t in self.tensors) and not (
            g and (g.changed or g.added or g.removed)
        )

    def tables(self) -> list[Table]:
        """Return what is told in rows: tensors by how much they differ, then nodes."""
        rows = [
            [
                t.name or t.other,
                str(t.a or "-"),
                str(t.b or "-"),
                t.status,
                *map(_text, (t.max, t.relative)),
            ]
            for t in sorted(self.tensors, key=lambda t: (t.status == "equal", -_size(t.relative)))
            if t.status != "equal"
        ]
        columns = ["tensor", "a", "b", "what", "max |b - a|", "relative"]
        found = [table("tensors", columns, rows)]
        if self.graphs is not None:
            nodes = [[p.a, p.b, ", ".join(p.differs)] for p in self.graphs.changed]
            nodes += [[name, "-", "removed"] for name in self.graphs.removed]
            nodes += [["-", name, "added"] for name in self.graphs.added]
            found.append(table("nodes", ["a", "b", "differs in"], nodes))
        return found

    def title(self) -> str:
        """Return how much is the same, in a line."""
        same = sum(t.status == "equal" for t in self.tensors)
        said = f"{same:,} of {len(self.tensors):,} tensors are equal"
        if self.graphs is None:
            return said
        g = self.graphs
        total = g.same + len(g.changed) + len(g.removed) + len(g.added)
        return f"{said}, {g.same:,} of {total:,} nodes are the same"

    def __str__(self) -> str:
        tables = [f"  {line}" for t in self.tables() if t.rows for line in str(t).splitlines()]
        return "\n".join([f"{self.a} and {self.b}: {self.title()}", *tables])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = Table(["a", self.a], [["b", self.b], ["", self.title()]])
        return "".join(t._repr_html_() for t in (facts, *self.tables()) if t.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it; numbers may be NaN."""
        return {
            "a": self.a,
            "b": self.b,
            "graphs": None if self.graphs is None else self.graphs.as_dict(),
            "tensors": [t.as_dict() for t in self.tensors],
        }


def compare_files(
    a: str | os.PathLike[str], b: str | os.PathLike[str], *, values: bool = True
) -> FileComparison:
    """Return what two files of models differ in, of whatever formats they are.

    Nodes are matched by name, the others by what they are computed of, so that a renamed layer is
    found again. Tensors are matched by name, the others where dtype and shape say which; their
    numbers are read piece by piece, so files may be larger than the memory. ``values=False``
    compares shapes alone.

    Raises:
        ArchiveError: a file is damaged or of no format that is known.
        OSError: a file cannot be read.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1), init=1.0)
    >>> a, b = (pathlib.Path(tempfile.mkdtemp(), "line.gw") for _ in "ab")
    >>> g.save(a)
    >>> g.values["w"] = [[1.0], [1.5]]
    >>> g.save(b)
    >>> found = gw.compare_files(a, b)
    >>> found.equal, found.tensors[0].max, found.tensors[0].at
    (False, 0.5, (1, 0))
    """
    paths = [as_path(path) for path in (a, b)]
    sources = [at(path) for path in paths]
    formats = [find(source) for source in sources]
    graphs = [_graph(f, s) for f, s in zip(formats, sources, strict=True)]
    held = [f.tensors(s) for f, s in zip(formats, sources, strict=True)]
    pairs = list(paired(*held))
    if values:
        with Files(paths[0]) as first, Files(paths[1]) as second:
            pairs = [
                measured(p, held[0], held[1], first, second) if p.a and p.b else p for p in pairs
            ]
    graphs_differ = None
    if graphs[0] is not None and graphs[1] is not None:
        graphs_differ = compare_graphs(graphs[0], graphs[1])
    return FileComparison(str(paths[0]), str(paths[1]), graphs_differ, tuple(pairs))


def _graph(format: Format, source: Source) -> Graph | None:
    if format.outline is None:
        return None
    with naming(source.name):
        return format.outline(source).graph


# -- tensors ---------------------------------------------------------------------------------------


def paired(a: Mapping[str, TensorRange], b: Mapping[str, TensorRange]) -> Iterator[TensorPair]:
    """Yield the tensors of two files, matched, in the order of the first; numbers are not read."""
    left = {name: t.spec for name, t in a.items()}
    right = {name: t.spec for name, t in b.items()}
    theirs: dict[str, list[str]] = defaultdict(list)
    for name in right.keys() - left.keys():
        theirs[str(right[name])].append(name)
    ours: dict[str, int] = defaultdict(int)
    for name in left.keys() - right.keys():
        ours[str(left[name])] += 1
    taken: set[str] = set()
    for name, spec in left.items():
        other = name if name in right else ""
        if not other and ours[str(spec)] == len(theirs[str(spec)]) == 1:
            (other,) = theirs[str(spec)]
        taken.add(other)
        yield TensorPair(name, other, spec, right.get(other))
    for name, spec in right.items():
        if name not in taken:
            yield TensorPair("", name, None, spec)


def measured(
    pair: TensorPair,
    a: Mapping[str, TensorRange],
    b: Mapping[str, TensorRange],
    first: Files,
    second: Files,
    every: int = 1,
) -> TensorPair:
    """Return a pair of the same shape with how much the numbers differ; of others as it is.

    With ``every`` of so many pieces one is read.
    """
    if pair.a is None or pair.b is None or pair.a.shape != pair.b.shape:
        return pair
    one, two = Stored(a[pair.name], first), Stored(b[pair.other], second)
    if one.dtype.kind == "T" or two.dtype.kind == "T":
        return _compared_texts(pair, one, two)
    most, where, sums = 0.0, 0, np.zeros(2)
    piece = max(one.piece, two.piece)
    for start in range(0, one.size, piece * every):
        stop = min(one.size, start + piece)
        x, y = one.flat(start, stop), two.flat(start, stop)
        is_same = x.dtype == y.dtype and x.tobytes() == y.tobytes()
        difference = np.zeros(0) if is_same else _difference(x, y)
        if difference.size and (largest := float(difference.max())) > most:
            most, where = largest, start + int(difference.argmax())
        with np.errstate(over="ignore", invalid="ignore"):
            sums += float(np.square(difference).sum()), float(np.square(_finite(x)).sum())
    away, norm = np.sqrt(sums)
    relative = 0.0 if most == 0 else float(away / norm) if norm else math.inf
    spot = np.unravel_index(where, one.shape) if most else ()
    return TensorPair(
        pair.name, pair.other, pair.a, pair.b, most, relative, tuple(map(int, spot)), every
    )


def _difference(x: Array, y: Array) -> Array:
    """Return |y - x|: NaN and NaN are alike, NaN and a number infinitely far."""
    wide = np.complex128 if "c" in x.dtype.kind + y.dtype.kind else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(y - x)
    alike = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(alike, 0.0, np.where(np.isnan(difference), np.inf, difference))


def _finite(x: Array) -> Array:
    """Return |x| of the numbers that are finite."""
    own = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    return own[np.isfinite(own)]


def _compared_texts(pair: TensorPair, one: Stored, two: Stored) -> TensorPair:
    if one.dtype.kind != two.dtype.kind:
        return pair
    x, y = (stored.flat(0, stored.size).tolist() for stored in (one, two))
    wrong = [i for i, (s, t) in enumerate(zip(x, y, strict=True)) if s != t]
    spot = tuple(map(int, np.unravel_index(wrong[0], one.shape))) if wrong else ()
    return TensorPair(pair.name, pair.other, pair.a, pair.b, float(bool(wrong)), math.nan, spot)


# -- graphs ----------------------------------------------------------------------------------------


def compare_graphs(a: Graph, b: Graph) -> GraphComparison:
    """Return which nodes of two graphs are the same; values are not looked at.

    >>> import gradwright as gw
    >>> from gradwright.formats.comparing import compare_graphs
    >>> graphs = [gw.Graph("a"), gw.Graph("b")]
    >>> for g, op in zip(graphs, (gw.exp, gw.tanh)):
    ...     y = gw.sum(op(g.placeholder("x", (3,)), name="y"), name="s")
    >>> compare_graphs(*graphs).changed
    (NodePair(a='y', b='y', differs=('op',)),)
    """
    ours, theirs = ({n.name: n for n in g.nodes} for g in (a, b))
    matched = {name: name for name in ours if name in theirs}
    waiting: dict[int, deque[str]] = defaultdict(deque)
    for name, key in _structure(theirs.values()).items():
        if name not in ours:
            waiting[key].append(name)
    for name, key in _structure(ours.values()).items():
        if name not in theirs and waiting[key]:
            matched[name] = waiting[key].popleft()
    changed, same = [], 0
    for name, other in matched.items():
        differs = _differs(ours[name], theirs[other], matched)
        same += not differs
        if differs:
            changed.append(NodePair(name, other, differs))
    found = set(matched.values())
    return GraphComparison(
        same,
        tuple(changed),
        tuple(name for name in ours if name not in matched),
        tuple(name for name in theirs if name not in found),
    )


def _structure(nodes: Iterable[Node]) -> dict[str, int]:
    """Return a number for each node that says what it is and what it is computed of."""
    keys: dict[Node, int] = {}
    found: dict[str, int] = {}
    for node in nodes:
        inputs = tuple(
            (keys.get(t.node, 0), t.index) if t is not None else None for t in node.inputs
        )
        keys[node] = hash((_call(node), _specs(node), inputs))
        found[node.name] = keys[node]
    return found


def _differs(a: Node, b: Node, matched: Mapping[str, str]) -> tuple[str, ...]:
    ours = [None if t is None else (matched.get(t.node.name), t.index) for t in a.inputs]
    theirs = [None if t is None else (t.node.name, t.index) for t in b.inputs]
    seen = {
        "name": a.name != b.name,
        "op": _call(a) != _call(b),
        "spec": _specs(a) != _specs(b),
        "inputs": ours != theirs,
    }
    return tuple(what for what, is_other in seen.items() if is_other)


def _call(node: Node) -> str:
    return repr(node.op)


def _specs(node: Node) -> tuple[str, ...]:
    return tuple(str(t.spec) for t in node.outputs)


def _size(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _text(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
