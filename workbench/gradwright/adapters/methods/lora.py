"""LoRA: a product of two thin matrices beside a frozen one (Hu et al. 2021)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ... import nn
from ...errors import GraphError, ShapeError
from ...graph import Graph, Tensor
from ...init import normal, uniform
from ...ops.convolutions.cnn import Convolution
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves, computed
from ..initial import chosen as initial
from ..initial.eva import explained
from ..low_rank import LowRank
from ..settings import check_ranks, check_share, rank_at, scale_at
from ..site import Site, Use, sites
from ..targeting import of_pattern

Array = np.ndarray[Any, Any]


@jsonable
@dataclass(frozen=True)
class LoRA(Adapter):
    """A low-rank sum with a weight (Hu et al. 2021, "LoRA"; Kalajdzievski 2023, "rsLoRA").

    y = x·Wᵀ + bias + s·(drop(x)·Aᵀ)·Bᵀ, with W: f32[out, in], A: f32[r, in], B: f32[out, r] and
    s = alpha/r, or alpha/√r with ``rslora``.

    Of an embedding y = E[ids] + s·Aᵀ[ids]·Bᵀ with A: f32[r, rows], B: f32[dim, r]; of a convolution
    A is one of r channels out, like the layer's but of one group, and B one of 1×1 by groups. Of n
    experts A: f32[n·r, in] and B: f32[out, r·n], whose last axis counts experts fastest. Layers
    that do more than multiply, such as recurrent ones, read W + s·B·A, which merging makes of W.

    Args:
        r: the rank.
        alpha: the scale is alpha/r.
        dropout: on the way to A alone.
        rslora: whether the scale is alpha/√r.
        init: ``True``: A uniform in ±1/√in, B zero; ``"gaussian"``: A normal of deviation 1/r;
            ``False``: B is not zero either. In all but the last the model is what it was, and it is
            with ``"orthogonal"`` (B·A = 0) and where A and B are taken off the weight:
            ``"pissa"``, its leading directions, with ``"pissa_niter_16"`` found by so many
            iterations, and ``"olora"``. ``"loftq"`` or ``LoftQ(...)`` makes up for quantising,
            ``"eva"`` or ``EVA(...)`` looks at inputs.
        bias: which biases are trained, too: ``"none"``, ``"all"``, or ``"only"`` of these layers.
        lora_bias: whether B has a bias of its own.
        rank_pattern: ranks of some places by pattern.
        alpha_pattern: alphas likewise.

    Raises ShapeError for a rank that is larger than the weight, or that groups do not divide.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=2, alpha=4), where="w")
    >>> [(t.name, t.shape) for t in g.trainable]
    [('w/default/lora_A', (2, 3)), ('w/default/lora_B', (2, 2))]
    """

    kinds: ClassVar[frozenset[str]] = Adapter.kinds | {"experts", "recurrent"}
    by_row = "sum"

    r: int = 8
    alpha: float = 8
    dropout: float = 0.0
    rslora: bool = False
    init: bool | str | initial.LoftQ | initial.EVA = True
    bias: str = "none"
    lora_bias: bool = False
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ranks(self)
        check_share("dropout", self.dropout)
        if self.bias not in ("none", "all", "only"):
            raise GraphError(f"bias={self.bias!r} is not known", need="'none', 'all' or 'only'")
        initial.check(self.init)

    @property
    def reads_weights(self) -> bool:  # type: ignore[override]
        """Whether first values depend on the weight."""
        return initial.is_read(self.init)

    def rank(self, place: Any) -> int:
        """Return the rank at a place."""
        return rank_at(self, place)

    def scale(self, place: Any) -> float:
        """Return the factor of B·A at a place."""
        scale = scale_at(self, place)
        return scale * math.sqrt(self.rank(place)) if self.rslora else scale

    def thaws(self, places: Sequence[Site], sites: Sequence[Site]) -> Sequence[Tensor]:
        if self.bias == "none":
            return ()
        chosen = sites if self.bias == "all" else places
        found = [use.bias for place in chosen for use in place.uses if use.bias is not None]
        if self.bias == "all":
            found += [t for t in places[0].weight.graph.variables if is_bias(t.name)]
        return list(dict.fromkeys(found))

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        r, kernel = self.rank(place), place.kernel
        most = min(place.n_out, place.n_in * math.prod(kernel))
        if r > most:
            raise ShapeError(
                f"rank {r} is larger than the weight {place.name!r} allows",
                facts=[f"it is [out, in] = {[place.n_out, place.n_in, *kernel]}"],
                need=f"r <= {most}",
                hint=f"rank_pattern={{{place.name!r}: {most}}}",
            )
        if place.kind == "embedding":
            first = 0.0 if self.init else normal()
            return {
                "lora_embedding_A": Leaf((r, place.n_in), first),
                "lora_embedding_B": Leaf((place.n_out, r), normal()),
            }
        if r % place.groups:
            raise ShapeError(
                f"rank {r} does not split into the {place.groups} groups of {place.name!r}",
                need=f"a multiple of {place.groups}",
                hint=f"rank_pattern={{{place.name!r}: {place.groups}}}",
            )
        if (self.dropout or self.lora_bias) and not is_beside(place):
            raise GraphError(
                f"{place.uses[0].node.op.name} reads {place.name!r} and does more than multiply",
                facts=[f"dropout={self.dropout}, lora_bias={self.lora_bias}"],
                need="dropout=0 and no lora_bias, where the weight itself is changed",
            )
        # an op that does more than multiply reads the sum of the weights, so A is of their groups
        n_in = place.n_in if is_beside(place) else place.shape[1]
        wide, thin = 1 / math.sqrt(n_in * math.prod(kernel)), 1 / math.sqrt(r // place.groups)
        a = normal(std=1 / r) if self.init == "gaussian" else uniform(low=-wide, high=wide)
        b = 0.0 if self.init else uniform(low=-thin, high=thin)
        n = place.count or 1
        leaves = {
            "lora_A": Leaf((n * r, n_in, *kernel), a),
            "lora_B": Leaf((place.n_out, n * r // place.groups, *(1 for _ in kernel)), b),
        }
        if self.lora_bias:
            leaves["lora_B.bias"] = Leaf((place.n_out,), b)
        return leaves

    def surveyed(
        self, places: Sequence[Any], data: Any = None
    ) -> tuple[Adapter, Sequence[Any], Mapping[str, Mapping[str, Array]]]:
        eva = initial.eva_of(self.init)
        if eva is None:
            return self, places, {}
        if data is None:
            raise GraphError("EVA looks at inputs of layers", need="data=[{...}, ...], feeds")
        seen = [p for p in places if p.kind == "linear" and is_beside(p)]
        found = explained(seen, {p.name: self.rank(p) for p in seen}, data, eva)
        ranks = {n: r for n, r in found.ranks.items() if r}
        alphas: dict[str, float] = {}
        if eva.adjust_scaling_factors:
            alphas = {
                p.name: of_pattern(self.alpha_pattern, p.name, self.alpha)
                * (ranks[p.name] / self.rank(p))
                for p in seen
                if p.name in ranks
            }
        made = replace(
            self,
            rank_pattern={**ranks, **self.rank_pattern},
            alpha_pattern={**alphas, **self.alpha_pattern},
        )
        left = [p for p in places if found.ranks.get(p.name, 1)]
        first = {n: {"lora_A": found.directions(n, whiten=eva.whiten)} for n in ranks}
        return made, left, first

    def prepare(
        self, place: Site, w: Array, data: Any = None
    ) -> tuple[Mapping[str, Array], Array | None]:
        if not initial.is_read(self.init):
            return {}, None
        if place.groups > 1 or place.count:
            n = place.count or place.groups
            raise GraphError(
                f"{place.name!r} is {n} weights, which have no such values",
                facts=[f"init={self.init!r}"],
                hint="init=True",
            )
        leaves, flat = self.variables(place), w.reshape(len(w), -1)
        names = [name for name in leaves if name.endswith(("_A", "_B"))]
        original = self._original(place, data)
        found = initial.first(
            self.init, place.name, flat, self.rank(place), self.scale(place), original
        )
        values = {
            name: array.reshape(leaves[name].shape)
            for name, array in zip(names, (found.a, found.b), strict=True)
        }
        return values, None if found.base is None else found.base.reshape(w.shape)

    def generating(self) -> LoRA:
        return replace(self, init=True)  # values are those of the model's graph

    def _original(self, place: Site, data: Any) -> Array | None:
        """Return what a quantised weight was made of, where LoftQ is to make up for that."""
        is_loftq = self.init == "loftq" or isinstance(self.init, initial.LoftQ)
        if not (is_loftq and place.packed):
            return None
        graph = data if isinstance(data, Graph) else getattr(data, "graph", None)
        held = [] if graph is None else [s for s in sites(graph) if s.name == place.name]
        if not held:
            raise GraphError(
                f"{place.name!r} is {place.packed} already: LoftQ needs what it was made of",
                need="data=the model of floats",
            )
        return held[0].array()

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        s = self.scale(place)
        y: Tensor
        if place.kind == "embedding":
            a, b = p["lora_embedding_A"], p["lora_embedding_B"]
            return _scaled(nn.embedding(x, a.mT), s) @ b.mT
        x = nn.dropout(x, p=self.dropout) if self.dropout else x
        if place.kind == "conv":
            wide, thin = _convolutions(use, place.groups)
            y = thin(_scaled(wide(x, p["lora_A"]), s), p["lora_B"])
        elif place.kind == "experts":
            a, b = self._several(place, p)
            y = nn.grouped_matmul(
                _scaled(nn.grouped_matmul(x, a.mT, use.sizes), s), b.mT, use.sizes
            )
        else:
            y = _scaled(x @ p["lora_A"].mT, s) @ p["lora_B"].mT
        bias = p.get("lora_B.bias")
        if bias is None:
            return y
        last = place.kind in ("linear", "experts") or use.node.op.attributes()[
            "data_format"
        ].endswith("C")
        ones = (1,) * len(place.kernel)
        y = y + _scaled(bias if last else bias.reshape(-1, *ones), s)
        return y

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        if "lora_B.bias" in p:
            raise GraphError("B has a bias, in which rows do not differ", need="lora_bias=False")
        kind = "lora_embedding" if place.kind == "embedding" else "lora"
        return LowRank(p[f"{kind}_A"], p[f"{kind}_B"], self.scale(place))

    def row_rank(self, place: Any) -> int:
        return self.rank(place)

    def delta(self, place: Site, p: Leaves) -> Tensor:
        if place.kind == "embedding":
            return _scaled(p["lora_embedding_B"] @ p["lora_embedding_A"], self.scale(place))
        if place.groups > 1:
            raise GraphError(
                f"the adapter of {place.name!r} sees all {place.groups} groups of its convolution",
                need="groups=1, to be one weight with it",
            )
        if place.count:
            a, b = self._several(place, p)
            return _scaled(b @ a, self.scale(place))
        a, b, r = p["lora_A"], p["lora_B"], self.rank(place)
        product = b.reshape(-1, r) @ a.reshape(r, -1)
        return _scaled(product.reshape(*place.shape), self.scale(place))

    def _several(self, place: Site, p: Leaves) -> tuple[Tensor, Tensor]:
        """Return A of each weight, f32[n, r, in], and B, f32[n, out, r]."""
        n, r = place.count, self.rank(place)
        a = p["lora_A"].reshape(n, r, place.n_in)
        b = p["lora_B"].reshape(place.n_out, r, n)
        return a, b.transpose(2, 0, 1)

    def merge(
        self, place: Site, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        more = p.get("lora_B.bias")
        if more is None:
            return super().merge(place, w, bias, p)
        if bias is None:
            raise GraphError(
                f"{place.name!r} has no bias that the adapter's could become part of",
                need="a layer with a bias, or LoRA(lora_bias=False)",
            )
        merged = computed(lambda t, q: self.changed(place, t, q), w, p)
        return merged, (bias + self.scale(place) * more).astype(bias.dtype)


def is_bias(name: str) -> bool:
    """Tell whether a name is that of a bias: ``bias``, or what ends so.

    >>> [is_bias(name) for name in ("layer0/q_bias", "fc.bias", "biased")]
    [True, True, False]
    """
    return re.search(r"(?:^|[/._])bias$", name) is not None


def is_beside(place: Site) -> bool:
    """Tell whether all uses of a weight are products, beside which an adapter stands."""
    return all(use.output is not None for use in place.uses)


def _convolutions(use: Use, groups: int) -> tuple[Convolution, Convolution]:
    """Return the op of A, which slides as the layer does, and of B."""
    op = use.node.op
    assert isinstance(op, Convolution)
    first = type(op).attrs["weights_format"].default
    wide = op.replace(groups=1, weights_format=first)
    thin = type(op)(data_format=op.attributes()["data_format"], groups=groups)
    assert isinstance(wide, Convolution) and isinstance(thin, Convolution)
    return wide, thin


def _scaled(y: Tensor, scale: float) -> Tensor:
    return y if scale == 1 else y * scale
