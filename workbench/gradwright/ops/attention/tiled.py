"""What attention tile by tile shares forward and back: settings, tiles, and scores of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Op, attr
from ...spec import TensorSpec, broadcast, differ, kind
from .weights import VisibleKeys, check_heads, check_windows

Array = np.ndarray[Any, Any]
TILED = 1 << 12
"""Scores of a head from which on no more than a tile of them is held: 64 positions. Forward alone
takes 0.77 of the time of whole scores with 64, 0.5 with 512 and 0.34 with 4,096 causal ones; with
what goes back 0.86 to 1, 0.69 and 0.51 (one core of a Sapphire Rapids)."""
FEW = 16
"""Queries below which scores are held: keys are turned for tiles, which takes as long as these."""
LOW = -1e38
"""Stands for scores of hidden keys where a query that sees none gets an average of all."""
Mask = Callable[[slice, slice, slice], Array | None]
"""Gives the mask of some heads, queries and keys."""


def is_large(query: TensorSpec, key: TensorSpec, *others: TensorSpec) -> bool:
    """Tell whether attention is made tile by tile: sizes are known, floats alike, scores many."""
    given = query, key, *others
    return (
        all(s.is_concrete and s.dtype.char in "fd?" and s.size for s in given)
        and len({s.dtype for s in given if s.dtype != np.bool}) == 1
        and int(query.shape[-2]) >= FEW
        and int(query.shape[-2]) * int(key.shape[-2]) >= TILED
    )


def low_of(dtype: Any) -> float:
    """Return what stands for scores of hidden keys in a dtype."""
    return -3e4 if dtype == np.float16 else LOW


def blind(dtype: Any) -> float:
    """Return the score below which nothing distinguishes keys: one more or less is lost in it.

    A query whose sum of weights is below has seen hidden keys alone, and weighs all alike.
    """
    wide = np.float64 if dtype == np.float64 else np.float32
    return -1 / float(np.finfo(wide).eps)


class Tiled(Op, abstract=True):
    """Settings of attention tile by tile, and which tiles there are."""

    is_causal: bool = attr(False, doc="Hide the keys behind each query.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")
    right_window_size: int = attr(-1, doc="How many keys behind a query it sees; -1 is all.")
    tile: int = attr(256, doc="Queries, and keys, of a tile.")
    offset: int | None = attr(
        None, doc="Position of the first query; None: the last ends the keys."
    )
    unseen: str = attr(
        "zeros",
        doc="What queries get that the mask shows no key.",
        choices=("zeros", "nan", "average"),
    )

    def check(
        self, query: TensorSpec, key: TensorSpec, value: TensorSpec, mask: TensorSpec | None
    ) -> None:
        """Refuse inputs that are not in step, and settings without meaning."""
        check_heads(query, key, value)
        check_windows(self.left_window_size, self.right_window_size)
        if self.tile < 1:
            raise GraphError(f"a tile of {self.tile} holds nothing", need="tile >= 1")
        if mask is not None:
            if kind(mask.dtype) not in "bf":
                raise DTypeError(f"attn_mask cannot be {mask.dtype}", need="bool, or a float dtype")
            scores = (*query.shape[:3], key.shape[2])
            joint = broadcast(mask.shape, scores)
            if len(joint) > 4 or any(map(differ, joint, scores)):
                raise ShapeError("attn_mask does not fit", need=f"broadcastable to {list(scores)}")

    def starts(self, n_queries: Any, n_keys: Any) -> Any:
        """Return where the first query stands among the keys."""
        return n_keys - n_queries if self.offset is None else self.offset

    def visible(self, n_queries: Any, n_keys: Any) -> VisibleKeys:
        """Return the rule for who sees whom by position."""
        return VisibleKeys(
            is_causal=self.is_causal,
            left_window_size=self.left_window_size,
            right_window_size=self.right_window_size,
            offset=self.starts(n_queries, n_keys),
        )

    @property
    def reach(self) -> tuple[int, int]:
        """How far queries see to the left and to the right; -1 is all."""
        return self.left_window_size, 0 if self.is_causal else self.right_window_size

    def tiles(self, n_queries: int, n_keys: int) -> Iterator[tuple[slice, list[Any]]]:
        """Yield runs of queries, each with the runs of keys it sees and what is hidden in each.

        That is None where all is seen; what nobody sees is left out.
        """
        offset, (left, right) = self.starts(n_queries, n_keys), self.reach
        for start in range(0, n_queries, self.tile):
            rows = slice(start, min(start + self.tile, n_queries))
            first, last = start + offset, rows.stop - 1 + offset
            low = max(first - left, 0) // self.tile * self.tile if left >= 0 else 0
            high = min(last + right + 1, n_keys) if right >= 0 else n_keys
            parts = []
            for at in range(low, high, self.tile):
                columns = slice(at, min(at + self.tile, high))
                whole = (right < 0 or columns.stop - 1 <= first + right) and (
                    left < 0 or at >= last - left
                )
                hidden = None
                if not whole:
                    back = np.arange(first, last + 1)[:, None] - np.arange(at, columns.stop)
                    hidden = np.zeros(back.shape, bool)
                    if right >= 0:
                        hidden |= back < -right
                    if left >= 0:
                        hidden |= back > left
                parts.append((columns, hidden))
            yield rows, parts

    def runs(self, n_heads: int, share: int, n_queries: int, n_keys: int) -> Iterator[slice]:
        """Yield runs of heads of queries that are computed together: as many as fill a tile.

        A run holds whole groups of heads that share keys, or stays inside one.
        """
        size = min(self.tile, n_queries) * min(self.tile, n_keys)
        most = max(self.tile**2 // max(size, 1), 1)
        step = most // share * share if most >= share else math.gcd(most, share)
        for start in range(0, n_heads, step):
            yield slice(start, min(start + step, n_heads))

    def scores(
        self, q: Array, k: Array, hidden: Array | None, mask: Array | None
    ) -> tuple[Array, Array | None]:
        """Return the scores of a tile, −∞ where hidden, and which of them are no scores."""
        s: Array = q @ k.mT
        like = mask if hidden is None else hidden
        if like is None:
            return s, None
        parts, shut = s.reshape(-1, *like.shape[-2:]), None
        if mask is not None and mask.dtype == bool:
            low, shut = LOW if self.unseen == "average" else -np.inf, ~mask
            np.copyto(parts, s.dtype.type(low), where=shut)
        elif mask is not None:
            parts += mask
        if hidden is not None:
            np.copyto(parts, s.dtype.type(-np.inf), where=hidden)
        return s, shut if shut is None else shut.reshape(s.shape)

    def may_be_blind(self, mask: Any) -> bool:
        """Tell whether queries may see low scores alone, a mask's or those of hidden keys."""
        return mask is not None and (kind(mask.dtype) == "f" or self.unseen == "average")

    def of_nothing(self, mask: Any) -> float:
        """Return the residual of queries that saw no key: weights are e to the score less it."""
        return math.nan if mask is not None and self.unseen != "zeros" else math.inf


def weights(s: Array, lse: Array, n_blind: int) -> Array:
    """Return e to the scores less lse, in place; alike for n keys to whom sees low ones alone."""
    is_blind = lse < blind(lse.dtype) if n_blind else None
    hidden = np.isneginf(s) if is_blind is not None and is_blind.any() else None
    s -= lse
    np.exp(s, out=s)
    if hidden is not None:
        np.copyto(s, np.where(hidden, 0, 1 / n_blind).astype(s.dtype), where=is_blind)
    return s


def mask_of(mask: Array | None, b: int, heads: int, n_queries: int, n_keys: int) -> Mask:
    """Return what gives tiles of a mask ``[B, Hq, T, S]``, of heads of all samples in a row."""
    if mask is None:
        return lambda run, rows, columns: None
    whole = np.broadcast_to(mask, (b, heads, n_queries, n_keys))

    def tile(run: slice, rows: slice, columns: slice) -> Array:
        n = np.arange(run.start, run.stop)
        found: Array = whole[n // heads, n % heads, rows, columns]
        return found

    return tile


def flat(x: Array) -> Array:
    """Return the array with samples and heads on one axis."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def of_run(x: Array, run: slice, share: int) -> Array:
    """Return the heads of keys that a run of heads of queries sees, as a view."""
    return x[run.start // share : -(-run.stop // share)]


def grouped(x: Array, n: int) -> Array:
    """Return [n, share·T, …] for [n·share, T, …]: what sees the same keys, below each other."""
    return x.reshape(n, len(x) // n * x.shape[1], x.shape[2])
