"""LoRA for each head of attention: a product of two thin matrices beside the rows of a head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...graph import Tensor
from ...init import normal
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves
from ..low_rank import LowRank
from ..settings import check_count, check_number
from ..site import Use


@jsonable
@dataclass(frozen=True)
class HeadLoRA(Adapter):
    """A low-rank sum with the rows of each head of a weight.

    yₕ = x·Wₕᵀ + biasₕ + x·Aₕᵀ·Bₕᵀ, W: f32[heads·E, in], A: f32[heads, r, in], B: f32[heads, E, r]

    There is no factor alpha/r. A begins normal, B as zeros, so that the model is what it was.
    Merging adds Bₕ·Aₕ to the rows of each head.

    Args:
        r: the rank of each head.
        heads: how many heads the rows of a weight are.
        init_scale: deviation of A.

    Raises ShapeError for a weight whose rows are no such heads.

    >>> import gradwright as gw
    >>> config = gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)
    >>> model = gw.models.Decoder(config)
    >>> adapted = gw.adapters.add(model, gw.adapters.HeadLoRA(r=2, heads=2), where="q")
    >>> [(t.name, t.shape) for t in adapted.parameters]
    [('layer0/q/default/lora_a', (2, 2, 8)), ('layer0/q/default/lora_b', (2, 4, 2))]
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear"})
    by_row = "sum"
    r: int = 8
    heads: int = 1
    init_scale: float = 0.01

    def __post_init__(self) -> None:
        for name in ("r", "heads"):
            check_count(name, getattr(self, name))
        check_number("init_scale", self.init_scale)

    def variables(self, place: Any) -> Mapping[str, Leaf]:
        if place.n_out % self.heads:
            raise ShapeError(
                f"the {place.n_out} rows of {place.name!r} are not {self.heads} heads",
                need=f"a multiple of {self.heads}",
            )
        size = place.n_out // self.heads
        if self.r > min(size, place.n_in):
            raise ShapeError(
                f"rank {self.r} is larger than a head of {place.name!r} allows",
                facts=[f"it is [out, in] = [{size}, {place.n_in}]"],
            )
        return {
            "lora_a": Leaf((self.heads, self.r, place.n_in), normal(std=self.init_scale)),
            "lora_b": Leaf((self.heads, size, self.r), 0.0),
        }

    def shift(self, place: Any, use: Use, x: Tensor, p: Leaves) -> Tensor:
        a, b = p["lora_a"], p["lora_b"]
        rows = x.reshape(-1, place.n_in)
        z = (rows @ a.reshape(-1, place.n_in).mT).reshape(-1, self.heads, self.r)
        y = z.transpose(1, 0, 2) @ b.mT  # a product for each head, of all rows
        shifted: Tensor = y.transpose(1, 0, 2).reshape(*x.shape[:-1], place.n_out)
        return shifted

    def low_rank(self, place: Any, p: Mapping[str, Array]) -> LowRank:
        a, b = p["lora_a"].reshape(-1, place.n_in), p["lora_b"]
        size = place.n_out // self.heads
        wide = np.zeros((place.n_out, self.row_rank(place)), b.dtype)
        for h, own in enumerate(b):
            wide[h * size : (h + 1) * size, h * self.r : (h + 1) * self.r] = own
        return LowRank(a, wide)

    def row_rank(self, place: Any) -> int:
        return self.heads * self.r

    def delta(self, place: Any, p: Leaves) -> Tensor:
        found: Tensor = (p["lora_b"] @ p["lora_a"]).reshape(place.n_out, place.n_in)
        return found
