"""Eigenvalues and eigenvectors.

An eigenvector may be multiplied by any number of modulus 1. Here its largest component is real and
positive (the first one, among those within 0.1 % of the largest), so that results are the same on
every machine and every function of them has a gradient. Gradients by vectors need eigenvalues that
differ; what they are where two are equal is said in :mod:`.ties`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample
from ...spec import TensorSpec, kind, promote
from ...spec import dtype as as_dtype
from ..core.creation import Diag, DiagGrad
from ..core.elementwise import Abs, Real, conj, real_part
from ..core.like import ZerosLike
from ..core.movement import Cast
from ..core.quantifiers import Argmax
from ..core.reduce import Max, Sum
from ..core.scatter import ScatterAdd, TakeAlongAxis
from .common import Array, MatrixOp, adjoint, hermitian
from .solutions import Solve
from .ties import SKIP, GapReciprocal, hollow, idle, turn_free

NEAR = 0.999
"""Components this near to the largest count as equally large."""


def phase(v: Array) -> Array:
    """Return per column the phase of its largest component, [..., 1, N]."""
    if not v.size:
        return np.ones((*v.shape[:-2], 1, v.shape[-1]), v.dtype)
    size = np.abs(v)
    place = np.argmax(size >= NEAR * size.max(-2, keepdims=True), -2)[..., None, :]
    pinned = np.take_along_axis(v, place, -2)
    size = np.take_along_axis(size, place, -2)
    found: Array = np.where(size == 0, 1, pinned / np.where(size == 0, 1, size)).astype(v.dtype)
    return found


def unpinned(g: Any, v: Any, turn: Any) -> Any:
    """Return the cotangent of complex columns before their phases were fixed.

    ``turn: [..., 1, N]`` is what flows if all that has the phase of a column turns by i. A turn
    that keeps the largest component real is no freedom, so it is passed on to that component.
    """
    if v.shape[-2] == 0:
        return g
    size = Abs()(v)
    largest = size >= NEAR * Max(axis=-2, keepdims=True)(size)
    place = Argmax(axis=-2, keepdims=True)(Cast(dtype="int8")(largest))
    pinned = Real()(TakeAlongAxis(axis=-2)(v, place))
    return ScatterAdd(axis=-2)(g, place, Cast(dtype=g.dtype)(turn / pinned) * -1j)


def turned(g: Any, v: Any) -> Any:
    """Return Re ⟨g, i·v⟩ per column."""
    return Real()(Sum(axis=-2, keepdims=True)(conj(g) * v * 1j))


class Eigh(MatrixOp):
    """Eigenvalues, in ascending order, and orthonormal eigenvectors of Hermitian matrices.

    (x + xᴴ)/2 = v·diag(w)·vᴴ

    For ``x: f32[..., N, N]``, ``w: f32[..., N]`` and ``v: f32[..., N, N]``, one vector per column,
    its largest component positive. Both triangles of x are read, so that the gradient is Hermitian.
    Where eigenvalues are equal (to 4 roundings of the largest), functions of v alone have the
    gradient of functions of the eigenspaces, as v[:, :2] @ v[:, :2].mT is one of the first; those
    of w and v have NaN, unless nothing flows to the vectors there and the same to both values.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, v = gw.linalg.eigh(g.constant([[2.0, 1.0], [1.0, 2.0]]))
    >>> g.output({}, w)[w.name].round(4).tolist()
    [1.0, 3.0]
    """

    returns = "w", "v"
    finite = True
    spaces: ClassVar[bool] = True
    """Whether a function of v alone is one of spaces; not where w comes in from elsewhere."""

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        self.check(x, square=True)
        w = x.with_shape(x.shape[:-1])
        return real_part(self, w) if kind(x.dtype) == "c" else w, x.with_shape(x.shape)

    def compute(self, *xs: Array) -> Any:
        w, v = np.linalg.eigh(hermitian(xs[0]))
        return w, v * phase(v).conj()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (gw, gv), (w, v) = gs, ys
        inner = ZERO
        if gv is not ZERO:
            if kind(v.dtype) == "c":
                gv = unpinned(gv, v, turned(gv, v))
            along = hollow(adjoint(v) @ gv)
            turn = (along - adjoint(along)) * 0.5
            gap = w[..., None, :] - w[..., :, None]
            if gw is ZERO and self.spaces:
                inner = turn * GapReciprocal(reach=SKIP)(gap, w, turn_free(turn, gv))
            else:
                values = ZerosLike()(w) if gw is ZERO else gw
                inner = turn * GapReciprocal()(gap, w, idle(values, along))
        if gw is not ZERO:
            values = DiagGrad()(gw if gw.dtype == v.dtype else Cast(dtype=v.dtype)(gw), v)
            inner = values if inner is ZERO else inner + values
        back = v @ inner @ adjoint(v)
        return ((back + adjoint(back)) * 0.5,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((np.zeros((2, 0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")


class EighBeside(Eigh):
    """Vectors of ``eigh`` beside eigenvalues from elsewhere: for gradients of those.

    (x + xᴴ)/2 = v·diag(w)·vᴴ
    """

    namespace = "gradient"
    returns = "w", "v"
    drawing = "math"
    autocast = Autocast.FREE
    spaces = False


class Eigvalsh(MatrixOp):
    """Eigenvalues of Hermitian matrices, in ascending order.

    det((x + xᴴ)/2 − w) = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.linalg.eigvalsh(g.constant([[2.0, 1.0], [1.0, 2.0]]), name="w")
    >>> g.output({}, w)["w"].round(4).tolist()
    [1.0, 3.0]
    """

    finite = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Eigh().infer(x)[0]

    def compute(self, *xs: Array) -> Any:
        return np.linalg.eigvalsh(hermitian(xs[0]))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        v = EighBeside()(xs[0])[1]
        return ((v * gs[0][..., None, :]) @ adjoint(v),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from Eigh.samples(rng)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from Eigh.error_samples()


class Eig(MatrixOp):
    """Eigenvalues and eigenvectors of general square matrices; always complex.

    x·v = v·diag(w), |vⱼ| = 1

    For ``x: f32[..., N, N]``, ``w: c64[..., N]`` in LAPACK's order and ``v: c64[..., N, N]``, one
    vector per column, its largest component real and positive. The gradient needs as many
    independent vectors as there are columns, and that by v eigenvalues that differ (Boeddeker et
    al. 2017).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, v = gw.linalg.eig(g.constant([[0.0, 1.0], [-1.0, 0.0]]))
    >>> sorted(g.output({}, w)[w.name].imag.round(4).tolist())
    [-1.0, 1.0]
    """

    returns = "w", "v"
    finite = True

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        self.check(x, square=True)
        wide = promote(x.dtype, as_dtype("complex64"))
        return TensorSpec(x.shape[:-1], wide), x.with_dtype(wide)

    def compute(self, *xs: Array) -> Any:
        wide = promote(xs[0].dtype, as_dtype("complex64"))
        w, v = (y.astype(wide) for y in np.linalg.eig(xs[0]))
        return w, v * phase(v).conj()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (gw, gv), (w, v) = gs, ys
        inner = ZERO
        if gv is not ZERO:
            vh = adjoint(v)
            gv = unpinned(gv, v, turned(gv, v))
            along = vh @ gv
            length = Cast(dtype=v.dtype)(Real()(Diag()(along)))
            turn = hollow(along - (vh @ v) * length[..., None, :])
            gap = conj(w[..., None, :] - w[..., :, None])
            if gw is ZERO:
                inner = turn * GapReciprocal(reach=SKIP)(gap, w, turn_free(turn, gv))
            else:
                inner = turn * GapReciprocal()(gap, w, idle(gw, hollow(along), turn))
        if gw is not ZERO:
            values = DiagGrad()(gw, v)
            inner = values if inner is ZERO else inner + values
        return (Solve()(adjoint(v), inner @ adjoint(v)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((np.zeros((0, 2, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")


class Eigvals(Op):
    """Eigenvalues of general square matrices, in the order of ``eig``; always complex.

    det(x − w) = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.linalg.eigvals(g.constant([[0.0, 1.0], [-1.0, 0.0]]), name="w")
    >>> g.output({}, w)["w"].real.tolist()
    [0.0, 0.0]
    """

    namespace = "linalg"
    autocast = Autocast.FREE

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Eig().infer(x)[0]

    def expand(self, x: Any) -> Any:
        return Eig()(x)[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from Eig.samples(rng)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from Eig.error_samples()
