"""VeRA: shared random matrices, of which each layer learns scales (Kopiczko et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ... import nn
from ...errors import GraphError
from ...graph import Tensor
from ...init import uniform
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves
from ..low_rank import LowRank
from ..settings import check_count, check_number, check_share
from ..site import Site, Use


@jsonable
@dataclass(frozen=True)
class VeRA(Adapter):
    """A low-rank sum of random matrices that all layers share (Kopiczko et al. 2023, "VeRA").

    y = x·Wᵀ + bias + b ⊙ ((d ⊙ (drop(x)·Aᵀ))·Bᵀ), with A: f32[r, in] and B: f32[out, r] the first
    columns and rows of matrices as large as the largest layer, never trained, d: f32[r] and
    b: f32[out]. Merging makes W + (b ⊙ B)·(d ⊙ A) of W.

    Args:
        r: the rank.
        dropout: on the way to A alone.
        d_initial: what d begins as; b begins as 0.
        projection_seed: of A and B; those of a file are read, not drawn.
        save_projection: whether files hold A and B, too.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.VeRA(r=4), where="w")
    >>> {t.name: t.shape for t in adapted.parameters}
    {'w/default/vera_lambda_b': (2,), 'w/default/vera_lambda_d': (4,)}
    >>> {leaf: t.shape for leaf, t in adapted.shared.items()}
    {'vera_A': (4, 3), 'vera_B': (2, 4)}
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear"})
    by_row = "sum"
    r: int = 256
    dropout: float = 0.0
    d_initial: float = 0.1
    projection_seed: int = 0
    save_projection: bool = True

    def __post_init__(self) -> None:
        check_count("r", self.r)
        check_share("dropout", self.dropout)
        check_number("d_initial", self.d_initial)
        if not isinstance(self.projection_seed, int) or self.projection_seed < 0:
            raise GraphError(f"projection_seed={self.projection_seed!r}", need="0, 1, ...")

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        return {
            "vera_lambda_b": Leaf((place.n_out,), 0.0),
            "vera_lambda_d": Leaf((self.r,), self.d_initial),
        }

    def shared(self, places: Sequence[Site]) -> Mapping[str, Leaf]:
        shapes = (
            (self.r, max(p.n_in for p in places)),
            (max(p.n_out for p in places), self.r),
        )
        return {
            name: Leaf(shape, _fixed(shape, 2 * self.projection_seed + i), trainable=False)
            for i, (name, shape) in enumerate(zip(("vera_A", "vera_B"), shapes, strict=True))
        }

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        a, b = _parts(place, p)
        x = nn.dropout(x, p=self.dropout) if self.dropout else x
        y: Tensor = ((x @ a.mT) * p["vera_lambda_d"]) @ b.mT * p["vera_lambda_b"]
        return y

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        a, b = p["vera_A"][:, : place.n_in], p["vera_B"][: place.n_out]
        return LowRank(a * p["vera_lambda_d"][:, None], b * p["vera_lambda_b"][:, None])

    def delta(self, place: Site, p: Leaves) -> Tensor:
        a, b = _parts(place, p)
        whole: Tensor = (b * p["vera_lambda_b"].reshape(-1, 1)) @ (
            a * p["vera_lambda_d"].reshape(-1, 1)
        )
        return whole


def _fixed(shape: tuple[int, int], seed: int) -> object:
    """Return how a shared matrix is drawn: uniform in ±√(6/columns)."""
    limit = math.sqrt(6 / shape[1])
    return uniform(low=-limit, high=limit, seed=seed)


def _parts(place: Site, p: Leaves) -> tuple[Tensor, Tensor]:
    """Return what a layer sees of A and B."""
    return p["vera_A"][:, : place.n_in], p["vera_B"][: place.n_out, :]
