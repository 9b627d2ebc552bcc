"""Discrete Fourier transforms along one axis, of complex and of real tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, differ, kind, normalize_axis, promote
from ...spec import dtype as as_dtype
from ..core.special import widened

_ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""Which end of the transpose divides by n."""
NORMS = tuple(_ADJOINT)


def resized(x: Any, axis: int, n: int) -> Any:
    """Return an array cut at the end of an axis, or filled up with zeros there."""
    have = x.shape[axis]
    if have >= n:
        return x[(slice(None),) * (axis % x.ndim) + (slice(0, n),)]
    widths = [(0, 0)] * x.ndim
    widths[axis] = 0, n - have
    return np.pad(x, widths)


class CutOrPadLike(Op):
    """Cut the end of an axis, or fill it up with zeros, to the size that ``like`` has there.

    y[…, i, …] = x[…, i, …] where x has it, else 0
    """

    namespace = "gradient"
    shape_only = (1,)
    dependence = LINEAR
    axis: int = attr(-1, doc="Axis to fit.")

    def infer(self, x: TensorSpec, like: TensorSpec) -> TensorSpec:
        if x.rank != like.rank:
            raise ShapeError("x and like differ in rank", need=f"rank {x.rank}, got {like}")
        shape = list(x.shape)
        axis = normalize_axis(self.axis, x.rank)
        shape[axis] = like.shape[axis]
        return x.with_shape(shape)

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        x, like = specs
        assert x is not None and like is not None
        return 0 if x.shape[self.axis] == like.shape[self.axis] else None

    def forward(self, x: Any, like: Any) -> Any:
        return resized(x, self.axis, like.shape[self.axis]).copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self(gs[0], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), np.zeros((2, 2))))
        yield Sample((rng.standard_normal((2, 3)), np.zeros((4, 3))), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2, 3))), {}, "differ in rank")


class _Transform(Op):
    """A transform of n elements along an axis; shorter tensors are filled up, longer ones cut."""

    namespace = "signal"
    dependence = LINEAR
    accepts: ClassVar[str] = "fc"
    n: AnyDim | None = attr(None, doc="Number of elements transformed; None: as many as there are.")
    axis: int = attr(-1, doc="Axis to transform.")
    norm: str = attr(
        "backward",
        doc="Which transform divides by n; with ortho both divide by its root.",
        choices=NORMS,
    )

    def length(self, d: AnyDim) -> AnyDim:
        """Return the number of elements transformed, of d."""
        return d if self.n is None else self.n

    def check(self, x: TensorSpec) -> tuple[int, AnyDim]:
        """Return the axis and n, or refuse."""
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        axis = normalize_axis(self.axis, x.rank)
        n = self.length(x.shape[axis])
        if isinstance(n, int) and n < 1:
            raise ShapeError(f"{self.name} of {n} elements", need="at least one")
        return axis, n

    def sized(self, x: TensorSpec, n: AnyDim, dtype: Any) -> TensorSpec:
        """Return a spec with another size along the axis."""
        shape = list(x.shape)
        shape[self.axis] = n
        return TensorSpec(shape, dtype)

    def adjoint_of(self, cls: type[_Transform]) -> Op:
        """Return the transform that is the transpose of this one."""
        return cls(axis=self.axis, norm=_ADJOINT[self.norm])

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int64"),), {}, "does not take int64")
        yield ErrorSample((TensorSpec((2, 0)),), {"n": 0}, "of 0 elements")
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,)),), {"norm": "none"}, "is not known")


def complex_of(d: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype for a real one."""
    return promote(d, as_dtype("complex64"))


def real_of(d: np.dtype[Any]) -> np.dtype[Any]:
    """Return the real dtype for a complex one."""
    return as_dtype("float64" if complex_of(d).itemsize == 16 else "float32")


class Fft(_Transform):
    """Fourier transform along an axis; always complex.

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.fft(g.constant([1.0, 0.0, 0.0]), name="y"))["y"].real.tolist()
    [1.0, 1.0, 1.0]
    """

    drawing = "linear"
    autocast = Autocast.FACTOR

    def infer(self, x: TensorSpec) -> TensorSpec:
        return self.sized(x, self.check(x)[1], complex_of(x.dtype))

    def forward(self, x: Any) -> Any:
        n: Any = self.n
        norm: Any = self.norm
        return np.fft.fft(widened(x), n, self.axis, norm)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        g = self.adjoint_of(Ifft)(gs[0])
        return (g if self.n is None else CutOrPadLike(axis=self.axis)(g, xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((3, 2)),), {"n": 4, "axis": 0, "norm": "ortho"})
        yield Sample((rng.standard_normal((4,)) + 1j,), {"n": 3, "norm": "forward"})
        yield Sample((np.zeros((0, 2)),))


class Ifft(Fft):
    """Inverse of the Fourier transform along an axis; always complex.

    y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> y = gw.signal.ifft(gw.signal.fft(x), name="y")
    >>> g.output({}, y)["y"].real.round(4).tolist()
    [1.0, 2.0, 3.0]
    """

    def forward(self, x: Any) -> Any:
        n: Any = self.n
        norm: Any = self.norm
        return np.fft.ifft(widened(x), n, self.axis, norm)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        g = self.adjoint_of(Fft)(gs[0])
        return (g if self.n is None else CutOrPadLike(axis=self.axis)(g, xs[0]),)


class Rfft(_Transform):
    """Fourier transform of a real tensor: the half that determines the other one.

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n), k = 0 … ⌊n/2⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.signal.rfft(g.placeholder("x", ("B", 8))).shape
    (B, 5)
    """

    drawing = "linear"
    autocast = Autocast.FACTOR
    accepts = "f"

    def infer(self, x: TensorSpec) -> TensorSpec:
        return self.sized(x, self.check(x)[1] // 2 + 1, complex_of(x.dtype))

    def forward(self, x: Any) -> Any:
        n: Any = self.n
        norm: Any = self.norm
        return np.fft.rfft(widened(x), n, self.axis, norm)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (RfftGrad(n=self.n, axis=self.axis, norm=self.norm)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 5)),))
        yield Sample((rng.standard_normal((4, 1)),), {"axis": 0, "norm": "ortho"})
        yield Sample((rng.standard_normal((4,)),), {"n": 6, "norm": "forward"})
        yield Sample((rng.standard_normal((4,)),), {"n": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,), "complex64"),), {}, "does not take complex64")


def _weighted(spectrum: Any, axis: int, n: int, weight: float) -> Any:
    """Return half a spectrum with the bins multiplied that stand for two of the whole."""
    y = spectrum.copy()
    y[(slice(None),) * (axis % y.ndim) + (slice(1, (n + 1) // 2),)] *= weight
    return y


class RfftGrad(_Transform):
    """Transpose of ``rfft``: the real part of the sum over the bins of half a spectrum.

    y[j] = Re Σₖ g[k]·e^(2πi·jk/n)
    """

    namespace = "gradient"
    shape_only = (1,)
    accepts = "c"

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        axis, n = Rfft(n=self.n, axis=self.axis).check(x)
        if g.rank != x.rank or differ(g.shape[axis], n // 2 + 1):
            raise ShapeError("g is not half a spectrum of x", need=f"{n // 2 + 1} bins, got {g}")
        return self.sized(g, x.shape[axis], real_of(g.dtype))

    def forward(self, g: Any, x: Any) -> Any:
        n: Any = self.length(x.shape[self.axis])
        norm: Any = _ADJOINT[self.norm]
        y = np.fft.irfft(_weighted(g, self.axis, n, 0.5), n, self.axis, norm)
        return resized(y, self.axis, x.shape[self.axis])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        n = self.length(xs[1].shape[self.axis])
        return Rfft(n=n, axis=self.axis, norm=self.norm)(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in Rfft.samples(rng):
            y = Rfft(**sample.attrs).forward(*sample.inputs)
            yield Sample((y, *sample.inputs), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2,), "complex64"), TensorSpec((5,))
        yield ErrorSample(specs, {}, "not half a spectrum")


class Irfft(_Transform):
    """Real tensor of n elements whose Fourier transform begins with the given bins.

    y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n) over k = −⌊(n − 1)/2⌋ … ⌊n/2⌋ with x[−k] = conj x[k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> y = gw.signal.irfft(gw.signal.rfft(x), n=3, name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [1.0, 2.0, 3.0]
    """

    drawing = "linear"
    autocast = Autocast.FACTOR
    n: AnyDim | None = attr(None, doc="Number of elements; None: twice the bins less one.")

    def length(self, d: AnyDim) -> AnyDim:
        return d * 2 - 2 if self.n is None else self.n

    def infer(self, x: TensorSpec) -> TensorSpec:
        axis, n = self.check(x)
        if x.shape[axis] == 0:
            raise ShapeError("irfft of no bins", need="at least one")
        return self.sized(x, n, real_of(x.dtype))

    def forward(self, x: Any) -> Any:
        n: Any = self.n
        norm: Any = self.norm
        return np.fft.irfft(widened(x), n, self.axis, norm)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (IrfftGrad(n=self.n, axis=self.axis, norm=self.norm)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 3)) + 1j * draw((2, 3)),))
        yield Sample((draw((3, 1)) + 1j * draw((3, 1)),), {"n": 5, "axis": 0, "norm": "ortho"})
        yield Sample((draw(4) + 1j * draw(4),), {"n": 3, "norm": "forward"})
        yield Sample((draw(2),), {"n": 6})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((0,), "complex64"),), {"n": 4}, "irfft of no bins")


class IrfftGrad(_Transform):
    """Transpose of ``irfft``.

    y[k] = c/n Σⱼ g[j]·e^(−2πi·jk/n), c = 2 for bins that stand for two, else 1
    """

    namespace = "gradient"
    shape_only = (1,)

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        axis, n = Irfft(n=self.n, axis=self.axis).check(x)
        if kind(g.dtype) != "f":
            raise DTypeError(f"g is of {g.dtype}", need="a float dtype")
        if g.rank != x.rank or differ(g.shape[axis], n):
            raise ShapeError("g is not of the size of a transform", need=f"{n}, got {g}")
        return self.sized(g, x.shape[axis], complex_of(g.dtype))

    def forward(self, g: Any, x: Any) -> Any:
        n = g.shape[self.axis]
        norm: Any = _ADJOINT[self.norm]
        y = np.fft.rfft(widened(g), n, self.axis, norm)
        return resized(_weighted(y, self.axis, n, 2.0), self.axis, x.shape[self.axis]).copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        n = xs[0].shape[self.axis]
        return Irfft(n=n, axis=self.axis, norm=self.norm)(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in Irfft.samples(rng):
            y = Irfft(**sample.attrs).forward(*sample.inputs)
            yield Sample((y, *sample.inputs), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2,)), TensorSpec((5,), "complex64")
        yield ErrorSample(specs, {}, "size of a transform")
