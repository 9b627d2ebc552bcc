"""The reference: a graph run node by node, and how far rounding may carry each of its results.

Every node runs three times: as it is, and twice with its floating results disturbed by some units
in the last place. Where the disturbed runs differ by δ, another order of the same sums may, too;
results that jump (an argmax of a tie, the sign of an eigenvector) are known by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradwright.fuse.rules_elements import FORMULAS
from gradwright.graph import Source, Tensor, Values, ancestors
from gradwright.graph.expand import bind_dims, run_node
from gradwright.testing.common import same

Array = Any
NOISE = 4.0
"""Units in the last place by which results are disturbed: what a formula of a few steps rounds."""
FORMED = frozenset(FORMULAS)
"""Ops of elements whose results are as accurate as their own size; others as the largest."""


class Reference:
    """Runs of a random graph with variables of their own: plain, and disturbed twice or more."""

    def __init__(self, drawn: Any, seed: int = 0, disturbed: int = 2) -> None:
        self.drawn, self.seed = drawn, seed
        self.values = [drawn.graph.values.snapshot() for _ in range(1 + disturbed)]

    def run(self, feeds: Mapping[Tensor, Array], step: int) -> list[tuple[Array, ...]] | None:
        """Return for each fetch, then each updated variable, its value in all runs.

        None where one of them is refused: a matrix that rounding makes singular, other sizes.
        """
        drawn, found = self.drawn, []
        decides = [] if drawn.commit_if is None else [drawn.commit_if]
        targets = [*drawn.fetches, *drawn.updates.values(), *decides]
        for number, values in enumerate(self.values):
            rng = np.random.default_rng(number) if number else None
            env = dict(feeds)
            try:
                with np.errstate(all="ignore"):
                    run_disturbed(targets, env, values, (self.seed, step), drawn.training, rng)
            except Exception:
                return None
            if all(env[t] for t in decides):
                values.commit({v.name: env[t].copy() for v, t in drawn.updates.items()})
            kept = [values.array(v.name) for v in drawn.updates]
            found.append([*(env[t] for t in drawn.fetches), *kept])
        return list(zip(*found, strict=True))


def units(targets: Sequence[Tensor], updates: Mapping[Tensor, Tensor]) -> dict[Tensor, float]:
    """Return the unit in the last place of the narrowest dtype that a value went through."""
    found: dict[Tensor, float] = {}
    for _ in range(1 + bool(updates)):  # a variable is what a step made of it
        for node in ancestors([*targets, *updates.values()]):
            given = [found.get(t, 0.0) for t in node.inputs if t is not None]
            for t in node.outputs:
                is_float = t.dtype.kind in "fc" and t.dtype.isbuiltin == 1
                own = float(np.finfo(t.dtype).eps) if is_float else 0.0
                found[t] = max([own, found.get(updates.get(t), 0.0), *given])
    return found


def run_disturbed(
    targets: Sequence[Tensor],
    env: dict[Tensor, Array],
    values: Values,
    key: tuple[int, int],
    training: bool,
    rng: np.random.Generator | None,
) -> None:
    """Compute targets into ``env``, which holds the feeds, node by node."""
    sizes = bind_dims({t: a.shape for t, a in env.items()})
    for node in ancestors(targets, stop=env):
        first = node.outputs[0]
        if all(t in env for t in node.outputs):
            continue
        if isinstance(node.op, Source):
            is_key = node.kind == "rng"
            env[first] = np.array(key, np.uint64) if is_key else values.array(node.name)
            continue
        op = node.op.for_mode(training).bind(sizes)
        xs = [None if t is None else env[t] for t in node.inputs]
        ys = run_node(node, op, xs, training=training)
        for t, y in zip(node.outputs, ys, strict=True):
            if rng is not None and not op.views and y.dtype.kind in "fc" and y.dtype.isbuiltin == 1:
                y = disturbed(y, rng, bool(op.element) or op.name in FORMED)
            sizes.update(bind_dims({t: env.setdefault(t, y).shape}))


def disturbed(y: Array, rng: np.random.Generator, relative: bool) -> Array:
    """Return an array with each element moved a little."""
    eps = NOISE * np.finfo(y.dtype).eps
    size = np.abs(y)
    if not relative:
        size = np.broadcast_to(np.where(np.isfinite(size), size, 0.0).max(initial=0.0), y.shape)
    moved = y + eps * size * rng.uniform(-1, 1, y.shape)
    return np.where(np.isfinite(y), moved, y).astype(y.dtype)


def problem(found: Any, runs: Sequence[Array], unit: float, *, size: float, may_save: bool) -> str:
    """Return how a result differs from the reference by more than rounding, or nothing.

    ``unit`` is that in the last place of a number of size 1; ``size`` is that of the terms of sums
    that may come out as 0: about 1 for gradients, whose seeds are of that size.
    ``may_save``: a rewrite may have given a number where the plain formula overflows.
    """
    want, *others = runs
    found = np.asarray(found)
    if found.shape != want.shape or found.dtype != want.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {want.dtype}{list(want.shape)}"
    if any(o.shape != want.shape for o in others):
        return ""  # a size that rounding decides
    if want.dtype.kind in "biu" or not want.dtype.isbuiltin:
        if any(not same(o, want) for o in others) or np.array_equal(found, want):
            return ""
        return _first(found, want, found != want)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    y, w, *os = (a.astype(wide) for a in (found, want, *others))
    finite = np.isfinite(w)
    settled = finite.copy()
    for o in os:
        settled &= np.isfinite(o)
    scale = np.abs(w[finite]).max(initial=size)
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.max([np.abs(o - w) for o in os], axis=0, initial=0.0)
        # 50 units in the last place of the largest element, and 8 times what noise does.
        bound = 50 * unit * (np.abs(w) + scale) + 8 * spread
        wrong = settled & ~(np.abs(y - w) <= bound)
    if not may_save:  # what is not finite is so in the same way, or in no two runs alike
        alike = [(np.isnan(o) == np.isnan(w)) & ((o == w) | np.isnan(w)) for o in os]
        steady = ~finite & np.all(alike, axis=0)
        wrong |= steady & ~((y == w) | (np.isnan(y) & np.isnan(w)))
    return _first(found, want, wrong) if wrong.any() else ""


def _first(found: Array, want: Array, wrong: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{found[at]!r} instead of {want[at]!r} at {list(at)} of {want.dtype}{list(want.shape)}"
