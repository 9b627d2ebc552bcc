"""numpy's functions on lazy arrays: values, dtypes and shapes are those of numpy itself."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gradwright as gw
from gradwright.errors import TraceError

DTYPES = ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "complex64")
WITHOUT_OP = ("frexp", "isnat", "nextafter", "spacing")
MATRICES = ("matmul", "matvec", "vecmat", "vecdot")
UFUNCS = sorted(
    {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc)} - {*WITHOUT_OP, *MATRICES}
)
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "complex64": 2e-5}


def data(dtype: str, n: int = 6, seed: int = 0) -> np.ndarray:
    rng, d = np.random.default_rng(seed), np.dtype(dtype)
    if d.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if d.kind in "iu":
        x = rng.integers(1 if d.kind == "u" else -5, 7, n)
        return np.where(x == 0, 2, x).astype(d)
    if d.kind == "f":
        return rng.uniform(-2, 2, n).astype(d)
    return (rng.uniform(-2, 2, n) + 1j * rng.uniform(-2, 2, n)).astype(d)


def outcome(fn: Any, args: Any) -> Any:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        try:
            return fn(*copies)
        except Exception as error:
            return error


def leaves(value: Any) -> list[Any]:
    many = isinstance(value, (tuple, list))
    return [x for v in value for x in leaves(v)] if many else [value]


def same(fn: Any, *args: Any) -> None:
    """Assert that a function does the same traced and plain: results, or an error in both."""
    want, got = outcome(fn, args), outcome(gw.compile(fn), args)
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"numpy raises {want!r}, traced code gives {got!r}"
        return
    if isinstance(got, Exception):
        raise got
    assert len(leaves(want)) == len(leaves(got))
    for a, b in zip(leaves(want), leaves(got), strict=True):
        assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray), (type(a), type(b))
        x, y = np.asarray(a), np.asarray(b)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        names = [x.dtype.name, *(v.dtype.name for v in args if isinstance(v, np.ndarray))]
        tolerance = max(TOLERANCE.get(n, 1e-10) for n in names)
        if x.dtype.kind in "biufc":
            np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_have_the_dtypes_and_values_of_numpy(name: str) -> None:
    ufunc = getattr(np, name)
    for dtype in DTYPES:
        x = data(dtype)
        if ufunc.nin == 1:
            same(ufunc, x)
            continue
        for other in DTYPES:
            same(ufunc, x, data(other, seed=1))
        for number in (2, 1.5, True, np.float32(1.5), np.int8(2)):
            same(lambda x, n=number: ufunc(x, n), x)
            same(lambda x, n=number: ufunc(n, x), x)
        same(ufunc, x, 1.5)  # a number that differs between calls


@pytest.mark.parametrize("name", [n for n in WITHOUT_OP if n != "isnat"])
def test_a_ufunc_without_an_op_says_so(name: str) -> None:
    ufunc = getattr(np, name)
    with pytest.raises(TraceError, match=f"np.{name} has no op"):
        gw.compile(lambda x: ufunc(*[x] * ufunc.nin))(np.ones(2))


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_ufuncs(name: str) -> None:
    if not hasattr(np, name):
        pytest.skip("numpy is older")
    rng = np.random.default_rng(0)
    matrix, vectors = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3))
    inputs = {"matmul": (matrix, matrix), "matvec": (matrix, vectors)}
    inputs |= {"vecmat": (vectors, matrix), "vecdot": (vectors, vectors)}
    a, b = inputs[name]
    same(getattr(np, name), a, b)
    same(getattr(np, name), a.astype(np.float32), b)
    same(getattr(np, name), a + 1j, b.astype(np.complex64))


REDUCTIONS = (
    *(
        [
            "sum",
            "prod",
            "mean",
            "max",
            "min",
            "any",
            "all",
            "std",
            "var",
            "cumsum",
            "cumprod",
            "argmax",
            "argmin",
            "sort",
            "argsort",
        ]
    ),
    *(
        [
            "median",
            "ptp",
            "count_nonzero",
            "nansum",
            "nanmean",
            "nanmax",
            "nanmin",
            "average",
            "nanprod",
        ]
    ),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "float64"])
def test_reductions(name: str, dtype: str) -> None:
    function, x = getattr(np, name), data(dtype, 12).reshape(3, 4)
    same(function, x)
    for axis in (0, -1):
        same(lambda x, axis=axis: function(x, axis=axis), x)
    if "keepdims" in inspect.signature(function).parameters and "arg" not in name:
        same(lambda x: function(x, axis=(0, 1), keepdims=True), x)
    same(lambda x: function(x, axis=5), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name",
    [
        "nansum",
        "nanmean",
        "nanmax",
        "nanmin",
        "nanstd",
        "nanvar",
        "nanprod",
        "nanargmax",
        "nancumsum",
    ],
)
def test_reductions_without_nan(name: str) -> None:
    x = data("float64", 12).reshape(3, 4)
    x[0, 1] = x[2, 3] = np.nan
    same(getattr(np, name), x)
    same(lambda x: getattr(np, name)(x, axis=1), x)


EXPRESSIONS = """
x.T | x.reshape(2, 6) | x.reshape(-1) | x.reshape((4, -1)) | x.ravel() | x.flatten() | x.mT
np.swapaxes(x, 0, 1) | np.moveaxis(x, 0, -1) | np.expand_dims(x, (0, 2)) | np.squeeze(x[None])
np.broadcast_to(x, (2, 3, 4)) | np.tile(x, 2) | np.tile(x, (2, 1, 2)) | np.repeat(x, 2)
np.repeat(x, 3, axis=1) | np.repeat(x, [1, 2, 0], axis=0) | np.roll(x, 2) | np.roll(x, 1, axis=0)
np.roll(x, (1, 2), axis=(0, 1)) | np.flip(x) | np.flip(x, 0) | np.fliplr(x) | np.flipud(x)
np.rot90(x) | np.rot90(x, 2) | np.rot90(x, 3) | np.pad(x, 1) | np.pad(x, ((1, 2), (0, 1)))
np.pad(x, 1, mode="edge") | np.pad(x, 2, mode="reflect") | np.pad(x, 2, mode="wrap")
np.pad(x, 2, mode="symmetric") | np.pad(x, ((0, 0), (1, 1)), constant_values=3)
np.concatenate([x, x]) | np.concatenate([x, x], axis=1) | np.concatenate([x, x], axis=None)
np.stack([x, x], axis=1) | np.vstack([x, x]) | np.hstack([x, x]) | np.dstack([x, x])
np.column_stack([x[0], x[1]]) | np.split(x, 2, axis=1) | np.split(x, [1], axis=0)
np.array_split(x, 3, axis=1) | np.hsplit(x, 2) | np.append(x, x) | np.append(x, x, axis=0)
np.where(x > 0, x, 0) | np.where(x > 0, 1, -1) | np.where(x, 1.5, x) | np.clip(x, -1, 1)
np.clip(x, None, 0.5) | x.clip(0) | np.take(x, [0, 2], axis=1) | np.take(x, [1, -1])
np.take_along_axis(x, np.argsort(x, axis=1), axis=1) | np.tril(x) | np.triu(x, 1) | np.triu(x[0])
np.diag(x) | np.diag(x[0]) | np.diag(x[0], 1) | np.diagonal(x) | np.trace(x) | x.trace()
np.outer(x[0], x[1]) | np.dot(x, x.T) | x @ x.T | x.dot(x[0]) | np.inner(x, x) | np.vdot(x, x)
np.tensordot(x, x, axes=([0, 1], [0, 1])) | np.tensordot(x, x.T, 1) | np.kron(x, x[:2, :2])
np.einsum("ij,ij->i", x, x) | np.einsum("ij,kj->ik", x, x) | np.einsum("ij->ji", x)
np.einsum("ij->", x) | np.cross(x[:, :3], x[:, 1:]) | np.diff(x) | np.diff(x, 2, axis=0)
np.zeros_like(x) | np.ones_like(x, dtype=int) | np.full_like(x, 3) | np.empty_like(x).shape
np.zeros_like(x, shape=(2, 2)) | np.zeros(4, like=x) + x[0] | np.arange(4, like=x) * x
np.round(x) | np.round(x, 1) | x.round(2) | np.isclose(x, x + 1e-9) | np.atleast_2d(x[0])
np.atleast_1d(x[0, 0]) | np.atleast_3d(x) | np.meshgrid(x[0], x[1]) | np.select([x > 1], [x], -1)
np.meshgrid(x[0], x[1], indexing="ij", sparse=True) | np.fix(x) | np.sinc(x) | np.angle(x + 0j)
x[0] | x[:, 1] | x[1:, ::2] | x[..., 0] | x[None] | x[-1, -2] | x[[0, 2]] | x[[0, 1], [1, 2]]
x[:, [0, 2]] | x[np.array([[0, 1], [1, 0]])] | x[x[:, 0] > -9] | x[x > 0] | x[np.eye(3, 4) > 0]
x.astype(np.float32) | x.astype(int) | x.astype(bool) | x.copy() | x.sum(0) | x.mean(1) | x.max()
x.std(axis=0, ddof=1) | abs(x) | -x | +x | x**2 | x**0.5 | x**-1.0 | 2.0**x | x // 2 | x % 2
divmod(x, 2) | x / 2 | x + 1 | 1 - x | x > 0 | x == x | x != 0 | (x > 0) & (x < 1) | ~(x > 0)
x.size | x.ndim | x.shape | len(x) | x.nbytes | x.itemsize | [row.sum() for row in x]
np.size(x, 0) | np.linspace(x[0, 0], x[0, 1], 5) | np.linspace(0, x[0, 1], 5) | np.nan_to_num(x)
np.gradient(x) | np.gradient(x, axis=0) | np.trapezoid(x) | np.trapezoid(x[0], x[1])
np.cov(x) | np.corrcoef(x) | np.percentile(x, 30) | np.percentile(x, [10, 50], axis=0)
np.quantile(x, 0.3, axis=1) | np.histogram(x, bins=np.linspace(-2, 2, 5)) | np.median(x, axis=1)
np.searchsorted(np.sort(x[0]), x[1]) | np.digitize(x, np.array([-1.0, 0.0, 1.0]))
np.linalg.norm(x) | np.linalg.norm(x, axis=1) | np.linalg.norm(x, 1) | np.linalg.norm(x, np.inf)
np.linalg.norm(x, axis=1, ord=1) | np.linalg.norm(x, axis=0, keepdims=True) | np.linalg.norm(x[0])
np.linalg.svd(x, compute_uv=False) | np.linalg.svd(x, full_matrices=False)[1] | np.linalg.pinv(x)
np.linalg.matrix_rank(x) | np.linalg.qr(x).R.shape | np.linalg.vector_norm(x)
np.linalg.matrix_norm(x) | np.add.reduce(x) | np.add.accumulate(x, axis=1)
np.maximum.accumulate(x) | np.multiply.outer(x[0], x[1]) | np.add.reduce(x, axis=None)
np.maximum.reduce(x, axis=1) | np.sum(x, where=x > 0) | np.sum(x, initial=10)
np.max(x, where=x > 0, initial=-9) | np.mean(x, where=x > 0) | np.sum(x, dtype=np.float32)
np.var(x, where=x > -1) | np.cumsum(x, axis=1, dtype=np.float32) | np.max(x[:0], initial=1)
np.average(x, axis=1, weights=np.array([1, 2, 3, 4.0])) | np.average(x, weights=np.abs(x))
np.unique(x) | np.unique(x, return_counts=True) | np.nonzero(x > 0) | np.flatnonzero(x > 0)
np.argwhere(x > 0) | np.extract(x > 0, x) | np.compress([True, False, True], x, axis=0)
np.delete(x, 1, axis=0) | np.insert(x, 1, 5.0, axis=1) | np.resize(x, (2, 5)) | np.vander(x[0], 3)
np.isin(x, [1.0, 2.0]) | np.real(x) | np.imag(x) | x.real | np.unstack(x) | x.repeat(2)
np.choose(np.array([0, 1, 0, 1]), [x[0], x[1]]) | np.broadcast_arrays(x, x[0]) | x.cumsum()
np.float32(2) * x | x * np.array([1, 2, 3, 4]) | x * [1, 2, 3, 4] | x.argmax(axis=1) | x.nonzero()
x.diagonal() | x.swapaxes(0, 1) | x.transpose(1, 0) | x.transpose((1, 0)) | x.take([0]) | x.var()
x.prod() | x.all() | x.any() | x.squeeze() | x.conj() | x.compress([True, False, True], axis=0)
np.stack([x[0], [1, 2, 3, 4]]) | np.array([x[0], x[1]], like=x) | np.rollaxis(x, 1) | np.ptp(x)
np.exp(x, dtype=np.float32) | np.add(x, x, dtype=np.float64) | np.hypot(x, 1)
np.sort(x, axis=None) | np.unravel_index(x.argmax(), x.shape) | np.block([[x, x], [x, x]])
np.block([x[0], x[1]]) | np.convolve(x[0], x[1]) | np.convolve(x[0], x[1, :2], "same") | x.view()
np.convolve(x[0], x[1, :2], "valid") | np.lib.stride_tricks.sliding_window_view(x, 2, axis=1)
np.lib.stride_tricks.sliding_window_view(x, (2, 3)) | np.interp(x, [-1, 0, 1], [0, 1, 3])
np.interp(x[0], np.sort(x[1]), x[2], left=-9) | np.fft.fft(x) | np.fft.rfft(x, axis=0)
np.fft.ifft(x + 1j) | np.fft.irfft(x) | np.fft.fft(x, n=6) | np.fft.fftshift(x)
np.fft.ifftshift(x, 1) | np.ravel_multi_index((x[0].astype(int) % 3, x[1].astype(int) % 4), (3, 4))
x[np.eye(4) > 0] | x[..., np.arange(4) > 1] | x[1:, np.arange(3) > 1] | x[np.eye(3, 4) > 1]
np.max(x[:0]) | np.concatenate([x, x[0]]) | x.reshape(5) | x @ x | x[7] | x[:, :, 0] | x.T + x
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # by numpy 2.5
@pytest.mark.parametrize(
    "text", [e.strip() for e in EXPRESSIONS.replace("\n", "|").split("|") if e]
)
def test_expressions(text: str) -> None:
    fn = eval(f"lambda x: {text}", {"np": np, "divmod": divmod})  # noqa: S307
    for dtype in ("float64", "float32", "int64"):
        same(fn, np.random.default_rng(3).uniform(-3, 3, (3, 4)).astype(dtype))


@pytest.mark.parametrize(
    "text",
    [
        *("np.linalg.inv(x)", "np.linalg.det(x)", "np.linalg.solve(x, x[0])"),
        *("np.linalg.solve(x, x)", "np.linalg.cholesky(x)", "np.linalg.eigvalsh(x)"),
        *("np.linalg.slogdet(x).logabsdet", "np.linalg.matrix_power(x, 3)", "np.linalg.cond(x)"),
        *("np.linalg.eigh(x).eigenvalues", "np.linalg.multi_dot([x, x, x])", "np.linalg.trace(x)"),
        *("np.linalg.matrix_power(x, -1)", "np.linalg.eigvalsh(x, UPLO='U')", "np.tril(x) @ x.T"),
        *("np.linalg.eigh(np.tril(x))[0]", "np.linalg.norm(x, -1)", "np.linalg.norm(x, 'fro')"),
    ],
)
def test_linear_algebra(text: str) -> None:
    root = np.random.default_rng(0).standard_normal((4, 4))
    fn = eval(f"lambda x: {text}", {"np": np})  # noqa: S307
    same(fn, root @ root.T + np.eye(4))


WRITES = """
y = x.copy(); y[0] = 1; y[:, 1] += 2; y[1:, ::2] *= 3
y = x.copy(); y[y > 0] = -1; y[y < -1] *= 2
y = x.copy(); y[[0, 2]] = 5; y[[0, 1], [1, 2]] -= 1
y = x.copy(); y[x[:, 0] > 0] = x[0]; y[..., -1] = y[..., 0]
y = x.copy(); v = y[1]; v += 10; w = y.T; w[0] = 7; r = y.reshape(-1); r[-1] = 9
y = x.T + 1; r = y.reshape(-1); r[0] = 100
y = np.zeros_like(x); y[1:] = x[:-1]; y[0] = x[-1]
y = x.copy(); np.add.at(y, ([0, 0, 1], [1, 1, 2]), 1.0)
y = x.copy(); np.maximum(y, 0, out=y); np.multiply(y, 2, out=y, where=x > 1)
y = x.copy(); y.sort(axis=0); y.fill(3); y[0, 0] = 1
y = x.copy(); np.put(y, [0, 5], [7, 8]); np.copyto(y, 0, where=y > 5)
y = x.copy(); np.put_along_axis(y, np.argmax(x, axis=1)[:, None], 0, axis=1)
y = x.copy(); a, b = np.split(y, 2, axis=1); a[...] = b; b -= 1
y = x.copy(); s = y.sum(); t = s; s += 1; y[0, 0] = s; y[0, 1] = t
y = x.copy(); z = y; z **= 2; y -= 1; y //= 1
y = x.copy(); d = y[::-1]; d[0] = 1; f = np.flip(y, 1); f[:, 0] = 2; q = y[None, 0]; q[0, 2] = 5
y = x + 0j; y.real = 1
y = x + 0j; y.real[0] = 1; y.imag[:, 1] = 2
y = np.diagonal(x.copy()); y[0] = 1
y = np.broadcast_to(x, (2, 3, 4)); y[0] = 1
y = x.copy(); y[9] = 1
y = x.copy(); y[:2] = x
y = x.astype(int); y += 1.5
y = x.astype(np.float32); y += x; y *= 1e-3
y = x.copy(); y[0] = [1, 2, 3, 4]; y[1:3, 1:3] = [[1, 2], [3, 4]]; y[2] = 5 * np.ones((1, 4))
y = np.empty_like(x); np.sum(x, axis=0, out=y[0]); y[1:] = np.cumsum(x, axis=0)[1:]
y = x.copy(); y[1][2] = 5; y[:, 0][1] = 6; y.ravel()[3] = 8; y.flatten()[0] = 99
y = x.copy(); y[:, None][0, 0] = 4; np.expand_dims(y, 0)[0, 1] = 3; np.squeeze(y[None])[2] = 2
"""


@pytest.mark.parametrize("text", [w for w in WRITES.splitlines() if w])
def test_writes_are_seen_where_numpy_shows_them(text: str) -> None:
    def fn(x: Any) -> Any:
        space = {"np": np, "x": x}
        exec(text, space)
        return space["y"]

    same(fn, np.random.default_rng(5).uniform(-3, 3, (3, 4)))


shapes = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)
dtypes = st.sampled_from(["int32", "uint8", "float32", "float64"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shapes=shapes, a=dtypes, b=dtypes, seed=st.integers(0, 99), data_=st.data())
def test_broadcasting_and_promotion(shapes: Any, a: str, b: str, seed: int, data_: Any) -> None:
    ufunc = data_.draw(
        st.sampled_from([np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.less])
    )
    rng = np.random.default_rng(seed)
    x, y = (
        rng.integers(1, 9, s).astype(d) for s, d in zip(shapes.input_shapes, (a, b), strict=True)
    )
    same(ufunc, x, y)
    same(lambda x, y: (x + 1) * 2.5 - y, x, y)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data_=st.data())
def test_indexing_and_assignment(data_: Any) -> None:
    shape = data_.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data_.draw(
        st.one_of(
            hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True),
            hnp.integer_array_indices(shape),
        )
    )
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)

    def fn(x: Any) -> Any:
        y = x * 1.0
        taken = y[index] + 1
        y[index] = taken * 10
        return taken, y

    same(fn, x)
