"""Digits: how many of them each node of a compiled plan loses, beside the same graph in float64.

A node's error has two parts. What it computes from the inputs that it got, beside float64 on the
same inputs, is its *own*; the rest came with its inputs, and grows by the node's condition

    κ = ‖f(x + δ·|x|) − f(x)‖ / (δ·‖f(x)‖),

the largest of some directions δ·|x|: 1 for a product, Σ|xᵢ|/|Σxᵢ| for a sum, huge where numbers of
one size leave a small difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ..errors import GradientError, GraphError
from ..gradient import gradients
from ..graph import Graph, Node, Rng, Source, Tensor, Values, ancestors, member, members
from ..op import Op, run_forward
from ..session import Session
from ..spec import is_floating
from ..words.tables import Table, Tabular
from .arguments import WHOLE, Kind, check_run
from .check.probe import check_loss
from .float64 import Float64Run

Array = np.ndarray[Any, Any]
DELTA = 1e-7
"""Relative size of what a condition is measured with: far above float64's own rounding."""
DIRECTIONS = 3
_SESSION = Kind("a session", lambda value: isinstance(value, Session)).or_none


@dataclass(frozen=True)
class NodeDigits:
    """What one node loses; errors are ‖y − exact‖₂ / ‖exact‖₂.

    ``lost`` and ``own`` count decimal digits of the node's dtype: 0 where the result is as good as
    rounded, 7 where nothing of a float32 is left.
    """

    name: str
    op: str
    where: str
    dtype: str
    is_gradient: bool
    error: float
    """Beside float64 throughout."""
    own_error: float
    """Beside float64 on the inputs that it got."""
    condition: float
    """How many times larger relative errors come out than in."""

    @property
    def lost(self) -> float:
        """Digits lost in all."""
        return _digits(self.error, self.dtype)

    @property
    def own(self) -> float:
        """Digits that the node lost itself."""
        return _digits(self.own_error, self.dtype)

    def __repr__(self) -> str:
        return (
            f"<{self.op} {self.name!r}: {self.lost:.1f} digits lost, {self.own:.1f} of them here, "
            f"condition {self.condition:.1e}>"
        )


class PrecisionReport(Tabular, Sequence[NodeDigits]):
    """All nodes of a loss and its gradients, in the order in which they are computed.

    :func:`precision` returns one.
    """

    def __init__(self, nodes: Iterable[NodeDigits], loss: str, changed: Sequence[str]) -> None:
        self._nodes = list(nodes)
        self.loss = loss
        self.changed = tuple(changed)
        """Which of loss and gradients had other bits where nothing else was fetched: by fetching
        what lies between, kernels are cut elsewhere."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            found = next((n for n in self._nodes if n.name == index), None)
            if found is None:
                raise GraphError(f"no node {index!r} was looked at", hint="table() lists them")
            return found
        return self._nodes[index]

    def __len__(self) -> int:
        return len(self._nodes)

    def worst(self, n: int = 10) -> list[NodeDigits]:
        """Return the nodes that lose most by themselves, the worst first."""
        WHOLE.check(n=n)
        return sorted(self._nodes, key=lambda d: -d.own_error / _eps(d.dtype))[:n]

    def cancellations(self, n: int = 10) -> list[NodeDigits]:
        """Return the nodes that make errors grow most, the worst first."""
        WHOLE.check(n=n)
        return sorted(self._nodes, key=lambda d: -d.condition)[:n]

    def table(self, n: int = 20) -> Table:
        """Return those that lose most by themselves, beside what they inherit."""
        rows = [
            [
                d.name, d.op, d.dtype, f"{d.lost:.1f}", f"{d.own:.1f}", f"{d.condition:.1e}",
                "gradient" if d.is_gradient else "", d.where,
            ]
            for d in self.worst(n)
        ]  # fmt: skip
        columns = ["node", "op", "dtype", "digits lost", "of them here", "condition", "", "where"]
        notes = [f"and {len(self) - n} more"] if len(self) > n else []
        if self.changed:
            names = ", ".join(map(repr, self.changed[:3]))
            more = f" and {len(self.changed) - 3} more" if len(self.changed) > 3 else ""
            notes.append(f"last bits differ where nothing between is fetched: {names}{more}")
        return Table(columns, rows, title=repr(self)[1:-1], notes=notes)

    def __repr__(self) -> str:
        if not self._nodes:
            return f"<precision of {self.loss!r}: no nodes>"
        least, cancels = self.worst(1)[0], self.cancellations(1)[0]
        return (
            f"<precision of {self.loss!r}: {least.op} {least.name!r} loses {least.own:.1f} digits, "
            f"{cancels.op} {cancels.name!r} has condition {cancels.condition:.1e}>"
        )


def precision(
    graph: Graph,
    loss: Tensor | str,
    feeds: Mapping[Any, Any] | None = None,
    *,
    wrt: Sequence[Tensor | str] | None = None,
    training: bool = False,
    session: Session | None = None,
    step: int = 0,
    values: Values | None = None,
) -> PrecisionReport:
    """Return how many digits each node of a loss and its gradients loses in a compiled plan.

    The plan is one of a session, such as ``trainer.session``, with the same kernels; the same graph
    in float64 says what is right. Every value between is fetched, which may cut kernels elsewhere:
    loss and gradients are computed once more without, and ``changed`` names those whose bits
    differ. Numbers that were drawn are those of the plan.

    Args:
        graph: the graph that holds ``loss``.
        loss: a real scalar tensor, or its name.
        feeds: placeholder -> value, as for ``Session.run``.
        wrt: whose gradients belong to it; default all trainable variables.
        training: mode of dropout, batch norm and the like.
        session: what runs it; default one that waits for its kernels.
        step: of random ops.
        values: where variables are read without a ``session``; default ``graph.values``.

    Raises GradientError if ``loss`` is not a real scalar, FeedError for feeds that do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> centred = gw.mean(x * x, name="square") - gw.mean(x) * gw.mean(x)
    >>> w = g.variable("w", (), init=1.0)
    >>> found = gw.debug.precision(g, w * centred, {"x": [1000.0, 1001.0, 1002.0]})
    >>> found.cancellations(1)[0].op, found.cancellations(1)[0].condition > 1e6
    ('sub', True)
    """
    check_run("precision(graph, loss, feeds)", graph, training, values, step=step)
    _SESSION.check(GradientError, session=session)
    target = member(graph, loss)
    check_loss(target)
    params = graph.trainable if wrt is None else members(graph, wrt, "wrt")
    reached = {t for n in ancestors([target]) for t in n.outputs}
    params = [p for p in params if p in reached]
    outs = [target, *gradients(target, params)]
    held = session or Session(graph, values=values, deterministic=True)
    options: Any = {"training": training, "step": step}
    given = {} if feeds is None else feeds
    nodes = [n for n in ancestors(outs) if not isinstance(n.op, Source)]
    fetched = dict(zip(public(nodes), held.run(list(public(nodes)), given, **options), strict=True))
    alone = held.run(outs, given, **options)
    names = [target.name, *(p.name for p in params)]
    if session is None:
        held.close()
    changed = [
        name
        for name, t, a in zip(names, outs, alone, strict=True)
        if t in fetched and not np.array_equal(fetched[t], a, equal_nan=True)
    ]
    run = Float64Run(
        outs,
        {**given, **drawn(nodes, fetched)},
        values=held.values,
        seed=held.seed,
        step=step,
        training=training,
    )
    found = [d for node in nodes if (d := digits(run, node, fetched)) is not None]
    return PrecisionReport(found, target.name, changed)


def public(nodes: Sequence[Node]) -> list[Tensor]:
    """Return the outputs of nodes that may be fetched and compared, or go into others."""
    return [t for n in nodes for t in n.public if not t.spec.by_reference]


def drawn(nodes: Sequence[Node], fetched: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
    """Return what was drawn at random: in float64 other numbers would be."""

    def reads(node: Node) -> list[Tensor]:
        """Return the inputs whose values count."""
        ins = enumerate(node.inputs)
        return [t for i, t in ins if t is not None and i not in node.op.shape_only]

    return {
        t: fetched[t]
        for n in nodes
        if any(isinstance(s.op, Rng) for s in reads(n))
        and not any(is_floating(s.dtype) for s in reads(n))
        for t in n.public
        if t in fetched
    }


def digits(run: Float64Run, node: Node, fetched: Mapping[Tensor, Array]) -> NodeDigits | None:
    """Return what a node of the user's graph loses; None for one that computes no floats."""
    pairs = [
        (i, t)
        for i, t in enumerate(node.public)
        if is_floating(t.dtype) and t in fetched and fetched[t].size
    ]
    copies = [run.copies.get(t) for t in node.outputs]
    if not pairs or any(c is None or c.node.kind == "placeholder" for c in copies):
        return None
    op = run.settled(node)
    xs = [None if t is None else _given(run, t, fetched) for t in node.inputs]
    with np.errstate(all="ignore"):
        local = run_forward(op, xs, training=run.training)
        exact = [run.env[c] for c in copies if c is not None]
        ys = [fetched[t] for _, t in pairs]
        error = max(_apart(y, exact[i]) for y, (i, _) in zip(ys, pairs, strict=True))
        own = max(_apart(y, local[i]) for y, (i, _) in zip(ys, pairs, strict=True))
        kappa = condition(op, xs, [local[i] for i, _ in pairs], [i for i, _ in pairs], run.training)
    origin = node.origin if node.origin is not None else node
    dtypes = [t.dtype for _, t in pairs]
    narrow = max(dtypes, key=lambda d: _eps(str(d)))
    return NodeDigits(
        node.name, op.name, node.where or origin.where, str(narrow), node.origin is not None,
        error, own, kappa,
    )  # fmt: skip


def condition(
    op: Op, xs: Sequence[Array | None], ys: Sequence[Array], which: Sequence[int], training: bool
) -> float:
    """Return how many times larger relative errors come out of an op than they go in."""
    worst = 0.0
    for shifted in _directions(xs):
        moved = run_forward(op, shifted, training=training)
        for i, y in zip(which, ys, strict=True):
            grown = _apart(moved[i], y) / DELTA
            if math.isfinite(grown):
                worst = max(worst, grown)
    return worst


def _directions(xs: Sequence[Array | None]) -> Iterator[list[Array | None]]:
    """Yield inputs that are off: all away from 0, each alone away from 0, and at random."""
    floats = [i for i, x in enumerate(xs) if x is not None and x.dtype.kind in "fc" and x.size]

    def off(i: int, signs: Any) -> list[Array | None]:
        made, x = list(xs), xs[i]
        assert x is not None
        made[i] = np.asarray(x + DELTA * np.abs(x) * signs)
        return made

    for i in floats[:DIRECTIONS]:
        yield off(i, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(DIRECTIONS if floats else 0):
        made = list(xs)
        for i in floats:
            x = xs[i]
            assert x is not None
            made[i] = np.asarray(x + DELTA * np.abs(x) * rng.choice([-1.0, 1.0], x.shape))
        yield made


def _given(run: Float64Run, t: Tensor, fetched: Mapping[Tensor, Array]) -> Array:
    """Return a tensor as the plan has it, in float64."""
    exact = run.env[run.copies[t]]
    return fetched[t].astype(exact.dtype) if t in fetched else exact


def _apart(y: Array, exact: Array) -> float:
    """Return ‖y − exact‖ / ‖exact‖ over what is finite in both; inf where one alone is not."""
    wide = y.astype(exact.dtype)
    finite = np.isfinite(exact)
    if not np.array_equal(finite, np.isfinite(wide)):
        return math.inf
    a, b = wide[finite], exact[finite]
    size, off = float(np.linalg.norm(b)), float(np.linalg.norm(a - b))
    return off / size if size else math.inf if off else 0.0


def _eps(name: str) -> float:
    return float(finfo(np.dtype(name)).eps)  # type: ignore[no-untyped-call]


def _digits(error: float, name: str) -> float:
    """Return how many decimal digits of a dtype an error takes; half a rounding takes none."""
    eps = _eps(name)
    if error <= eps:
        return 0.0
    return min(math.log10(error / eps), -math.log10(eps))
