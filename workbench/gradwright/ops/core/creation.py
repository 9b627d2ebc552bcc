"""Tensors made from nothing but a shape or a range, and matrices with a pattern."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, dtype, larger, shapes_differ
from ...spec.rounding import rounded
from .reshape import stated_shape

SMALL = 64
"""Up to so many integers are known to shape inference."""


class Full(Op):
    """A tensor filled with one number, or with a size that is known when it runs.

    yᵢ = fill_value

    The shape is an attribute or an integer tensor.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g:
    ...     y = gw.full((2,), 0.5)
    >>> g.output({}, y)["full"].tolist()
    [0.5, 0.5]
    """

    namespace = "base"
    drawing = "shape"
    needs_values = (0,)
    shape: tuple[AnyDim, ...] | None = attr(None, doc="Shape, unless it is given as a tensor.")
    fill_value: float | AnyDim = attr(0.0, doc="The number, or size.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")
    onnx = OnnxRule("ConstantOfShape", since=9)

    def infer(self, shape: TensorSpec | None = None) -> TensorSpec:
        dims = stated_shape(self, shape)
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise ShapeError(f"{dims} is not a shape", need="sizes >= 0")
        found = TensorSpec(dims, self.dtype)
        if self.dtype.kind in "iu" and found.is_concrete and found.size <= SMALL:
            is_size = isinstance(self.fill_value, Dim)
            found.value = np.full(dims, self.fill_value, object if is_size else self.dtype)
        return found

    def forward(self, shape: Any = None) -> Any:
        given = None if shape is None else TensorSpec(shape.shape, "int64", shape)
        return np.full(stated_shape(self, given), rounded(self.fill_value, self.dtype))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"shape": (2, 3), "fill_value": 1.5})
        yield Sample((), {"shape": (), "fill_value": True, "dtype": "bool"})
        yield Sample((np.array([0, 2]),), {"dtype": "bfloat16"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {}, "needs a shape")
        yield ErrorSample((), {"shape": (-1,)}, "is not a shape")


MAX_DENOMINATOR = 1024
"""Of the fractions that a size is computed with: 0.25·B has a size, 0.1·B one that a run tells."""


def _steps(start: float | AnyDim, stop: float | AnyDim, step: float) -> AnyDim:
    """Return how many numbers there are, in exact fractions: ⌈(stop - start)/step⌉."""
    given = start, stop, step
    common = math.lcm(*(Fraction(v).denominator for v in given if not isinstance(v, Dim)))
    if common > MAX_DENOMINATOR:
        return Dim.fresh("arange")
    first, last = (v * common if isinstance(v, Dim) else int(v * common) for v in given[:2])
    span, pace = last - first if step > 0 else first - last, abs(int(step * common))
    return larger(0, span + (pace - 1)) // pace


class Arange(Op):
    """Numbers from ``start`` up to ``stop``, which is left out.

    yᵢ = start + i·step

    With one number, it is ``stop``. Whole numbers give int64, others float32, unless ``dtype`` says
    else; where they are known while building, they may decide shapes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> with g:
    ...     gw.arange(x.shape[0] * 2).shape, gw.arange(5, 0, -2).spec.value.tolist()
    ((2*B,), [5, 3, 1])
    """

    namespace = "base"
    drawing = "shape"
    start: float | AnyDim = attr(doc="First number, or how many numbers from 0 on.")
    stop: float | AnyDim | None = attr(None, doc="Where to stop.")
    step: float = attr(1, doc="Distance of two numbers.")
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of the result.")
    onnx = OnnxRule("Range", since=11)

    def bounds(self) -> tuple[Any, Any]:
        """Return start and stop."""
        return (0, self.start) if self.stop is None else (self.start, self.stop)

    def result(self) -> np.dtype[Any]:
        """Return the dtype of the result."""
        whole = not any(isinstance(v, float) for v in (self.start, self.stop, self.step))
        return self.dtype or dtype("int64" if whole else "float32")

    def infer(self) -> TensorSpec:
        if not self.step:
            raise ShapeError("arange cannot have step 0")
        start, stop = self.bounds()
        parts: tuple[Any, ...] = (start, stop, self.step)
        for name, value in zip(("start", "stop", "step"), parts, strict=True):
            if isinstance(value, float) and not math.isfinite(value):
                raise ShapeError(f"arange: {name}={value} is no number to count with")
        found = self.result()
        if any(isinstance(v, Dim) for v in parts):
            return TensorSpec((_steps(start, stop, self.step),), found)
        n = max(0, math.ceil((stop - start) / self.step))
        known = self.forward() if n <= SMALL and found.kind in "iu" else None
        return TensorSpec((n,), found, known)

    def forward(self) -> Any:
        start, stop = self.bounds()
        n = max(0, math.ceil((stop - start) / self.step))
        return rounded(start + np.arange(n) * self.step, self.result())

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"start": 3})
        yield Sample((), {"start": 5, "stop": 0, "step": -2})
        yield Sample((), {"start": 0.0, "stop": 1.0, "step": 0.25, "dtype": "float64"})
        yield Sample((), {"start": 3, "stop": 3, "dtype": "float16"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"start": 3, "step": 0}, "step 0")
        yield ErrorSample((), {"start": 0.0, "stop": math.nan}, "stop=nan is no number")
        yield ErrorSample((), {"start": 0.0, "stop": math.inf}, "stop=inf is no number")


class Linspace(Op):
    """``num`` numbers at equal distances from ``start`` to ``stop``.

    yᵢ = start + i·(stop − start)/(num − 1)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.linspace(0.0, 1.0, 3)
    >>> g.output({}, y)["linspace"].tolist()
    [0.0, 0.5, 1.0]
    """

    namespace = "base"
    drawing = "shape"
    start: float = attr(doc="First number.")
    stop: float = attr(doc="Last number.")
    num: int = attr(50, doc="How many.")
    endpoint: bool = attr(True, doc="Whether stop is the last number, or the one after it.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        if self.num < 0:
            raise ShapeError(f"linspace of {self.num} numbers")
        return TensorSpec((self.num,), self.dtype)

    def forward(self) -> Any:
        return rounded(np.linspace(self.start, self.stop, self.num, self.endpoint), self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"start": -1.0, "stop": 1.0, "num": 5})
        yield Sample((), {"start": 0, "stop": 1, "num": 4, "endpoint": False, "dtype": "float64"})
        yield Sample((), {"start": 0.0, "stop": 1.0, "num": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"start": 0.0, "stop": 1.0, "num": -1}, "of -1 numbers")


class Eye(Op):
    """Matrix with ones on a diagonal and zeros elsewhere.

    y[i, j] = [j − i = k]

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.eye(2)
    >>> g.output({}, y)["eye"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    namespace = "base"
    drawing = "shape"
    n: AnyDim = attr(doc="Number of rows.")
    m: AnyDim | None = attr(None, doc="Number of columns; None: as many as rows.")
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        shape = self.n, self.n if self.m is None else self.m
        if any(isinstance(d, int) and d < 0 for d in shape):
            raise ShapeError(f"there is no matrix of shape {list(shape)}", need="n >= 0 and m >= 0")
        return TensorSpec(shape, self.dtype)

    def forward(self) -> Any:
        rows, columns = self.infer().shape
        return np.eye(rows, columns, self.k).astype(self.dtype)  # type: ignore[arg-type]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"n": 3})
        yield Sample((), {"n": 2, "m": 4, "k": -1, "dtype": "bool"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"n": 2, "m": -1}, "no matrix of shape [2, -1]")


class Diag(Op):
    """Matrix with the vector on a diagonal; of matrices, that diagonal of the last two axes.

    y[i, i + k] = x[i], or y[…, i] = x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diag(g.constant([1, 2])))["diag"].tolist()
    [[1, 0], [0, 2]]
    """

    namespace = "base"
    drawing = "shape"
    dependence = LINEAR
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not x.rank:
            raise ShapeError("a scalar has no diagonal", need="rank 1 or more")
        if x.rank == 1:
            return x.with_shape((x.shape[0] + abs(self.k),) * 2)
        return x.with_shape((*x.shape[:-2], diagonal_size(x.shape[-2], x.shape[-1], self.k)))

    def forward(self, x: Any) -> Any:
        return np.diag(x, self.k) if x.ndim == 1 else np.diagonal(x, self.k, -2, -1).copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Diag(k=self.k)(gs[0]) if xs[0].rank == 1 else DiagGrad(k=self.k)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3,)),), {"k": -1})
        yield Sample((rng.standard_normal((3, 4)),), {"k": 2})
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((rng.standard_normal((0,)),), {"k": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {}, "no diagonal")


def diagonal_size(rows: AnyDim, columns: AnyDim, k: int) -> AnyDim:
    """Return the number of elements on a diagonal; fresh if sizes cannot be compared."""
    below, right = (rows + k, columns) if k < 0 else (rows, columns - k)
    if isinstance(below, int) and isinstance(right, int):
        return max(0, min(below, right))
    rest = below - right
    if isinstance(rest, Dim):
        return Dim.fresh("diag")
    return below if rest <= 0 else right


class DiagGrad(Op):
    """Zeros in the shape of ``x``, with ``g`` on a diagonal of the last two axes.

    y[…, i, i + k] = g[…, i], 0 elsewhere
    """

    namespace = "gradient"
    shape_only = (1,)
    dependence = LINEAR
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        taken = Diag(k=self.k).infer(x)
        if x.rank < 2 or shapes_differ(g.shape, taken.shape):
            raise ShapeError("g is no diagonal of x", need=str(taken), facts=[f"got {g}"])
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:
        y = np.zeros(x.shape, g.dtype)
        i = np.arange(g.shape[-1])
        y[..., i + max(-self.k, 0), i + max(self.k, 0)] = g
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return Diag(k=self.k)(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 2)), np.ones((2, 3, 4))), {"k": -1})
        yield Sample((rng.standard_normal((0,)), np.ones((2, 2))), {"k": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((2, 2))), {}, "no diagonal of x")


class _Triangle(Op):
    """One side of the last two axes, the rest zero."""

    namespace = "base"
    drawing = "shape"
    is_method = True
    dependence = AFFINE
    k: int = attr(0, doc="Diagonal up to which elements stay: 0 the main one, above it positive.")
    onnx = OnnxRule("Trilu", since=14)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank < 2:
            raise ShapeError(f"{self.name} needs matrices", need=f"rank 2 or more, got {x}")
        return x

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 3)),))
        yield Sample((rng.standard_normal((2, 3, 4)),), {"k": 1})
        yield Sample((rng.standard_normal((0, 3)),), {"k": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


class Tril(_Triangle):
    """Lower triangle of the last two axes, zeros above.

    y[…, i, j] = x[…, i, j] if j − i ≤ k, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tril(g.constant([[1, 2], [3, 4]])))["tril"].tolist()
    [[1, 0], [3, 4]]
    """

    def forward(self, x: Any) -> Any:
        return np.tril(x, self.k)


class Triu(_Triangle):
    """Upper triangle of the last two axes, zeros below.

    y[…, i, j] = x[…, i, j] if j − i ≥ k, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.triu(g.constant([[1, 2], [3, 4]]))
    >>> g.output({}, y)["triu"].tolist()
    [[1, 2], [0, 4]]
    """

    def forward(self, x: Any) -> Any:
        return np.triu(x, self.k)
