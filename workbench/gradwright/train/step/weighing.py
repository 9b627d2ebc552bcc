"""Weighing: what a scalar is a mean over, so that a batch counts in an epoch as much as it holds.

A mean over examples weighs by examples; one over the tokens that a mask shows, by their number in
the batch: by what the scalar itself divides by.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...graph import Constant, Graph, Node, Placeholder, Tensor, Variable, ancestors
from ...graph.edit import discard
from ...ops.core.choice import Clip, Maximum, Where
from ...ops.core.elementwise import Add, Div, Mul, Neg, Sub
from ...ops.core.identity import AddN, Identity, StopGradient
from ...ops.core.like import SizeOf
from ...ops.core.movement import Cast
from ...ops.core.reduce import Sum
from ...spec import Dim

SCOPE = "measured"
"""Where in the derived layer stands what means divide by."""
SAME = Cast | Identity | StopGradient | Neg
"""Ops that leave the size of a number what it is."""
_KNOWN: weakref.WeakKeyDictionary[Graph, dict[str, tuple[int, str]]] = weakref.WeakKeyDictionary()
"""By graph, the name of what was found for a scalar of this name at this revision; a tensor here
would keep its graph for good."""


def divisor(t: Tensor) -> Tensor | None:
    """Return the scalar that a mean divides by; None where examples are as good, or unknown.

    Of a sum it is that of the terms that data feeds, penalties aside; constant factors change
    nothing. A term is a loss, a mean, or a sum over a sum that depends on data alone. Where terms
    divide by different things, no weight is right for all.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, m = g.placeholder("x", ("B", "T")), g.placeholder("m", ("B", "T"))
    >>> loss = (x * g.variable("w", ()) * m).sum() / m.sum()
    >>> g.output({"m": [[1, 1], [1, 0]]}, divisor(loss * 0.5))
    {'sum_1': array(3., dtype=float32)}
    >>> divisor(gw.mean(x.sum(axis=1))) is None       # a mean over examples
    True
    """
    graph, known = t.graph, _KNOWN.setdefault(t.graph, {})
    revision, name = known.get(t.name, (-1, ""))
    found = graph.get(name) if name else None
    if revision != graph.revision or (name and found is None):
        each = {_structure(d): d for d in map(_of_term, _terms(t))}
        found = each.popitem()[1] if len(each) == 1 else None
        known[t.name] = graph.revision, found.name if found is not None else ""
    return found


def _terms(t: Tensor) -> Iterator[Tensor]:
    """Yield the terms of a sum that data feeds, without constant factors."""
    by_data: set[Node] = set()
    for node in ancestors([t]):
        read = {x.node for x in node.inputs if x is not None}
        if isinstance(node.op, Placeholder) or not by_data.isdisjoint(read):
            by_data.add(node)
    waiting = [t]
    while waiting:
        term = waiting.pop()
        op, inputs = term.node.op, term.node.inputs
        fed = [x for x in inputs if x is not None and x.node in by_data]
        is_scaled = len(fed) == 1 and (
            isinstance(op, Mul) or (isinstance(op, Div) and fed[0] is inputs[0])
        )
        if is_scaled or isinstance(op, Add | Sub | AddN | SAME):
            waiting += fed
        else:
            yield term


def _of_term(term: Tensor) -> Tensor | None:
    """Return what one term divides by; None for examples."""
    op, inputs = term.node.op, term.node.inputs
    if isinstance(op, Div):
        above, below = (_unguarded(x) for x in inputs if x is not None)
        is_sum = isinstance(above.node.op, Sum) or getattr(above.node.op, "reduction", "") == "sum"
        is_count = isinstance(below.node.op, Sum)
        is_count &= not any(isinstance(n.op, Variable) for n in ancestors([below]))
        return below if is_sum and is_count else None
    with term.graph.deriving(prefix := f"{SCOPE}/{term.name}"):
        found: Tensor | None = op.divisor(*inputs)
    if found is None or not isinstance(found.node.op, SizeOf) or _is_ragged(found):
        return found
    made = ancestors([found], stop={x for x in inputs if x is not None})
    discard([n for n in made if n.derived and n.name.startswith(prefix)])
    return None


def _structure(t: Tensor | None) -> Any:
    """Return what is equal for two divisors that count the same; shapes stand for what has them."""
    if t is None:
        return None
    known: dict[Tensor, Any] = {}
    for node in ancestors([t]):
        if node.derived and node.name.startswith(f"{SCOPE}/"):
            parts = [
                None if x is None else x.shape if i in node.op.shape_only else known.get(x, x.name)
                for i, x in enumerate(node.inputs)
            ]
            key = node.name if isinstance(node.op, Constant) else (node.op.key(), *parts)
            known[node.outputs[0]] = key
    return known.get(t, t.name)


def _unguarded(t: Tensor) -> Tensor:
    """Return a number without the sign, the casts, and what keeps a division from being by 0."""
    while True:
        op, inputs = t.node.op, [x for x in t.node.inputs if x is not None]
        later = [x for x in inputs if not isinstance(x.node.op, Constant)]
        if not isinstance(op, SAME | Maximum | Clip | Where | Add | Mul) or not later:
            return t
        if len(later) > 1 and not isinstance(op, Where):
            return t
        t = later[-1]


def _is_ragged(size: Tensor) -> bool:
    """Return whether a number of elements is more than one of examples, times a constant."""
    first = {s for x in size.graph.placeholders if x.rank for s in _symbols(x.shape[0])}
    return not _symbols(np.asarray(size.spec.value).item()) <= first


def _symbols(dim: object) -> frozenset[str]:
    return dim.symbols if isinstance(dim, Dim) else frozenset()
