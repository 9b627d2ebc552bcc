"""Attention to new positions and to those that a cache holds, which stays where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, differ, kind
from ..core.activation import Tanh
from ..core.choice import Where
from ..core.creation import Arange
from ..core.joining import Concat
from ..core.movement import Cast
from ..layers.nn import Softmax
from .flash import FlashAttention
from .tiled import is_large, low_of
from .weights import check_heads, group_average, group_scores, scale_of


class CachedAttention(Op):
    """Attention to positions of a cache, as far as it is filled, and to new ones up to each.

    y = softmax(softcap(query @ [past_key, key]ᵀ·scale)) @ [past_value, value]

    query: f32[B, Hq, T, E], key: f32[B, H, T, E], value: f32[B, H, T, D], of new positions;
    past_key: f32[B, H, S, E] and past_value: f32[B, H, S, D], of which ``filled``: i64[B] exist.
    New position i stands at filled + i, and sees the ``window_size`` last ones up to itself.

    Returns y: f32[B, Hq, T, D] and the weights f32[B, Hq, T, S + T]. Few new positions meet the
    cache without a copy of it; where nobody reads the weights of many, they are made tile by tile.
    Raises ShapeError for keys, values and caches that are not in step.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, old = g.constant([[[[1.0]]]]), g.constant([[[[1.0], [9.0]]]])
    >>> y, _ = gw.nn.cached_attention(x, x, x * 3.0, old, old, g.constant([1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0]]]]
    """

    namespace = "nn"
    returns = "y", "weights"
    drawing = "linear"
    autocast = Autocast.ATTENTION
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    softcap: float | None = attr(None, doc="c in c·tanh(scores/c); None is none.")
    window_size: int | None = attr(None, doc="How many positions each sees, itself among them.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        past_key: TensorSpec,
        past_value: TensorSpec,
        filled: TensorSpec,
    ) -> tuple[TensorSpec, TensorSpec]:
        check_heads(query, key, value)
        check_heads(query, past_key, past_value)
        if differ(query.shape[2], key.shape[2]) or differ(value.shape[3], past_value.shape[3]):
            raise ShapeError(
                "new positions and the cache are not in step",
                need="a key and a value for each query, values as wide as those of the cache",
            )
        if kind(filled.dtype) not in "iu" or filled.rank != 1:
            raise DTypeError("filled is no vector of integers", need="i64[B]")
        if differ(filled.shape[0], query.shape[0]):
            raise ShapeError("filled does not fit", need=f"i64[{query.shape[0]}]")
        if self.window_size is not None and self.window_size < 1:
            raise ShapeError(f"a window of {self.window_size} keys shows nothing", need="1 or more")
        b, n, t, _ = query.shape
        weights = query.with_shape((b, n, t, past_key.shape[2] + t))
        return query.with_shape((b, n, t, value.shape[3])), weights

    def expand(
        self, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, filled: Any
    ) -> Any:
        n_old, n_new, reach = past_key.shape[2], query.shape[2], self.window_size
        old, new = Arange(start=n_old)(), Arange(start=n_new)()
        known, seen = old[None] < filled[:, None], new <= new[:, None]
        if reach is None:
            known = known[:, None, None]
        else:
            begins = filled[:, None] + new - reach  # the last that is not seen any more
            known = (known[:, None] & (old > begins[:, :, None]))[:, None]
            seen = seen & (new > new[:, None] - reach)
        q = query * scale_of(self.scale, query.shape[3])
        of_old, of_new = group_scores(q, past_key), group_scores(q, key)
        if (cap := self.softcap) is not None:
            of_old, of_new = (Tanh()(s / cap) * cap for s in (of_old, of_new))
        hide, hidden = Where(), low_of(query.dtype)
        of_old, of_new = of_old + hide(known, 0.0, hidden), of_new + hide(seen, 0.0, hidden)
        weights = Softmax()(Concat(axis=-1)(of_old, of_new))
        specs = query.spec, query.spec.with_shape((*key.shape[:2], n_old + n_new, 1))
        if self.softcap is None and is_large(*specs):
            y = self._tiled(query, key, value, past_key, past_value, filled)
        else:
            y = group_average(weights[..., :n_old], past_value)
            y = y + group_average(weights[..., n_old:], value)
        like = Cast(dtype=query.dtype)
        return like(y), like(weights)

    def _tiled(
        self, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, filled: Any
    ) -> Any:
        """Return the averages tile by tile, of copies in which new positions follow the cache."""
        n_old, n_new, reach = int(past_key.shape[2]), int(query.shape[2]), self.window_size
        op = FlashAttention(is_causal=True, scale=self.scale, offset=n_old)
        if not n_old:
            return op.replace(left_window_size=(reach or 0) - 1)(query, key, value)
        at, filled = Arange(start=n_old + n_new)(), filled[:, None]
        is_new = at >= n_old
        shown = (at < filled) | is_new
        if reach is None:
            mask = shown[:, None, None]
        else:
            place = Where()(is_new, at - n_old + filled, at)
            begins = filled + Arange(start=n_new)() - reach  # the last that is not seen any more
            mask = (shown[:, None] & (place[:, None] > begins[:, :, None]))[:, None]
        keys, values = Concat(axis=2)(past_key, key), Concat(axis=2)(past_value, value)
        return op(query, keys, values, mask)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        new = draw((2, 4, 3, 2)), draw((2, 2, 3, 2)), draw((2, 2, 3, 1))
        old = draw((2, 2, 4, 2)), draw((2, 2, 4, 1))
        yield Sample((*new, *old, np.array([4, 0])), {"softcap": 0.7})
        yield Sample((*new, *old, np.array([3, 2])), {"window_size": 2, "scale": 0.4})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k, n = TensorSpec((2, 4, 3, 2)), TensorSpec((2, 2, 3, 2)), TensorSpec((2,), "int64")
        old = TensorSpec((2, 2, 5, 2))
        yield ErrorSample((q, old, old, old, old, n), {}, "not in step")
        yield ErrorSample((q, k, k, old, old, k), {}, "no vector of integers")
        yield ErrorSample((q, k, k, old, old, n), {"window_size": 0}, "shows nothing")
