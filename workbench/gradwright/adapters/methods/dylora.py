"""DyLoRA: a LoRA of all ranks up to r at once (Valipour et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ... import nn, random
from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.choice import Where
from ...ops.core.identity import StopGradient
from ...ops.core.movement import cast_to
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves
from ..low_rank import LowRank
from ..settings import check_count
from ..site import Site, Use
from .lora import LoRA


@jsonable
@dataclass(frozen=True)
class DyLoRA(LoRA):
    """A low-rank sum whose first b ranks are an adapter of their own (Valipour et al. 2023).

    y = x·Wᵀ + bias + alpha/b·(drop(x)·A₁..ᵦᵀ)·B₁..ᵦᵀ, b drawn anew from 1, …, r by each layer in
    each step of training, and ``active`` else. The scale is alpha/b, counted in blocks.

    With ``block`` ranks are drawn and cut in blocks of that many, and b counts blocks (LyCORIS has
    blocks of 4). With ``frozen`` a step trains the b-th alone, and those before it are constants.
    Merging makes W + alpha/b·B·A of W, with b = ``active``.

    Args:
        r: the largest rank.
        alpha: see the scale.
        block: ranks that are drawn together; it divides r.
        frozen: whether the gradient reaches the drawn block alone.
        active: blocks that count outside of training and in merges; None: all.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 6)) @ g.variable("w", (6, 4), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.DyLoRA(r=4, active=2), where="w")
    >>> [t.shape for t in adapted.parameters]
    [(4, 6), (4, 4)]
    """

    kinds: ClassVar[frozenset[str]] = Adapter.kinds

    block: int = 1
    frozen: bool = True
    active: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rslora or self.lora_bias:
            raise GraphError("DyLoRA scales by alpha/b, and has no bias of B", hint="LoRA()")
        check_count("block", self.block)
        if any(r % self.block for r in (self.r, *self.rank_pattern.values())):
            raise GraphError(f"block={self.block!r} does not divide the rank {self.r}")
        if self.active is not None and not 1 <= self.active <= self.r // self.block:
            raise GraphError(f"active={self.active!r}", need=f"1, ..., {self.r // self.block}")

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        if place.groups > 1:
            raise GraphError(f"DyLoRA cannot stand at {place.name!r}: its convolution has groups")
        return super().variables(place)

    def scale(self, place: Site) -> float:
        return super().scale(place) * self.rank(place) / self._most(place)

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        graph, n = place.weight.graph, self.rank(place) // self.block
        names = ("lora_embedding_A", "lora_embedding_B"), ("lora_A", "lora_B")
        one, other = names[place.kind != "embedding"]
        drawn, still = (
            random.randint((), 1, n + 1),
            graph.constant(self._most(place), dtype="int64"),
        )
        # p=1 drops all in training, and nothing else does
        is_training = nn.dropout(graph.constant(1.0), p=1.0) < 0.5
        b = Where()(is_training, drawn, still)
        each = graph.constant(np.arange(1, n + 1).repeat(self.block))
        own, count = {**p}, cast_to(p[one].dtype, b)
        for name, axis in ((one, 0), (other, 1)):
            leaf = p[name]
            at = each.reshape(*(-1 if i == axis else 1 for i in range(leaf.rank)))
            if self.frozen:
                leaf = Where()(at == b, leaf, StopGradient()(leaf))
            own[name] = Where()(at <= b, leaf, graph.constant(0.0, dtype=leaf.dtype))
        y: Tensor = super().shift(place, use, x, own) * (float(self._most(place)) / count)
        return y

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        whole, n = super().low_rank(place, p), self._most(place) * self.block
        return LowRank(whole.a[:n], whole.b[:, :n], whole.scale)

    def delta(self, place: Site, p: Leaves) -> Tensor:
        n = self._most(place) * self.block
        own = {name: leaf[:n] if name.endswith("_A") else leaf[:, :n] for name, leaf in p.items()}
        if place.kind == "embedding":
            a, b = own["lora_embedding_A"], own["lora_embedding_B"]
        else:
            a, b = own["lora_A"].reshape(n, -1), own["lora_B"].reshape(-1, n)
        whole: Tensor = (b @ a).reshape(*place.shape) * self.scale(place)
        return whole

    def _most(self, place: Site) -> int:
        """Return how many blocks count where nothing is drawn."""
        n = self.rank(place) // self.block
        return n if self.active is None else min(n, self.active)
