"""What attention that is written out becomes: which op, and which mask it is given."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...graph import Node, Tensor
from ...ops.attention.forms import GroupedQueryAttention
from ...ops.attention.scaled import ScaledDotProductAttention
from ...ops.core.choice import Where
from ...ops.core.comparison import LogicalAnd, LogicalNot
from ...ops.core.elementwise import Add
from ...spec import Dim
from ...spec.dims import larger
from .contractions import Averaged, Scored, arranged, keys
from .heads import ungrouped
from .masks import HIDES, is_causal, lowest, vanishes
from .products import agrees
from .view import View


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


@dataclass
class Plan:
    """The op that a match becomes: of heads that share keys, or any; and the mask it is given."""

    at: View
    scores: Scores
    product: Scored
    query: int
    key: int
    total: Averaged
    guarded: bool

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
        query = arranged(at, at.tensor(self.query), self.product.query_axes)
        key = keys(at, self.key, self.product)
        value = arranged(at, at.tensor(self.total.value), self.total.value_axes)
        causal = self._is_causal()
        is_free = causal or not scores.masks
        mask = None if is_free else self._seen() if self._chooses() else self._added()
        given = () if mask is None else (mask,)
        width, unseen = query.shape[-1], self._unseen()
        usual = (
            isinstance(width, int) and width > 0 and agrees(scores.scale, width**-0.5, query.spec)
        )
        scale = None if usual else scores.scale
        k, v = ungrouped(at, key), ungrouped(at, value)
        needed = scores.softcap or self._needs_heads()
        if self._fits_heads() and (needed or (k is not None and v is not None)):
            op = GroupedQueryAttention(scale=scale, softcap=scores.softcap, is_causal=causal)
            heads = (key, value) if k is None or v is None else (k, v)
            return arranged(at, at.build(op, query, *heads, *given), self.total.result_axes)
        plain = ScaledDotProductAttention(is_causal=causal, scale=scale, unseen=unseen)
        made = at.build(plain, query, key, value, *given)
        return arranged(at, made, self.total.result_axes)

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
        rank = {self.at.spec(v).rank for v in (self.query, self.key, self.total.value)}
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
        own, sizes = at.spec(value).shape[-2:], at.spec(self.product.step.outs[0]).shape[-2:]
        fits = len(own) == 2 and all(
            d == n or (isinstance(d, Dim) and larger(d, n) == n)
            for d, n in zip(own, sizes, strict=True)
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
