"""Linear algebra: products, decompositions, norms, triangles and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.core.movement import cast_to
from .arguments import checked_axis, floating, fresh, joined, lift, op
from .lazy import LazyArray
from .refusals import refusal
from .registry import call, implements
from .shapes import reshape, transpose
from .ufuncs import into

_LINALG = np.linalg


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Product of matrices, of vectors, or of a number with anything."""
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return into(out, np.multiply(x, y))
    if y.ndim <= 2 and x.ndim <= 2:
        return into(out, np.matmul(x, y))
    return into(out, tensordot(x, y, (-1, -2 if y.ndim > 1 else -1)))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Sum product over the last axes."""
    x, y = lift(a), lift(b)
    return np.multiply(x, y) if not x.ndim or not y.ndim else tensordot(x, y, (-1, -1))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Sum product of all elements, the first conjugated."""
    return dot(np.conjugate(reshape(a, -1)), reshape(b, -1))


@implements(np.outer, _LINALG.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of two vectors."""
    return into(out, np.multiply(reshape(a, (-1, 1)), reshape(b, (1, -1))))


@implements(np.tensordot, _LINALG.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum product over chosen axes."""
    x, y = lift(a), lift(b)
    if not isinstance(axes, (tuple, list)):
        axes = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    left, right = (list(v) if isinstance(v, (tuple, list)) else [v] for v in axes)
    left = [checked_axis(i, x.ndim) for i in left]
    right = [checked_axis(i, y.ndim) for i in right]
    tensors = joined([x, y])
    if tensors[0].dtype.kind == "b":
        counts = tensordot(x.astype(np.int64), y.astype(np.int64), (left, right))
        return counts != 0
    made = fresh(op("tensordot", *tensors, axes=(tuple(left), tuple(right))))
    made.scalar = False
    return made


@implements(np.einsum)
def einsum(
    subscripts: Any, *operands: Any, out: Any = None, optimize: Any = False, **o: Any
) -> Any:
    """Einstein's sum."""
    if not isinstance(subscripts, str):
        raise refusal("np.einsum with lists of axes has no op", hint='np.einsum("ij,jk->ik", a, b)')
    dtype = o.pop("dtype", None)
    return into(out, fresh(op("einsum", *joined(operands, dtype), equation=subscripts)))


implements(_LINALG.matmul)(lambda x1, x2, /: np.matmul(lift(x1), x2))
implements(_LINALG.matrix_transpose)(lambda x, /: call(np.swapaxes, x, -1, -2))
implements(_LINALG.vecdot)(lambda x1, x2, /, *, axis=-1: np.vecdot(lift(x1), x2))
implements(_LINALG.multi_dot)(lambda arrays, *, out=None: into(out, _chain(arrays)))


def _chain(arrays: Any) -> Any:
    return fresh(op("multi_dot", *joined(arrays)))


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Product of all pairs of elements, block by block."""
    x, y = lift(a), lift(b)
    n = max(x.ndim, y.ndim)
    left, right = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    wide = [(d, 1) for d in left], [(1, d) for d in right]
    u, v = (reshape(t, [d for pair in w for d in pair]) for t, w in zip((x, y), wide, strict=True))
    return reshape(u * v, [d * e for d, e in zip(left, right, strict=True)])


@implements(np.cross, _LINALG.cross)
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Vector product of vectors of three."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = call(np.moveaxis, a, axisa, -1), call(np.moveaxis, b, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise refusal("np.cross of vectors of two has no op", need="vectors of three")
    parts = [x[..., i - 2] * y[..., i - 1] - x[..., i - 1] * y[..., i - 2] for i in range(3)]
    return call(np.stack, parts, axis=axisc)


# -- triangles and diagonals -----------------------------------------------------------------------


def _triangle(name: str) -> Any:
    def triangle(m: Any, k: int = 0) -> Any:
        x = lift(m)
        if x.ndim == 1:
            x = call(np.broadcast_to, x, (x.shape[0], x.shape[0]))
        return fresh(op(name, x.tensor, k=int(k)))

    return triangle


implements(np.tril)(_triangle("tril"))
implements(np.triu)(_triangle("triu"))


@implements(np.diagonal, _LINALG.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Elements of a diagonal, which numpy lets nobody write."""
    x = lift(a)
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = checked_axis(axis1, x.ndim), checked_axis(axis2, x.ndim)
    rest = [k for k in range(x.ndim) if k not in (i, j)]
    found = fresh(op("diag_part", transpose(x, (*rest, i, j)).tensor, k=int(offset)))
    found.shadow.flags.writeable = False
    return found


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """Diagonal of a matrix, or the matrix with this diagonal."""
    x = lift(v)
    return fresh(op("diag", x.tensor, k=int(k))) if x.ndim == 1 else diagonal(x, k)


implements(np.diagflat)(lambda v, k=0: diag(reshape(v, -1), k))


@implements(np.trace)
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """Sum of a diagonal."""
    return call(np.sum, diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


implements(_LINALG.trace)(
    lambda x, /, *, offset=0, dtype=None: trace(x, offset, -2, -1, dtype=dtype)
)


# -- np.linalg -------------------------------------------------------------------------------------


def _named(name: str, tensors: Any) -> Any:
    """Return several results under the names that numpy gives them."""
    kind: Any = getattr(np.linalg._linalg, name, None)
    found = tuple(map(fresh, tensors))
    return kind(*found) if kind is not None else found


def _plain(name: str) -> Any:
    def function(a: Any) -> Any:
        return fresh(op(name, floating(lift(a))))

    return function


implements(_LINALG.inv)(_plain("inv"))
implements(_LINALG.det)(_plain("det"))
implements(_LINALG.eigvals)(_plain("eigvals"))
implements(_LINALG.svdvals)(_plain("svdvals"))


@implements(_LINALG.solve)
def solve(a: Any, b: Any) -> Any:
    """Solution of linear equations."""
    x, y = (floating(lift(v)) for v in (a, b))
    left, right = joined([fresh(x), fresh(y)])
    if right.rank == 1:
        return fresh(op("solve", left, op("expand_dims", right, axis=1)))[..., 0]
    return fresh(op("solve", left, right))


@implements(_LINALG.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Triangular root of a positive matrix."""
    return fresh(op("cholesky", floating(lift(a)), upper=upper))


@implements(_LINALG.slogdet)
def slogdet(a: Any) -> Any:
    """Sign and logarithm of the determinant."""
    return _named("SlogdetResult", op("slogdet", floating(lift(a))))


@implements(_LINALG.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal and triangular factor."""
    if mode not in ("reduced", "complete", "r"):
        raise refusal(f"np.linalg.qr with mode={mode!r} has no op", need="reduced or complete")
    found = op("qr", floating(lift(a)), mode="reduced" if mode == "r" else mode)
    return fresh(found[1]) if mode == "r" else _named("QRResult", found)


@implements(_LINALG.svd)
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Singular vectors and values."""
    t = floating(lift(a))
    if not compute_uv:
        return fresh(op("svdvals", t))
    return _named("SVDResult", op("svd", t, full_matrices=full_matrices))


def _symmetric(x: LazyArray, uplo: str) -> Any:
    """Return the symmetric matrix of which numpy reads one triangle."""
    t = fresh(floating(x))
    half = call(np.tril, t, -1) if uplo == "L" else call(np.triu, t, 1)
    mirrored = np.conjugate(call(np.swapaxes, half, -1, -2))
    middle = call(np.tril, call(np.triu, t))
    return (half + middle + mirrored).tensor


@implements(_LINALG.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and vectors of a symmetric matrix."""
    return _named("EighResult", op("eigh", _symmetric(lift(a), UPLO)))


@implements(_LINALG.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of a symmetric matrix."""
    return fresh(op("eigvalsh", _symmetric(lift(a), UPLO)))


@implements(_LINALG.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Pseudo-inverse; small singular values below 1e-15 of the largest count as 0."""
    cut = rcond if rcond is not None else rtol if isinstance(rtol, float) else 1e-15
    if isinstance(cut, LazyArray):
        raise refusal("np.linalg.pinv with a lazy tolerance has no op", hint="static_argnames")
    return fresh(op("pinv", floating(lift(a)), rtol=float(cut)))


@implements(_LINALG.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """Product of a matrix with itself."""
    return fresh(op("matrix_power", lift(a).tensor, n=int(n)))


@implements(_LINALG.matrix_rank)
def matrix_rank(
    A: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,
) -> Any:
    """Number of singular values that are not small."""
    x = lift(A)
    s = fresh(op("svdvals", floating(x)))
    if tol is None:
        share = max(x.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else rtol
        tol = call(np.max, s, axis=-1, keepdims=True) * share
    return call(np.sum, s > tol, axis=-1)


@implements(_LINALG.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norm of vectors or matrices."""
    t = fresh(floating(lift(x)))
    if axis is None:
        if ord is None or (ord in (2, "fro") and t.ndim == (1 if ord == 2 else 2)):
            flat = reshape(t, -1)
            found = np.sqrt(call(np.sum, _squares(flat)))
            return reshape(found, (1,) * t.ndim) if keepdims else found
        axis = tuple(range(t.ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    options: dict[str, Any] = {"axis": tuple(axes), "keepdims": keepdims}
    size = np.abs(t)
    if len(axes) == 1:
        if ord in (None, 2):
            return np.sqrt(call(np.sum, _squares(t), **options))
        if ord in (np.inf, -np.inf):
            return call(np.max if ord > 0 else np.min, size, **options)
        if ord == 0:
            return call(np.sum, size != 0, **options).astype(size.dtype)
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return call(np.sum, size**ord, **options) ** (1.0 / ord)
    if ord in (None, "fro", "f"):
        return np.sqrt(call(np.sum, _squares(t), **options))
    if ord in (1, -1, np.inf, -np.inf):
        rows, columns = (checked_axis(i, t.ndim) for i in axes)
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = call(np.sum, size, axis=first, keepdims=True)
        best = call(np.max if ord > 0 else np.min, sums, axis=second, keepdims=True)
        return best if keepdims else call(np.squeeze, best, (rows, columns))[()]
    raise refusal(
        f"np.linalg.norm of matrices with ord={ord!r} has no op",
        need="'fro', 1, -1, inf or -inf",
        hint="np.linalg.svd(x, compute_uv=False)",
    )


def _squares(x: LazyArray) -> Any:
    return (x.real * x.real + x.imag * x.imag) if x.dtype.kind == "c" else x * x


implements(_LINALG.vector_norm)(
    lambda x, /, *, axis=None, keepdims=False, ord=2: norm(
        reshape(x, -1) if axis is None else x, ord, 0 if axis is None else axis, keepdims
    )
)
implements(_LINALG.matrix_norm)(
    lambda x, /, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims)
)


@implements(_LINALG.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Condition number: the largest singular value over the smallest, by default."""
    if p not in (None, 2, -2):
        return norm(x, p, (-2, -1)) * norm(call(_LINALG.inv, x), p, (-2, -1))
    s = call(_LINALG.svdvals, x)
    return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]


@implements(_LINALG.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Least squares: only the solution is there, the rest of numpy's tuple needs values."""
    raise refusal(
        "np.linalg.lstsq returns residuals whose shape depends on values",
        hint="np.linalg.pinv(a) @ b, or np.linalg.solve(a.T @ a, a.T @ b)",
    )


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """Covariances of rows."""
    if y is not None or fweights is not None or aweights is not None:
        raise refusal("np.cov with y or weights has no op", hint="np.vstack((m, y))")
    given = lift(m)
    joint = np.result_type(given.dtype, np.float64) if dtype is None else np.dtype(dtype)
    x = call(np.atleast_2d, fresh(cast_to(joint, given.tensor)))
    x = x if rowvar or x.shape[0] == 1 else x.T
    n = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    d = x - call(np.mean, x, axis=1, keepdims=True)
    found = np.matmul(d, np.conjugate(d.T)) * (1 / n)
    return call(np.squeeze, found)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Correlations of rows."""
    c = cov(x, y, rowvar, dtype=dtype)
    d = np.sqrt(call(np.diag, c).real)
    return call(np.clip, c / d[:, None] / d[None, :], -1, 1)


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers as columns."""
    t = lift(x)
    n = t.shape[0] if N is None else N
    exponents = np.arange(n) if increasing else np.arange(n)[::-1]
    return t[:, None] ** exponents
