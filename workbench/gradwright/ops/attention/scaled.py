"""Attention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, broadcast, differ, kind, promote
from ..core.choice import Where
from ..layers.nn import Softmax
from .flash import FlashAttention
from .tiled import is_large, low_of


class CausalMask(Op):
    """Which keys each query may see: those at its own position and before.

    y[i, j] = j ≤ i, of the shape of the last two axes of ``scores``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.causal_mask(g.constant([[0.0, 0.0]])))["causal_mask"].tolist()
    [[True, False]]
    """

    namespace = "nn"
    shape_only = (0,)

    def infer(self, scores: TensorSpec) -> TensorSpec:
        if scores.rank < 2:
            raise ShapeError("causal_mask needs queries by keys", need="two axes or more")
        return TensorSpec(scores.shape[-2:], "bool")

    def forward(self, scores: Any) -> Any:
        return np.tri(*scores.shape[-2:], dtype=bool)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 2, 4), (4, 2), (0, 3)):
            yield Sample((rng.standard_normal(shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs queries by keys")


class ScaledDotProductAttention(Op):
    """Average of values, weighted by how well keys match queries (Vaswani et al. 2017).

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value over the last two axes, with
    query: f32[…, L, E], key: f32[…, S, E], value: f32[…, S, D]; leading axes broadcast.

    A bool ``attn_mask`` says which keys are seen, a floating one is added to the scores, where −∞
    hides. Queries that see no key get zeros, in the result and in the gradient; where ``unseen``
    says so, NaN as in the formula, or the average of all values, as where a low number hides.
    Large scores are made tile by tile, as by ``flash_attention``, and never held.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[1.0], [1.0]]), g.constant([[2.0], [4.0]])
    >>> y = gw.nn.scaled_dot_product_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0], [3.0]]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.ATTENTION
    is_causal: bool = attr(False, doc="Let position i see keys 0 to i only.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    unseen: str = attr(
        "zeros", doc="What queries that see no key get.", choices=("zeros", "nan", "average")
    )

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attn_mask: TensorSpec | None = None,
    ) -> TensorSpec:
        if min(query.rank, key.rank, value.rank) < 2:
            raise ShapeError("attention needs positions by features", need="two axes or more")
        if differ(query.shape[-1], key.shape[-1]):
            raise ShapeError("query and key have different features", need="equal last axes")
        if differ(key.shape[-2], value.shape[-2]):
            raise ShapeError(
                "key and value differ in length", need="key.shape[-2] == value.shape[-2]"
            )
        lead = broadcast(query.shape[:-2], key.shape[:-2])
        if attn_mask is not None:
            lead = self._with_mask((*lead, query.shape[-2], key.shape[-2]), attn_mask)
        dtype = promote(promote(query.dtype, key.dtype), value.dtype)
        if kind(dtype) != "f":
            raise DTypeError(f"attention does not take {dtype}", hint="gw.cast(x, 'float32')")
        return TensorSpec(
            (*broadcast(lead, value.shape[:-2]), query.shape[-2], value.shape[-1]), dtype
        )

    @staticmethod
    def _with_mask(scores: tuple[AnyDim, ...], mask: TensorSpec) -> tuple[AnyDim, ...]:
        """Return the leading axes once the mask has broadcast against the scores."""
        if kind(mask.dtype) not in "bf":
            raise DTypeError(f"attn_mask cannot be {mask.dtype}", need="bool, or a float dtype")
        joint = broadcast(scores, mask.shape)
        if any(map(differ, joint[-2:], scores[-2:])):
            raise ShapeError("attn_mask does not fit", need=f"queries by keys, {scores[-2:]}, or 1")
        return joint[:-2]

    def expand(self, query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        given = query, key, value, *(() if attn_mask is None else (attn_mask,))
        found = self.tiles(*(x.spec for x in given))
        if found is not None:
            tiled, shapes = found
            y = tiled(
                *(x if x.shape == s else x.reshape(*s) for x, s in zip(given, shapes, strict=True))
            )
            shape = *query.shape[:-1], value.shape[-1]
            return y if y.shape == shape else y.reshape(*shape)
        scale = 1 / math.sqrt(int(query.shape[-1])) if self.scale is None else self.scale
        scores = (query * scale) @ key.mT
        # Very low instead of −∞: a row of those would give NaN where zeros are meant.
        hidden = low_of(scores.dtype)
        if self.is_causal and attn_mask is None:  # every query sees the first key
            zero = query.graph.constant(np.zeros((), scores.dtype))
            return Softmax()(scores + Where()(CausalMask()(scores), zero, zero + hidden)) @ value
        seen = None
        if attn_mask is not None and kind(attn_mask.dtype) == "b":
            seen = attn_mask
        elif attn_mask is not None:
            scores = scores + attn_mask
            seen = attn_mask > -math.inf if self.unseen == "zeros" else None
        if self.is_causal:
            causal = CausalMask()(scores)
            seen = causal if seen is None else seen & causal
        if seen is None:
            return Softmax()(scores) @ value
        weights = Softmax()(Where()(seen, scores, -math.inf if self.unseen == "nan" else hidden))
        if self.unseen != "zeros":
            return weights @ value
        return Where()(seen, weights, 0) @ value

    def tiles(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        mask: TensorSpec | None = None,
    ) -> tuple[FlashAttention, list[tuple[int, ...]]] | None:
        """Return what makes scores tile by tile, and the shapes of its inputs; None: all at once.

        It does where `is_large` says so. Heads of queries that share keys may have the axis before
        the last two, where keys and values then have 1. It does not for an average of what a mask
        hides and what lies behind a query, which counts in it: tiles leave that out.
        """
        given = query, key, value, *(() if mask is None else (mask,))
        if not is_large(*given):
            return None
        own, lead = query.shape[:-2], key.shape[:-2]
        share = int(own[-1]) if own and lead == (*own[:-1], 1) else 1
        n_queries, n_keys = int(query.shape[-2]), int(key.shape[-2])
        if (
            (own != lead and share == 1)
            or lead != value.shape[:-2]
            or (self.is_causal and mask is not None and self.unseen == "average")
        ):
            return None
        axes = lead if own == lead else lead[:-1]
        heads = int(axes[-1]) if axes else 1
        of_keys, of_queries = (-1, heads), (-1, heads * share)
        shapes = [of_queries, of_keys, of_keys]
        if mask is not None:
            within = len(own) - len(axes) + min(len(axes), 1)
            found = _flattened(mask, own, within)
            if found is None:
                return None
            shapes.append(found)
        op = FlashAttention(
            is_causal=self.is_causal,
            scale=self.scale,
            unseen=self.unseen,
            offset=0 if self.is_causal and n_queries != n_keys else None,
        )
        sized: list[tuple[int, ...]] = []
        for spec, (many, n) in zip(given, shapes, strict=True):
            rows: Any = spec.shape[-2:] if spec.rank > 1 else (1, *spec.shape)[-2:]
            many = many if many >= 0 else spec.size // (n * math.prod(rows))
            sized.append((many, n, *rows))
        return op, sized

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        q, k, v = (rng.standard_normal(s) for s in ((2, 3, 4), (2, 5, 4), (2, 5, 2)))
        yield Sample((q, k, v))
        yield Sample((q, k, v), {"is_causal": True, "scale": 0.3})
        bias = rng.standard_normal((3, 5))
        yield Sample((q, k, v, bias))
        bias[:2, 1:], bias[2] = -np.inf, -np.inf
        yield Sample((q, k, v, bias), differentiate=(0, 1, 2))
        seen = rng.random((2, 3, 5)) < 0.5
        seen[0, 1] = False
        yield Sample((q, k, v, seen))
        yield Sample((q, k, v, seen), {"unseen": "average"})
        yield Sample((q, k, v, rng.standard_normal((3, 5))), {"unseen": "nan"})
        yield Sample((q[0], k[0], v[0], seen[0]), {"is_causal": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k, v = TensorSpec((2, 3, 4)), TensorSpec((2, 5, 4)), TensorSpec((2, 5, 2))
        yield ErrorSample((q, v, v), {}, "different features")
        yield ErrorSample((q, k, q), {}, "differ in length")
        yield ErrorSample((q, k, v, TensorSpec((5, 3), "bool")), {}, "do not broadcast")
        yield ErrorSample((q, k, v, TensorSpec((3, 5), "int64")), {}, "cannot be int64")


def _flattened(mask: TensorSpec, lead: tuple[AnyDim, ...], within: int) -> tuple[int, int] | None:
    """Return samples and heads of a mask, each all or 1, as the leading axes become these two.

    ``within`` of them are heads. None: some of samples, or of heads, are broadcast and some not.
    """
    own = (1,) * (len(lead) + 2 - mask.rank) + tuple(mask.shape)
    if len(own) > len(lead) + 2:
        return None
    cut = len(lead) - within
    found = []
    for part, whole in ((own[:cut], lead[:cut]), (own[cut:-2], lead[cut:])):
        if part != whole and any(n != 1 for n in part):
            return None
        found.append(math.prod(int(n) for n in part))
    return found[0], found[1]
