"""Attention written out: scores, scaled and masked, their softmax, and the average of values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...graph import Node, Tensor
from ...ops.attention.forms import GroupedQueryAttention
from ...ops.attention.scaled import ScaledDotProductAttention
from ...ops.core.choice import Where
from ...ops.core.comparison import LogicalAnd, LogicalNot
from ...ops.core.elementwise import Add
from ...ops.layers.nn import Softmax
from ...spec import Dim, kind
from ...spec.dims import larger
from .heads import turned, ungrouped
from .masks import HIDES, is_causal, lowest, vanishes
from .products import agrees
from .table import Found, finds
from .view import Step, View

STEPS = 12
"""How many things may be done to scores, and to weights."""


class Mask(NamedTuple):
    """One mask: what is added to the scores, or who is seen, and the number that hides others."""

    value: int
    number: float | None = None
    is_hidden: bool = False
    """Whether it says who is hidden instead."""


@dataclass
class Scores:
    """What is done to the product of queries and keys, from the softmax down."""

    taken: list[Node] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    """The outermost first."""
    scale: float = 1.0
    softcap: float = 0.0
    wrong: str = ""


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
    scores.taken += [product.node, total.node]
    query, key = (_unscaled(at, v, scores) for v in product.ins)
    value = total.ins[1]
    assert value is not None
    plan = _Plan(at, scores, query, key, value, guarded, at.spec(product.outs[0]).shape[-2:])
    root = total.node.outputs[0]
    yield Found(root, list(dict.fromkeys(scores.taken)), plan.build, scores.wrong or plan.wrong())


# -- from the softmax down ------------------------------------------------------------------------


def _product_below(at: View, value: int | None, found: Scores) -> Step | None:
    """Return the product of queries and keys, and note what is done to it."""
    for _ in range(STEPS):
        step = at.producer(value)
        if step is None or step.op.name == "matmul":
            return step
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
        if step is not None and step.op.name == "matmul":
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


def _average_above(at: View, node: Node, found: Scores) -> tuple[Step, bool] | None:
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
        elif "matmul" in named:
            step = named["matmul"]
            return (step, guarded) if step.ins[0] == value else None
        else:
            return None
    return None


# -- what it becomes ------------------------------------------------------------------------------


@dataclass
class _Plan:
    """The op that a match becomes: of heads that share keys, or any; and the mask it is given."""

    at: View
    scores: Scores
    query: int
    key: int
    value: int
    guarded: bool
    sizes: tuple[int | Dim, ...]
    """Queries by keys."""

    def wrong(self) -> str:
        """Say why it is no attention that an op of ours computes."""
        spec = self.at.spec(self.query)
        for mask in self.scores.masks:
            number = mask.number
            if number is None or number == -math.inf:
                continue
            if number > HIDES or not (self._chooses() or vanishes(number, spec)):
                return f"{number:g} does not hide: a query that sees no key would see some"
        if self.scores.softcap and not self._fits_heads():
            return "a cap of the scores beside a mask that may hide all keys"
        if self._needs_heads() and not self._fits_heads():
            return "NaN is taken for zero beside a mask that may hide all keys"
        return ""

    def build(self) -> Tensor:
        """Build the op, and a mask where several are one."""
        at, scores = self.at, self.scores
        query, value = at.tensor(self.query), at.tensor(self.value)
        key = turned(at, self.key)
        causal = self._is_causal()
        is_free = causal or not scores.masks
        mask = None if is_free else self._seen() if self._chooses() else self._added()
        given = () if mask is None else (mask,)
        width, unseen = query.shape[-1], self._unseen()
        usual = isinstance(width, int) and agrees(scores.scale, width**-0.5, query.spec)
        scale = None if usual else scores.scale
        k, v = ungrouped(at, key), ungrouped(at, value)
        needed = scores.softcap or self._needs_heads()
        if self._fits_heads() and (needed or (k is not None and v is not None)):
            op = GroupedQueryAttention(scale=scale, softcap=scores.softcap, is_causal=causal)
            heads = (key, value) if k is None or v is None else (k, v)
            return at.build(op, query, *heads, *given)
        plain = ScaledDotProductAttention(is_causal=causal, scale=scale, unseen=unseen)
        return at.build(plain, query, key, value, *given)

    def _unseen(self) -> str:
        """Return what queries get that see no key; zeros where all see some."""
        masks = self.scores.masks
        if not masks or self._is_causal():
            return "zeros"
        if self._chooses():
            hides = masks[0].number == -math.inf
            return "average" if not hides else "zeros" if self.guarded else "nan"
        return "zeros" if self.guarded and not self._is_finite() else "nan"

    def _needs_heads(self) -> bool:
        """Tell whether only the op of heads apart gives zeros beside what is added."""
        free = self._is_causal() or not self.scores.masks or self._chooses()
        return self._unseen() == "zeros" and not free

    def _fits_heads(self) -> bool:
        """Tell whether the op of heads apart, with zeros where no key is seen, is the same."""
        rank = {self.at.spec(v).rank for v in (self.query, self.key, self.value)}
        finite = not self._chooses() and self._is_finite()
        return rank == {4} and (finite or self._unseen() == "zeros")

    def _chooses(self) -> bool:
        """Tell whether all masks say who is seen, and hide by the same number."""
        numbers = {mask.number for mask in self.scores.masks}
        return len(numbers) == 1 and None not in numbers

    def _is_finite(self) -> bool:
        """Tell whether no sum of the masks is −∞."""
        at, masks = self.at, self.scores.masks
        low = [lowest(at, m.value) if m.number is None else m.number for m in masks]
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.array(low, at.spec(self.query).dtype).sum()))

    def _is_causal(self) -> bool:
        """Tell whether the mask hides from every query what comes after it, and nothing else."""
        at, masks = self.at, self.scores.masks
        if len(masks) != 1:
            return False
        value, hidden = masks[0].value, masks[0].is_hidden
        if masks[0].number is None:
            made = at.producer(value, "where")
            numbers = [at.number(i) for i in made.ins[1:]] if made is not None else []
            if made is None or None in numbers or 0 not in numbers or min(numbers) > HIDES:
                return False
            value, hidden = made.ins[0] or 0, numbers[1] == 0
        own = at.spec(value).shape[-2:]
        fits = len(own) == 2 and all(
            d == n or (isinstance(d, Dim) and larger(d, n) == n)
            for d, n in zip(own, self.sizes, strict=True)
        )
        return fits and is_causal(at, value, hidden)

    def _seen(self) -> Tensor:
        """Build the mask of who is seen by all."""
        at, masks = self.at, self.scores.masks
        tensors = [(at.tensor(m.value), m.is_hidden) for m in masks]
        seen = [at.build(LogicalNot(), t) if hidden else t for t, hidden in tensors]
        return functools.reduce(lambda a, b: at.build(LogicalAnd(), a, b), seen)

    def _added(self) -> Tensor:
        """Build the one mask that is added, from the innermost on."""
        at, dtype = self.at, self.at.spec(self.query).dtype
        bias: Tensor | None = None
        for mask in reversed(self.scores.masks):
            given = at.tensor(mask.value)
            if mask.number is None:
                bias = given if bias is None else at.build(Add(), bias, given)
                continue
            own = bias if bias is not None else at.graph.scalar(0.0, dtype)
            low = at.graph.scalar(mask.number, dtype)
            bias = at.build(Where(), given, *((low, own) if mask.is_hidden else (own, low)))
        assert bias is not None
        return bias
