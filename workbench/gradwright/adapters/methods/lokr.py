"""LoKr: a Kronecker product beside a weight (Yeh et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ... import linalg
from ...errors import GraphError
from ...graph import Tensor
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves
from ..dropping import kept, kept_rows
from ..settings import as_kaiming, check_ranks, check_share, rank_at, scale_at
from ..site import Site, Use

INITS = (True, False, "lycoris")


@jsonable
@dataclass(frozen=True)
class LoKr(Adapter):
    """A sum with a Kronecker product (Yeh et al. 2023, "Navigating Text-To-Image Customization").

    y = x·(W + ΔW)ᵀ + bias, ΔW = alpha/r·(w1 ⊗ w2), with w1: f32[l, m], w2: f32[k, n, *kernel],
    out = l·k and in = m·n, each factored into two as near as can be (see ``factors``).

    w2 = w2_a·w2_b of rank r where r < max(k, n)/2, else whole; w1 likewise, with ``decompose_both``
    alone. The scale is alpha/r even where nothing has rank r. Merging makes W + ΔW of W.

    Args:
        r: the rank of what is decomposed.
        alpha: the scale is alpha/r.
        rank_dropout: probability with which a row of ΔW is zero for a step.
        rank_dropout_scale: whether the rows that stay are scaled up.
        module_dropout: probability with which ΔW is left out for a step.
        decompose_both: whether w1 may be decomposed, too.
        decompose_factor: one factor of out and of in where it divides them; −1: near the root.
        init: ``True``: w1 (or w1_a) is zero; ``"lycoris"``: w2 (or w2_b) is; ``False``: none is.
        rank_pattern: ranks of some places by pattern.
        alpha_pattern: alphas likewise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 6)) @ g.variable("w", (6, 4), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoKr(r=1), where="w")
    >>> {leaf: t.shape for leaf, t in adapted.variables["w"].items()}
    {'lokr_w1': (2, 2), 'lokr_w2_a': (2, 1), 'lokr_w2_b': (1, 3)}
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "conv"})
    r: int = 8
    alpha: float = 8
    rank_dropout: float = 0.0
    rank_dropout_scale: bool = False
    module_dropout: float = 0.0
    decompose_both: bool = False
    decompose_factor: int = -1
    init: bool | str = True
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ranks(self)
        check_share("rank_dropout", self.rank_dropout)
        check_share("module_dropout", self.module_dropout)
        if self.init not in INITS:
            raise GraphError(f"init={self.init!r} is not known", need=", ".join(map(repr, INITS)))

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        (n_out, n_in, *kernel), r = place.shape, rank_at(self, place)
        (rows, k), (columns, n) = (factors(d, self.decompose_factor) for d in (n_out, n_in))
        shapes: dict[str, tuple[int, ...]] = {}
        if self.decompose_both and r < max(rows, columns) / 2:
            shapes |= {"lokr_w1_a": (rows, r), "lokr_w1_b": (r, columns)}
        else:
            shapes["lokr_w1"] = rows, columns
        if r >= max(k, n) / 2:
            shapes["lokr_w2"] = k, n, *kernel
        else:
            shapes["lokr_w2_a"] = k, r
            shapes["lokr_w2_b"] = r, n * math.prod(kernel)
        zero = {True: ("lokr_w1", "lokr_w1_a"), "lycoris": ("lokr_w2", "lokr_w2_b")}
        return {
            name: Leaf(shape, 0.0 if name in zero.get(self.init, ()) else as_kaiming(shape))
            for name, shape in shapes.items()
        }

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        if place.kind == "linear" and not self.rank_dropout:
            y = self._product(place, x, p)
        else:
            delta = self.delta(place, p)
            if self.rank_dropout:
                rows = kept_rows(delta, self.rank_dropout, scaled=self.rank_dropout_scale)
                delta = delta * rows
            y = x @ delta.mT if place.kind == "linear" else use.again(x, delta)
        return y * kept(y, self.module_dropout) if self.module_dropout else y

    def delta(self, place: Site, p: Leaves) -> Tensor:
        (w1, w2), scale = _wholes(p), scale_at(self, place)
        n_out, n_in, *_ = place.shape
        k, n = n_out // int(w1.shape[0]), n_in // int(w1.shape[1])
        w2 = w2.reshape(k, n, -1) * scale
        whole = linalg.einsum("lm,knt->lkmnt", w1, w2)
        return whole.reshape(*place.shape)

    def _product(self, place: Site, x: Tensor, p: Leaves) -> Tensor:
        """Return x·ΔWᵀ without ΔW: (w1 ⊗ w2)·vec is w1·X·w2ᵀ, X the rows of x, [m, n]."""
        w1, w2 = _wholes(p)
        (rows, columns), (k, n) = w1.shape, w2.shape
        each = x.reshape(*x.shape[:-1], columns, n) @ (w2 * scale_at(self, place)).mT
        return (w1 @ each).reshape(*x.shape[:-1], rows * k)


def _wholes(p: Leaves) -> tuple[Tensor, Tensor]:
    """Return both factors, multiplied out."""
    w1 = p["lokr_w1"] if "lokr_w1" in p else p["lokr_w1_a"] @ p["lokr_w1_b"]
    w2 = p["lokr_w2"] if "lokr_w2" in p else p["lokr_w2_a"] @ p["lokr_w2_b"]
    return w1, w2


def factors(d: int, factor: int = -1) -> tuple[int, int]:
    """Return two factors of a size: (factor, d/factor), or the two that are nearest to its root.

    >>> factors(128), factors(48), factors(11008), factors(7), factors(48, 8)
    ((8, 16), (6, 8), (86, 128), (1, 7), (8, 6))
    """
    if factor > 0 and d % factor == 0:
        return factor, d // factor
    most = math.isqrt(d) if factor <= 0 else min(math.isqrt(d), factor)
    small = next(n for n in range(most, 0, -1) if d % n == 0)
    return small, d // small
