"""Attention written out: scores, scaled and masked, their softmax, and the average of values."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...graph import Node
from ...ops.layers.nn import Softmax
from ...spec import kind
from .contractions import Averaged, Scored, averaged, scored
from .plan import Mask, Plan, Scores
from .table import Found, finds
from .view import Step, View

STEPS = 12
"""How many things may be done to scores, and to weights."""
PRODUCTS = ("matmul", "einsum")


@finds("attention", "softmax", "softmax(q @ kᵀ·scale + mask) @ v → attention(q, k, v, mask)")
def attention(at: View, node: Node) -> Iterator[Found]:
    """Find attention around a softmax over keys."""
    op, step = node.op, at.step(node)
    rank = node.outputs[0].rank
    if not isinstance(op, Softmax) or op.axis not in (-1, rank - 1) or op.name != "softmax":
        return
    scores = Scores([node])
    product = _product_below(at, step.ins[0], scores)
    above = _average_above(at, node, scores)
    if product is None or above is None:
        return
    total, guarded = above
    scores.taken += [product.step.node, total.step.node]
    query, key = (_unscaled(at, v, scores) for v in (product.query, product.key))
    plan = Plan(at, scores, product, query, key, total, guarded)
    root = total.step.node.outputs[0]
    yield Found(root, list(dict.fromkeys(scores.taken)), plan.build, scores.wrong or plan.wrong())


# -- from the softmax down ------------------------------------------------------------------------


def _product_below(at: View, value: int | None, found: Scores) -> Scored | None:
    """Return the product of queries and keys, and note what is done to it."""
    for _ in range(STEPS):
        step = at.producer(value)
        if step is None or step.op.name in PRODUCTS:
            return None if step is None else scored(at, step)
        found.taken.append(step.node)
        match step.op.name:
            case "cast" if kind(at.spec(step.ins[0]).dtype) == "f":
                value = step.ins[0]
            case "where":
                value = _hidden(at, step, found)
            case "add":
                value = _added(at, step, found)
            case "mul" | "div" if (scaled := _scaled(at, step)) is not None:
                value = _capped(at, *scaled, found) or scaled[0]
                found.scale *= scaled[1] if value == scaled[0] else 1.0
            case _:
                return None
    return None


def _scaled(at: View, step: Step) -> tuple[int, float] | None:
    """Return what a product or quotient with a number scales, and by how much."""
    a, b = step.ins
    numbers = at.number(a), at.number(b)
    value, number = (a, numbers[1]) if numbers[1] is not None else (b, numbers[0])
    if number is None or value is None or (step.op.name == "div" and numbers[1] is None):
        return None
    if at.spec(value).shape != at.spec(step.outs[0]).shape or not number:
        return None
    return value, float(number) if step.op.name == "mul" else 1 / float(number)


def _hidden(at: View, step: Step, found: Scores) -> int | None:
    """Note a mask that chooses between scores and a low number; returns the scores."""
    mask, *choices = step.ins
    for i, other in enumerate(choices):
        number = at.number(other)
        if number is not None and mask is not None:
            return _noted(found, Mask(mask, float(number), i == 0), choices[1 - i])
    return None


def _added(at: View, step: Step, found: Scores) -> int | None:
    """Note a mask that is added to the scores; returns these."""
    for scores, mask in (step.ins, step.ins[::-1]):
        if mask is not None and _is_product(at, scores):
            made = at.producer(mask, "where")
            if made is not None and made.ins[0] is not None:
                hides = [at.number(i) for i in made.ins[1:]]
                if None not in hides and 0 in hides and -math.inf in hides:
                    return _noted(found, Mask(made.ins[0], -math.inf, hides[1] == 0), scores)
            return _noted(found, Mask(mask), scores)
    return None


def _noted(found: Scores, mask: Mask, scores: int | None) -> int | None:
    if found.scale != 1 or found.softcap:
        found.wrong = "what masks the scores is scaled with them"
    found.masks.append(mask)
    return scores


def _is_product(at: View, value: int | None) -> bool:
    """Tell whether a value is a product of matrices to which is done what is done to scores."""
    stack = [value]
    for _ in range(2 * STEPS):
        step = at.producer(stack.pop()) if stack else None
        if step is not None and step.op.name in PRODUCTS:
            return True
        if step is not None and step.op.name in ("cast", "where", "mul", "div", "add", "tanh"):
            stack += [i for i in step.ins if at.number(i) is None]
    return False


def _capped(at: View, value: int, number: float, found: Scores) -> int | None:
    """Note a cap c·tanh(scores/c); returns the scores."""
    step = at.producer(value, "tanh")
    inner = at.producer(step.ins[0]) if step is not None else None
    below = _scaled(at, inner) if inner is not None and inner.op.name in ("mul", "div") else None
    if step is None or inner is None or below is None or found.softcap or found.scale != 1:
        return None
    # The scale may be part of the same number: tanh(scores·(scale/c)).
    found.softcap, found.scale = number, below[1] * number
    found.taken += [step.node, inner.node]
    return below[0]


def _unscaled(at: View, value: int | None, found: Scores) -> int:
    """Return queries or keys without numbers that they alone are multiplied by for the scores."""
    assert value is not None
    while (step := at.producer(value)) is not None and step.op.name in ("mul", "div"):
        scaled = _scaled(at, step)
        readers = [*at.readers(step.node.outputs[0])]
        if scaled is None or any(r not in found.taken for r in readers):
            break
        value = scaled[0]
        found.scale *= scaled[1]
        found.taken.append(step.node)
    return value


# -- from the softmax up --------------------------------------------------------------------------


def _average_above(at: View, node: Node, found: Scores) -> tuple[Averaged, bool] | None:
    """Return the product of weights and values, and whether NaN was taken for zero before it."""
    tensor, guarded = node.outputs[0], False
    for _ in range(STEPS):
        users = [u for u in at.readers(tensor) if u is not None]
        named = {u.op.name: at.step(u) for u in users}
        value = at.value(tensor)
        if named.keys() == {"is_nan", "where"} and len(users) == 2:
            chosen, asked = named["where"], named["is_nan"]
            zero = at.number(chosen.ins[1])
            if chosen.ins[0] != asked.outs[0] or chosen.ins[2] != value or zero is None or zero:
                return None
            found.taken += [chosen.node, asked.node]
            tensor, guarded = chosen.node.outputs[0], True
        elif named.keys() == {"cast"} and len(users) == 1:
            found.taken.append(named["cast"].node)
            tensor = named["cast"].node.outputs[0]
        elif not named.keys().isdisjoint(PRODUCTS):
            total = averaged(at, next(named[name] for name in PRODUCTS if name in named), value)
            return None if total is None else (total, guarded)
        else:
            return None
    return None
