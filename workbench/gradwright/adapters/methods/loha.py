"""LoHa: two low-rank products, multiplied elementwise, beside a weight (Hyeon-Woo et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ... import linalg
from ...graph import Tensor
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves
from ..dropping import kept, kept_rows
from ..settings import as_kaiming, check_ranks, check_share, rank_at, scale_at
from ..site import Site, Use


@jsonable
@dataclass(frozen=True)
class LoHa(Adapter):
    """A sum with a Hadamard product of low-rank products (Hyeon-Woo et al. 2022, "FedPara").

    y = x·(W + ΔW)ᵀ + bias, ΔW = alpha/r·(w1_a·w1_b) ⊙ (w2_a·w2_b), with w1_a, w2_a: f32[out, r] and
    w1_b, w2_b: f32[r, in·kernel]. It has rank r² with the numbers of rank 2r.

    With ``effective_conv2d`` the factors of a kernel larger than 1×1 are decomposed, too: each is
    Σᵢⱼ t[i, j, …]·b[j, in]·a[i, out] with t: f32[r, r, *kernel] and a: f32[r, out], b: f32[r, in].
    Merging makes W + ΔW of W.

    Args:
        r: the rank of both products.
        alpha: the scale is alpha/r.
        rank_dropout: probability with which a row of ΔW is zero for a step; the rest is scaled up.
        module_dropout: probability with which ΔW is left out for a step.
        effective_conv2d: whether kernels are decomposed.
        rank_pattern: ranks of some places by pattern.
        alpha_pattern: alphas likewise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoHa(r=1), where="w")
    >>> {leaf: t.shape for leaf, t in adapted.variables["w"].items()}
    {'hada_w1_a': (2, 1), 'hada_w1_b': (1, 3), 'hada_w2_a': (2, 1), 'hada_w2_b': (1, 3)}
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "conv"})
    r: int = 8
    alpha: float = 8
    rank_dropout: float = 0.0
    module_dropout: float = 0.0
    effective_conv2d: bool = False
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ranks(self)
        check_share("rank_dropout", self.rank_dropout)
        check_share("module_dropout", self.module_dropout)

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        (n_out, n_in, *kernel), r = place.shape, rank_at(self, place)
        if self._is_decomposed(place):
            shapes = {"a": (r, n_out), "b": (r, n_in), "t": (r, r, *kernel)}
        else:
            shapes = {"a": (n_out, r), "b": (r, n_in * math.prod(kernel))}
        return {
            f"hada_t{i}" if part == "t" else f"hada_w{i}_{part}": Leaf(
                shape, 0.0 if (i, part) == (2, "b") else as_kaiming(shape)
            )
            for i in (1, 2)
            for part, shape in shapes.items()
        }

    def apply(self, place: Site, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        if not self.module_dropout and use.weight.dtype == x.dtype:  # ΔW is as large as W: one
            w = use.weight.transpose(*use.order)  # product with their sum takes half of two
            whole = use.instead(y, x, w + self._dropped(self.delta(place, p)))
            if whole is not None:
                return whole
        return super().apply(place, use, x, y, p)

    @property
    def is_additive(self) -> bool:
        return True

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        delta = self._dropped(self.delta(place, p))
        y = x @ delta.mT if place.kind == "linear" else use.again(x, delta)
        return y * kept(y, self.module_dropout) if self.module_dropout else y

    def delta(self, place: Site, p: Leaves) -> Tensor:
        if self._is_decomposed(place):
            halves = [
                linalg.einsum(CP, p[f"hada_t{i}"], p[f"hada_w{i}_b"], p[f"hada_w{i}_a"])
                for i in (1, 2)
            ]
        else:
            halves = [p[f"hada_w{i}_a"] @ p[f"hada_w{i}_b"] for i in (1, 2)]
        whole: Tensor = halves[0] * (halves[1] * scale_at(self, place))
        return whole.reshape(*place.shape)

    def _dropped(self, delta: Tensor) -> Tensor:
        share = self.rank_dropout
        return delta * kept_rows(delta, share) if share else delta

    def _is_decomposed(self, place: Site) -> bool:
        return self.effective_conv2d and len(place.kernel) == 2 and math.prod(place.kernel) > 1


CP = "ijkl,jr,ip->prkl"
"""A kernel of its core t[i, j, …], what stands at each channel in, b[j, in], and out, a[i, out]."""
