"""Four ways to break the vjp of an op: a sign, a factor, inputs mixed up, a sum without a term."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.gradient import pull_back
from gradwright.op import Op
from gradwright.spec import is_floating


def broken(op: Op, how: str) -> Op:
    """Return the op with a vjp that is wrong in one way."""
    cls = type(op)

    def vjp(self: Op, gs: Any, ys: Any, xs: Any) -> Any:
        return MUTATIONS[how](op, list(gs), list(ys), list(xs))

    body = {"vjp": vjp, "name": cls.name, "registered": False, "__module__": __name__}
    return type(f"_Broken{cls.__name__}", (cls,), body)(**op.attributes())


def cotangents(op: Op, gs: Sequence[Any], ys: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    wanted = [x is not None and is_floating(x.dtype) for x in xs]
    node: Any = SimpleNamespace(op=op, outputs=tuple(ys), inputs=tuple(xs))
    return list(pull_back(node, gs, wanted))


def held(found: Sequence[Any]) -> list[int]:
    return [i for i, g in enumerate(found) if isinstance(g, gw.Tensor)]


def sign(op: Op, gs: list[Any], ys: list[Any], xs: list[Any]) -> list[Any]:
    found = cotangents(op, gs, ys, xs)
    first = held(found)[0]
    found[first] = -found[first]
    return found


def factor(op: Op, gs: list[Any], ys: list[Any], xs: list[Any]) -> list[Any]:
    found = cotangents(op, gs, ys, xs)
    last = held(found)[-1]
    found[last] = found[last] * 1.01
    return found


def swapped(op: Op, gs: list[Any], ys: list[Any], xs: list[Any]) -> list[Any]:
    """Exchange two inputs' cotangents; else take the output for the input; else flip an axis."""
    found = cotangents(op, gs, ys, xs)
    at = held(found)
    for i, j in itertools.pairwise(at):
        if found[i].spec == found[j].spec and xs[i].spec == xs[j].spec:
            found[i], found[j] = found[j], found[i]
            return found
    if op.has_vjp() and len(xs) == len(ys) == 1 and xs[0].spec == ys[0].spec:
        return cotangents(op, gs, xs, ys)
    last = at[-1]
    axes = [a for a, d in enumerate(found[last].shape) if isinstance(d, int) and d > 1]
    found[last] = gw.flip(found[last], axis=axes[0]) if axes else found[last] * 2.0
    return found


def dropped(op: Op, gs: list[Any], ys: list[Any], xs: list[Any]) -> list[Any]:
    """Leave out a term: the first slice instead of the sum, or nothing from the last row."""
    found = cotangents(op, gs, ys, xs)
    for i in held(found):
        lead = found[i].rank - xs[i].rank
        if found[i].shape != xs[i].shape:
            cut = [slice(0, 1) if d == 1 else slice(None) for d in xs[i].shape]
            found[i] = found[i][(*[0] * lead, *cut)]
            return found
    weighted = []
    for g in gs:
        if isinstance(g, gw.Tensor) and g.shape:
            mask = np.ones(g.shape)
            mask[-1:] = 0.0
            weighted.append(g * mask)
        else:
            weighted.append(g * 0.0 if isinstance(g, gw.Tensor) else g)
    return cotangents(op, weighted, ys, xs)


MUTATIONS = {"sign": sign, "factor": factor, "swapped": swapped, "dropped": dropped}
