"""Ops that join tensors, take them apart, and repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import (
    AnyDim,
    Dim,
    TensorSpec,
    differ,
    kind,
    larger,
    normalize_axis,
    promote_all,
    same_dim,
    smaller,
)
from ..numerics.standard import cast, library
from ..numerics.summing import add_up
from .elementwise import promoted
from .like import ReshapeLike, ZerosLike
from .movement import Moving
from .special import widened


def filled(gs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    """Return the cotangents of several outputs with zeros where there is none."""
    return [ZerosLike()(y) if g is ZERO else g for g, y in zip(gs, ys, strict=True)]


class Concat(Moving):
    """Join tensors along an existing axis.

    y = (x₀, x₁, …) along the axis

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.concat([g.placeholder("a", ("B", 2)), g.placeholder("b", (3, 2))]).shape
    (B + 3, 2)
    """

    value_rule = True
    axis: int = attr(0, doc="Axis to join along.")
    array_api = True
    onnx = OnnxRule("Concat", since=13)

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        if not xs:
            raise ShapeError("concat needs at least one tensor")
        axis = normalize_axis(self.axis, xs[0].rank)
        shape = list(xs[0].shape)
        for x in xs[1:]:
            if x.rank != len(shape):
                raise ShapeError("ranks differ", need=f"rank {len(shape)}, got {x.rank}")
            for i, d in enumerate(x.shape):
                what = f"sizes on axis {i}"
                shape[i] = shape[i] + d if i == axis else same_dim(shape[i], d, what)
        return TensorSpec(shape, promote_all(*xs))

    def forward(self, *xs: Any) -> Any:
        joint = promoted(*xs)
        return library(xs[0]).concat([cast(x, joint) for x in xs], axis=self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        parts: Sequence[Cotangent] = SplitLike(axis=self.axis, n=len(xs))(gs[0], *xs)
        return parts

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        def draw(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
            return tuple(map(rng.standard_normal, shapes))

        yield Sample(draw((2, 3), (1, 3)))
        yield Sample(draw((2, 3), (2, 0), (2, 1)), {"axis": -1})
        yield Sample(draw((2,)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 4))), {}, "sizes on axis 1 differ")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "ranks differ")
        yield ErrorSample((TensorSpec(()), TensorSpec(())), {}, "out of range")


class SplitLike(Op):
    """Take ``x`` apart along an axis into ``n`` pieces as long as those of the given tensors.

    yₖ = x[…, Σⱼ₍ⱼ﹤ₖ₎ nⱼ : Σⱼ₍ⱼ≤ₖ₎ nⱼ, …]
    """

    namespace = "gradient"
    returns = ("*parts",)
    many = True
    views = True
    dependence = LINEAR
    axis: int = attr(0, doc="Axis to take apart.")
    n: int = attr(doc="Number of pieces.")

    @property
    def shape_only(self) -> tuple[int, ...]:  # type: ignore[override]
        """All inputs but the first."""
        return tuple(range(1, self.n + 1))

    def infer(self, x: TensorSpec, *likes: TensorSpec) -> tuple[TensorSpec, ...]:
        axis = normalize_axis(self.axis, x.rank)
        total = sum((like.shape[axis] for like in likes), start=0)
        if len(likes) != self.n or differ(total, x.shape[axis]):
            raise ShapeError(
                f"{len(likes)} pieces do not make up axis {axis}",
                need=f"{self.n} pieces of {x.shape[axis]} in all, got {total}",
            )
        return tuple(
            x.with_shape((*x.shape[:axis], like.shape[axis], *x.shape[axis + 1 :]))
            for like in likes
        )

    def forward(self, x: Any, *likes: Any) -> Any:
        ends = np.cumsum([like.shape[self.axis] for like in likes])
        return tuple(np.split(x, ends[:-1], self.axis))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [Concat(axis=self.axis)(*filled(gs, ys))] + [ZERO] * self.n

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, np.ones((2, 1)), np.ones((2, 2))), {"axis": 1, "n": 2})
        yield Sample((x, x), {"n": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)), TensorSpec((3,))), {"n": 1}, "do not make up axis 0")


class Split(Moving):
    """Take a tensor apart along an axis: into equal parts, or into parts of given sizes.

    yₖ = x[…, k·n/parts : (k + 1)·n/parts, …]

    A number that does not divide the axis is refused unless ``uneven`` says which parts are
    smaller: the last, as in ``torch.chunk`` and ONNX (nothing may be left for it), or all but the
    first n mod parts by one, as in ``numpy.array_split`` and ``torch.tensor_split``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 6))
    >>> [str(y.spec) for y in gw.split(x, (1, -1), axis=1)]
    ['f32[B, 1]', 'f32[B, 5]']
    >>> [[y.shape[1] for y in gw.split(x, 4, axis=1, uneven=u)] for u in ("last", "spread")]
    [[2, 2, 2, 0], [2, 2, 1, 1]]
    """

    returns = ("*parts",)
    many = True
    views = True
    value_rule = True
    parts: int | tuple[AnyDim, ...] = attr(doc="Number of equal parts, or sizes (one may be -1).")
    axis: int = attr(0, doc="Axis to take apart.")
    uneven: str = attr(
        "refuse", doc="Which of equal parts are smaller.", choices=("refuse", "last", "spread")
    )
    onnx = OnnxRule("Split", since=13, rename={"parts": "split"})

    def sizes(self, d: AnyDim) -> tuple[AnyDim, ...]:
        """Return the sizes of the parts of an axis of size ``d``."""
        if isinstance(self.parts, int):
            if self.parts < 1:
                raise ShapeError(f"cannot split into {self.parts} parts", need="at least one")
            if self.uneven == "spread":
                return tuple((d + k) // self.parts for k in reversed(range(self.parts)))
            if self.uneven == "last":
                size = (d + (self.parts - 1)) // self.parts
                return tuple(smaller(size, larger(0, d - size * k)) for k in range(self.parts))
            size = d // self.parts
            if differ(size * self.parts, d):
                raise ShapeError(
                    f"{d} is no multiple of {self.parts}",
                    hint='state the sizes, or uneven="last" or "spread"',
                )
            return (size,) * self.parts
        known = [p for p in self.parts if isinstance(p, Dim) or p >= 0]
        rest = d - sum(known, start=0)
        n_free = len(self.parts) - len(known)
        if n_free > 1 or (isinstance(rest, int) and rest < 0) or (not n_free and differ(rest, 0)):
            raise ShapeError(f"sizes {self.parts} do not make up {d}")
        return tuple(p if isinstance(p, Dim) or p >= 0 else rest for p in self.parts)

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        axis = normalize_axis(self.axis, x.rank)
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        return tuple(x.with_shape((*before, size, *after)) for size in self.sizes(x.shape[axis]))

    def forward(self, x: Any) -> Any:
        sizes: Any = self.sizes(x.shape[self.axis])
        return tuple(np.split(x, np.cumsum(sizes, dtype=int)[:-1], self.axis))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Concat(axis=self.axis)(*filled(gs, ys)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((4, 3)),), {"parts": 2})
        yield Sample((rng.standard_normal((2, 5)),), {"parts": (1, 0, -1), "axis": -1})
        yield Sample((rng.standard_normal((0, 2)),), {"parts": 3})
        for uneven in ("last", "spread"):
            yield Sample((rng.standard_normal((5, 1)),), {"parts": 4, "uneven": uneven})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4, 3)),), {"parts": 3}, "no multiple of 3")
        yield ErrorSample((TensorSpec((4, 3)),), {"parts": (1, 2)}, "do not make up 4")
        yield ErrorSample((TensorSpec((4, 3)),), {"parts": (5, -1)}, "do not make up 4")
        yield ErrorSample((TensorSpec((4, 3)),), {"parts": 0}, "cannot split into 0")


class Stack(Moving):
    """Join tensors of one shape along a new axis.

    y[…, k, …] = xₖ[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> gw.stack([x, x], axis=1).shape
    (B, 2, 3)
    """

    value_rule = True
    array_api = True
    axis: int = attr(0, doc="Position of the new axis in the result.")

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        if not xs:
            raise ShapeError("stack needs at least one tensor")
        shape = list(xs[0].shape)
        for x in xs[1:]:
            if x.rank != len(shape):
                raise ShapeError("ranks differ", need=f"rank {len(shape)}, got {x.rank}")
            for i, d in enumerate(x.shape):
                shape[i] = same_dim(shape[i], d, f"sizes on axis {i}")
        shape.insert(normalize_axis(self.axis, len(shape) + 1), len(xs))
        return TensorSpec(shape, promote_all(*xs))

    def forward(self, *xs: Any) -> Any:
        joint = promoted(*xs)
        return library(xs[0]).stack([cast(x, joint) for x in xs], axis=self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        parts: Sequence[Cotangent] = Unstack(axis=self.axis)(gs[0])
        return parts

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal((2, 3))))
        yield Sample(tuple(rng.standard_normal((2, 0)) for _ in range(3)), {"axis": -1})
        yield Sample((rng.standard_normal(()),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "sizes on axis 0 differ")
        yield ErrorSample((TensorSpec((2,)),), {"axis": 2}, "out of range")


class Unstack(Moving):
    """Take a tensor apart along an axis, which goes: one tensor per index.

    yₖ[…] = x[…, k, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rows, columns = gw.unstack(gw.shape_of(g.placeholder("x", ("B", 3))))
    >>> str(rows.spec), rows.spec.value.item()
    ('i64[]', B)
    """

    returns = ("*parts",)
    many = True
    views = True
    value_rule = True
    axis: int = attr(0, doc="Axis to take apart; its size must be known.")

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        axis = normalize_axis(self.axis, x.rank)
        n = x.shape[axis]
        if isinstance(n, Dim) or n == 0:
            raise ShapeError(f"cannot unstack {n} tensors", need="a known size of at least 1")
        return tuple(x.with_shape(x.shape[:axis] + x.shape[axis + 1 :]) for _ in range(n))

    def forward(self, x: Any) -> Any:
        return tuple(np.moveaxis(x, self.axis, 0)[k, ...] for k in range(x.shape[self.axis]))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Stack(axis=self.axis)(*filled(gs, ys)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 1)),), {"axis": -1})
        yield Sample((rng.standard_normal((2,)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((Dim.symbol("B"), 2)),), {}, "known size")


class Tile(Moving):
    """Repeat the whole tensor along axes.

    y[…, i, …] = x[…, i mod n, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tile(g.constant([1, 2]), 2))["tile"].tolist()
    [1, 2, 1, 2]
    """

    is_method = True
    reps: int | tuple[int, ...] = attr(doc="Repeats per axis; as many as axes, or for the last.")
    onnx = OnnxRule("Tile", since=6)

    def paired(self, x: TensorSpec) -> tuple[tuple[int, ...], tuple[AnyDim, ...]]:
        """Return repeats and sizes of all axes of the result."""
        reps = (self.reps,) if isinstance(self.reps, int) else self.reps
        if any(r < 0 for r in reps):
            raise ShapeError(f"cannot repeat {self.reps} times", need="repeats >= 0")
        rank = max(len(reps), x.rank)
        return (1,) * (rank - len(reps)) + reps, (1,) * (rank - x.rank) + x.shape

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x.with_shape([r * d for r, d in zip(*self.paired(x), strict=True)])

    def forward(self, x: Any) -> Any:
        return np.tile(x, self.reps)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        reps, _ = self.paired(xs[0].spec)
        return (TileGrad(reps=reps)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), {"reps": 2})
        yield Sample((rng.standard_normal((2, 1)),), {"reps": (2, 1, 3)})
        yield Sample((rng.standard_normal(()),), {"reps": (2,)})
        yield Sample((rng.standard_normal((0, 2)),), {"reps": (2, 0)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"reps": -1}, "cannot repeat")


class TileGrad(Op):
    """Sum of the repeats that ``tile`` made, in the shape of ``x``.

    y[…, i, …] = Σₖ g[…, k·n + i, …]
    """

    namespace = "gradient"
    shape_only = (1,)
    dependence = LINEAR
    reps: tuple[int, ...] = attr(doc="Repeats per axis of g.")

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        if Tile(reps=self.reps).infer(x).rank != g.rank:
            raise ShapeError("g is not a tiled x", need=f"rank {len(self.reps)}, got {g.rank}")
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:
        sizes = (1,) * (g.ndim - x.ndim) + x.shape
        pairs = [n for pair in zip(self.reps, sizes, strict=True) for n in pair]
        wide = widened(g) if kind(g.dtype) == "f" else g
        y = np.asarray(add_up(wide.reshape(pairs), range(0, 2 * g.ndim, 2)))
        return y.reshape(x.shape).astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ReshapeLike()(Tile(reps=self.reps)(gs[0]), xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((4, 9)), np.ones((2, 3))), {"reps": (2, 3)})
        yield Sample((rng.standard_normal((2, 4)), np.ones((2,))), {"reps": (2, 2)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)), TensorSpec((2, 2))), {"reps": (2,)}, "not a tiled x")
