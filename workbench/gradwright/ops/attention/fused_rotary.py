"""Rotary embeddings that make their own angles: of queries and keys at once, twofold, in 3 axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, differ
from ..core.joining import Concat
from ..core.movement import Cast
from .rotary import RopeCosSin, RotatePairs, _Angles


class _Turned(_Angles):
    """Rotation of tensors ``[B, n, T, D]`` by angles made from their positions."""

    interleaved: bool = attr(False, doc="Pairs stand side by side.")
    rotary_dim: int = attr(0, doc="How many features are rotated; 0 is all.")

    def fits(self, x: TensorSpec, positions: TensorSpec, rank: int) -> int:
        """Return how many features are rotated; refuse tensors and positions out of step."""
        if x.rank != 4:
            raise ShapeError("rotary embeddings need heads apart", need="f32[B, n, T, D]")
        dim: Any = self.rotary_dim or x.shape[3]
        self.check(dim, positions)
        if isinstance(x.shape[3], int) and dim > x.shape[3]:
            raise ShapeError(f"{dim} features of {x.shape[3]} cannot be rotated", need="fewer")
        if positions.rank > rank or any(
            map(differ, broadcast(positions.shape, (x.shape[0], x.shape[2])), x.shape[0:3:2])
        ):
            raise ShapeError("positions do not fit", need=f"i64[{x.shape[0]}, {x.shape[2]}]")
        RotatePairs().infer(x, x.with_shape((1,) * 3 + (x.shape[3] // 2,)), x.with_shape((1,)))
        return int(dim)

    def angles(self, op: type[Op], dim: int, dtype: Any, **more: Any) -> Any:
        """Return the op that makes cosines and sines with these settings."""
        own = {k: v for k, v in self.attributes().items() if k in _Angles.attrs}
        wide = dtype if dtype.itemsize >= 4 else np.dtype("float32")
        return op(**{**own, "dim": dim, "dtype": wide, **more})

    def turn(self, x: Any, cos: Any, sin: Any) -> Any:
        """Return x with its first features rotated; the angles are ``[B, T, n]`` or ``[T, n]``."""
        if cos.rank == 3:
            cos, sin = cos[:, None], sin[:, None]
        rotate, n = RotatePairs(interleaved=self.interleaved), self.rotary_dim
        if not n:
            return Cast(dtype=x.dtype)(rotate(x, cos, sin))
        return Cast(dtype=x.dtype)(Concat(axis=3)(rotate(x[..., :n], cos, sin), x[..., n:]))


class FusedRope(_Turned):
    """Queries and keys with rotary position embedding, angles made on the way (Su et al. 2021).

    (y₁, y₂) = (x₁·cos pω − x₂·sin pω, x₁·sin pω + x₂·cos pω) for each pair of features

    query: f32[B, Hq, T, D], key: f32[B, H, T, D], position_ids: i64[B, T], or i64[T]; the settings
    of ``rope_cos_sin``. Returns both, rotated.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q = g.constant([[[[1.0, 0.0], [1.0, 0.0]]]])
    >>> y, _ = gw.nn.fused_rope(q, q, g.constant([0, 1]), name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [[[[1.0, 0.0], [0.5403000116348267, 0.8414999842643738]]]]
    """

    returns = "query", "key"

    def infer(
        self, query: TensorSpec, key: TensorSpec, position_ids: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        if differ(query.shape[-1], key.shape[-1]):
            raise ShapeError("query and key have different features", need="equal last axes")
        for x in (query, key):
            self.fits(x, position_ids, 2)
        return query.with_shape(query.shape), key.with_shape(key.shape)

    def expand(self, query: Any, key: Any, position_ids: Any) -> Any:
        dim = self.rotary_dim or query.shape[3]
        cos, sin = self.angles(RopeCosSin, dim, query.dtype)(position_ids)
        return self.turn(query, cos, sin), self.turn(key, cos, sin)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k = draw((2, 2, 3, 4)), draw((2, 1, 3, 4))
        yield Sample((q, k, np.array([[0, 1, 2], [5, 1, 0]])))
        attrs = {"rotary_dim": 2, "interleaved": True, "scaling": "linear", "factor": 2.0}
        yield Sample((q, k, np.arange(3)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, at = TensorSpec((2, 2, 3, 4)), TensorSpec((2, 3), "int64")
        yield ErrorSample((q, TensorSpec((2, 2, 3, 6)), at), {}, "different features")
        yield ErrorSample((q, q, TensorSpec((2, 3))), {}, "positions are integers")
        yield ErrorSample((q, q, at), {"rotary_dim": 6}, "cannot be rotated")
        yield ErrorSample((q, q, TensorSpec((3, 3), "int64")), {}, "do not broadcast")


class DualRope(_Turned):
    """One tensor rotated twice: by fast angles for near positions, by slow ones for far (Gemma 3).

    local = rope(x, base=``base``), global = rope(x, base=``global_base``)

    x: f32[B, n, T, D], position_ids: i64[B, T], or i64[T]. ``scaling`` and ``factor`` concern the
    global angles. Returns (local, global): layers with a sliding window take the one, layers that
    see everything the other.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 1.0, 0.0, 0.0]]]])
    >>> near, far = gw.nn.dual_rope(x, g.constant([2]), name="y")
    >>> [a.round(3).ravel().tolist()[1::2] for a in g.output({}, near, far).values()]
    [[1.0, 0.019999999552965164], [1.0, 0.0020000000949949026]]
    """

    returns = "local", "global"
    global_base: float = attr(1e6, doc="Base of the global angles.")

    def infer(self, x: TensorSpec, position_ids: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        self.fits(x, position_ids, 2)
        return x.with_shape(x.shape), x.with_shape(x.shape)

    def expand(self, x: Any, position_ids: Any) -> Any:
        dim = self.rotary_dim or x.shape[3]
        near = self.angles(RopeCosSin, dim, x.dtype, scaling="none", attention_factor=None)
        far = self.angles(RopeCosSin, dim, x.dtype, base=self.global_base)
        return tuple(self.turn(x, *make(position_ids)) for make in (near, far))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 1, 2, 4))
        yield Sample((x, np.array([[0, 7], [3, 1]])))
        yield Sample((x, np.arange(2)), {"scaling": "linear", "factor": 8.0, "rotary_dim": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        at = TensorSpec((3,), "int64")
        yield ErrorSample((TensorSpec((2, 3, 4)), at), {}, "need heads apart")
        yield ErrorSample((TensorSpec((2, 1, 3, 5)), at), {}, "make no pairs")


class FusedMrope(_Turned):
    """Rotary embedding of positions in time, height and width at once (Qwen2-VL, Wang et al. 2024).

    Each pair of features turns by one of the three positions: pair k by the axis that
    ``sections`` give it, in turns (t h w t h w …) or, without ``sections_interleaved``, in runs.

    query: f32[B, Hq, T, D], key: f32[B, H, T, D], position_ids: i64[3, B, T], or i64[3, T];
    ``sections`` add up to D/2. Text has three equal positions, for which this is ``fused_rope``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q = g.placeholder("q", (1, 2, 5, 8))
    >>> at = g.placeholder("at", (3, 1, 5), "int64")
    >>> gw.nn.fused_mrope(q, q, at, sections=(2, 1, 1))[0].shape
    (1, 2, 5, 8)
    """

    returns = "query", "key"
    base: float = attr(5e6, doc="The slowest pair turns once in 2π·base positions.")
    sections: tuple[int, ...] = attr((24, 20, 20), doc="Pairs that turn by each axis.")
    sections_interleaved: bool = attr(True, doc="Axes take turns, rather than runs of pairs.")

    def owners(self) -> np.ndarray[Any, Any]:
        """Return the axis by which each pair turns."""
        if not self.sections_interleaved:
            return np.repeat(np.arange(len(self.sections)), self.sections)
        axes = np.zeros(sum(self.sections), np.int64)
        for axis, n in enumerate(self.sections[1:], 1):
            axes[axis : n * len(self.sections) : len(self.sections)] = axis
        return axes

    def infer(
        self, query: TensorSpec, key: TensorSpec, position_ids: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        n = len(self.sections)
        if position_ids.rank not in (2, 3) or differ(position_ids.shape[0], n):
            raise ShapeError(f"there are not {n} positions", need=f"position_ids: i64[{n}, B, T]")
        one = position_ids.with_shape(position_ids.shape[1:])
        found = FusedRope(base=self.base, rotary_dim=self.rotary_dim).infer(query, key, one)
        dim = self.rotary_dim or query.shape[3]
        if min(self.sections, default=0) < 0 or sum(self.sections) * 2 != dim:
            raise ShapeError(
                f"sections {self.sections} are not the {dim} rotated features",
                need=f"counts of pairs that add up to {dim // 2}",
            )
        given = np.bincount(self.owners(), minlength=n)
        if given.tolist() != list(self.sections):
            raise ShapeError(
                f"axes that take turns get {given.tolist()} pairs, not {list(self.sections)}",
                need="sections of nearly equal size, the first the largest",
                hint="sections_interleaved=False",
            )
        return found

    def expand(self, query: Any, key: Any, position_ids: Any) -> Any:
        dim = self.rotary_dim or query.shape[3]
        make = self.angles(RopeCosSin, dim, query.dtype)
        chosen = np.arange(len(self.sections))[:, None] == self.owners()
        lead = (1,) * (position_ids.rank - 1)
        chosen = chosen.reshape(chosen.shape[0], *lead, chosen.shape[1])
        cos, sin = (
            (table * query.graph.constant(chosen.astype(table.dtype))).sum(0)
            for table in make(position_ids)
        )
        return self.turn(query, cos, sin), self.turn(key, cos, sin)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k = draw((1, 2, 2, 8)), draw((1, 1, 2, 8))
        yield Sample((q, k, np.array([[[0, 1]], [[3, 1]], [[2, 0]]])), {"sections": (2, 1, 1)})
        attrs = {"sections": (1, 1, 1), "sections_interleaved": False, "rotary_dim": 6}
        yield Sample((q, k, np.array([[0, 1], [3, 1], [2, 0]])), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, at = TensorSpec((1, 2, 2, 8)), TensorSpec((3, 1, 2), "int64")
        yield ErrorSample((q, q, at), {}, "are not the 8 rotated features")
        yield ErrorSample((q, q, TensorSpec((2, 1, 2), "int64")), {}, "not 3 positions")
        yield ErrorSample((q, q, at), {"sections": (0, 0, 4)}, "axes that take turns get")
