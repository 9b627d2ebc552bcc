"""Training in 8-bit floats: quantisation with one scale per tensor, products, scales from history.

A number x is kept as q = f8(x·scale), so x ≈ q·inverse with inverse = 1/scale. Forward operands are
E4M3 (three bits of mantissa), cotangents E5M2 (a wider range); Micikevicius et al. 2022.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, NotDifferentiable, Op, Sample, attr, of_product
from ...spec import TensorSpec, check_floats, differ, dtype, dtype_name, kind, promote

Array = np.ndarray[Any, Any]
NAMES = ("float8_e4m3fn", "float8_e5m2")
E4M3, E5M2 = map(dtype, NAMES)
SCALAR = TensorSpec((), "float32")
_LARGEST = np.finfo(np.float32).max


def top_of(narrow: np.dtype[Any]) -> float:
    """Return the largest number of an 8-bit float.

    >>> from gradwright.ops.quantised.float8 import E4M3, E5M2, top_of
    >>> top_of(E4M3), top_of(E5M2)
    (448.0, 57344.0)
    """
    return float(ml_dtypes.finfo(narrow).max)  # type: ignore[no-untyped-call]


def scale_for(amax: Any, top: Any, margin: int, old: Any) -> Array:
    """Return 2^−margin·top/amax in float32, ``old`` where amax is 0, infinite or not a number.

    >>> from gradwright.ops.quantised.float8 import scale_for
    >>> scale_for([2.0, 0.0], 448.0, 1, 1.0).tolist()
    [112.0, 1.0]
    """
    amax = np.asarray(amax, np.float32)
    usable = np.isfinite(amax) & (amax > 0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = np.asarray(top * 2.0**-margin, np.float32) / amax
    scale = np.where(np.isinf(scale), _LARGEST, scale)
    return np.asarray(np.where(usable, scale, old), np.float32)


@functools.cache
def _codes(narrow: np.dtype[Any]) -> Array:
    """Return the 8-bit code of each upper half of a float32, of which the last bit is sticky.

    That half has four bits more than E4M3's mantissa, and the sticky bit says whether any below is
    set: enough to round to nearest even. A look-up takes half the time of ml_dtypes' cast.
    """
    upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        codes: Array = np.clip(upper, -top_of(narrow), top_of(narrow)).astype(narrow)
    return codes.view(np.uint8)


@functools.cache
def _numbers(narrow: np.dtype[Any]) -> Array:
    """Return the number of each 8-bit code."""
    return np.arange(256, dtype=np.uint8).view(narrow).astype(np.float32)


def narrowed(x: Array, narrow: np.dtype[Any]) -> Array:
    """Return float32 numbers in an 8-bit float, rounded to nearest even, at most its largest.

    >>> import numpy as np
    >>> from gradwright.ops.quantised.float8 import E4M3, narrowed
    >>> narrowed(np.float32([1.06, 1.07]), E4M3).tolist()
    [1.0, 1.125]
    """
    bits = np.ascontiguousarray(x).view(np.uint32)
    below = (bits & 0xFFFF) != 0
    halves = (bits >> 16).astype(np.uint16)
    halves |= below
    found: Array = _codes(narrow).take(halves).view(narrow)
    return found


def widened(q: Array) -> Array:
    """Return 8-bit floats in float32, laid out as they are.

    >>> import numpy as np
    >>> from gradwright.ops.quantised.float8 import E5M2, widened
    >>> widened(np.array([1.5], E5M2))
    array([1.5], dtype=float32)
    """
    if q.ndim == 2 and not q.flags.c_contiguous and q.T.flags.c_contiguous:
        return widened(q.T).T
    found: Array = _numbers(q.dtype).take(np.ascontiguousarray(q).view(np.uint8))
    return found


def _check_scale(op: Op, **scales: TensorSpec | None) -> None:
    for name, s in scales.items():
        if s is not None and (s.rank or kind(s.dtype) != "f"):
            raise ShapeError(f"{op.name}: {name} is {s}", need="one number, f32[]")


def _check_narrow(op: Op, *narrow: np.dtype[Any]) -> None:
    for d in narrow:
        if d not in (E4M3, E5M2):
            raise DTypeError(f"{op.name} in {dtype_name(d)}", need="float8_e4m3fn or float8_e5m2")


class QuantizeFp8(Op):
    """Quantise to 8-bit floats with one scale; numbers that are too large become the largest.

    q = f8(clip(x·scale)),  inverse = 1/scale,  amax = max |x|

    x: f32[…], scale: f32[] -> q: f8[…], inverse: f32[], amax: f32[]. Without ``scale`` it is
    2^−margin·(largest f8)/amax. NaN and infinities of x become NaN, so that a training run sees
    them. Raises DTypeError for another dtype.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, inverse, amax = gw.quant.quantize_fp8(g.constant([2.0, -0.3]), 100.0, name="q")
    >>> [v.tolist() for v in g.output({}, gw.cast(q, "float32"), amax).values()]
    [[192.0, -30.0], 2.0]
    """

    namespace = "quant"
    returns = "q", "inverse", "amax"
    dtype: np.dtype[Any] = attr(E4M3, doc="float8_e4m3fn or float8_e5m2.", exact=True)
    margin: int = attr(0, doc="Powers of two that are left as room above amax.")

    def infer(self, x: TensorSpec, scale: TensorSpec | None = None) -> tuple[TensorSpec, ...]:
        _check_narrow(self, self.dtype)
        _check_scale(self, scale=scale)
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return x.with_dtype(self.dtype), SCALAR, SCALAR

    def forward(self, x: Any, scale: Any = None) -> Any:
        x = x.astype(np.float32, copy=False)
        amax = np.float32(max(x.max(), -x.min()) if x.size else 0.0)
        if scale is None:
            scale = scale_for(amax, top_of(self.dtype), self.margin, 1.0)
        scale = np.float32(scale)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            y = x * scale
            if not math.isfinite(amax):
                y[~np.isfinite(x)] = np.nan
            return narrowed(y, self.dtype), np.float32(1.0) / scale, amax

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [NotDifferentiable("8 bits have no gradient; nn.fp8_product has one")] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3)).astype(np.float32)
        yield Sample((x,), smooth=False)
        wide = np.array([1e6, -np.inf, np.nan, 0.0], np.float32)
        yield Sample((wide, np.float32(3.0)), {"dtype": E5M2}, smooth=False)
        yield Sample((x[:0],), {"margin": 2}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2,))
        yield ErrorSample((x.with_dtype("int8"),), {}, "does not take int8")
        yield ErrorSample((x, x), {}, "scale is")
        yield ErrorSample((x,), {"dtype": "float16"}, "quantize_fp8 in float16")


class ScaledMatmul(Op):
    """Product of quantised matrices, summed in float32 and brought back to scale.

    y = (a @ b)·a_inverse·b_inverse, a: f8[M, K], b: f8[K, N], inverses: f32[] -> f32[M, N]

    Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, inverse, _ = gw.quant.quantize_fp8(g.constant([[2.0]]), 100.0)
    >>> g.output({}, gw.nn.scaled_matmul(q, q, inverse, inverse, name="y"))["y"].tolist()
    [[3.6863999366760254]]
    """

    namespace = "nn"
    drawing = "activation"
    flops = of_product
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the product.")

    def infer(
        self, a: TensorSpec, b: TensorSpec, a_inverse: TensorSpec, b_inverse: TensorSpec
    ) -> TensorSpec:
        _check_narrow(self, a.dtype, b.dtype)
        _check_scale(self, a_inverse=a_inverse, b_inverse=b_inverse)
        if a.rank != 2 or b.rank != 2 or differ(a.shape[1], b.shape[0]):
            raise ShapeError(
                f"{self.name}: {a} and {b} have no product", need="a: [M, K], b: [K, N]"
            )
        return TensorSpec((a.shape[0], b.shape[1]), self.dtype)

    def forward(self, a: Any, b: Any, a_inverse: Any, b_inverse: Any) -> Any:
        y = widened(a) @ widened(b)
        y *= np.float32(a_inverse) * np.float32(b_inverse)
        return y.astype(self.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [NotDifferentiable("8 bits have no gradient; nn.fp8_product has one")] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((2, 3)).astype(E4M3), rng.standard_normal((3, 4)).astype(E5M2)
        yield Sample((a, b, np.float32(0.5), np.float32(3.0)), smooth=False)
        yield Sample((a[:, :0], b[:0], np.float32(0.5), np.float32(3.0)), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, s = TensorSpec((2, 3), E4M3), TensorSpec(())
        yield ErrorSample((a, a, s, s), {}, "have no product")
        yield ErrorSample((a, a.with_dtype("float32"), s, s), {}, "scaled_matmul in float32")
        yield ErrorSample((a, TensorSpec((3, 2), E4M3), a.with_dtype("float32"), s), {}, "a_inv")


class Fp8Product(Op):
    """Product of two matrices in 8-bit floats, whose gradient is two such products.

    y = f8(a)·f8(b),  ∂a = f8(g)·f8(b)ᵀ,  ∂b = f8(a)ᵀ·f8(g), each tensor with one scale

    a: f32[M, K], b: f32[K, N] -> y: f32[M, N], and max |a|, max |b|: f32[], of which scales of
    later steps are made. ``a_scale``, ``b_scale`` and ``g_scale``: f32[]; without them each tensor
    is scaled by its own maximum. Cotangents are quantised to ``g_dtype``; rounding counts as the
    identity (Micikevicius et al. 2022). Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[448.0, 1.06]])
    >>> y, most, _ = gw.nn.fp8_product(a, a, transpose_b=True, name="y")
    >>> [v.tolist() for v in g.output({}, y, most).values()]
    [[[200705.0]], 448.0]
    """

    namespace = "nn"
    returns = "y", "a_amax", "b_amax"
    drawing = "activation"
    a_dtype: str = attr("float8_e4m3fn", doc="8-bit float of a.", choices=NAMES)
    b_dtype: str = attr("float8_e4m3fn", doc="8-bit float of b.", choices=NAMES)
    g_dtype: str = attr("float8_e5m2", doc="8-bit float of cotangents.", choices=NAMES)
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of y; None: that of a and b.")
    margin: int = attr(0, doc="Powers of two left as room, where scales are not given.")
    transpose_a: bool = attr(False, doc="Whether a is [K, M].")
    transpose_b: bool = attr(False, doc="Whether b is [N, K].")

    def infer(
        self,
        a: TensorSpec,
        b: TensorSpec,
        a_scale: TensorSpec | None = None,
        b_scale: TensorSpec | None = None,
        g_scale: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        _check_scale(self, a_scale=a_scale, b_scale=b_scale, g_scale=g_scale)
        joint = promote(a.dtype, b.dtype)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {a} and {b}", need="floats")
        left = a.shape[::-1] if self.transpose_a else a.shape
        right = b.shape[::-1] if self.transpose_b else b.shape
        if a.rank != 2 or b.rank != 2 or differ(left[1], right[0]):
            raise ShapeError(
                f"{self.name}: {a} and {b} have no product",
                need="two matrices of equal inner dimensions",
            )
        return TensorSpec((left[0], right[1]), self.dtype or joint), SCALAR, SCALAR

    def expand(
        self, a: Any, b: Any, a_scale: Any = None, b_scale: Any = None, g_scale: Any = None
    ) -> Any:
        p, of_p, most_a = QuantizeFp8(dtype=dtype(self.a_dtype), margin=self.margin)(a, a_scale)
        q, of_q, most_b = QuantizeFp8(dtype=dtype(self.b_dtype), margin=self.margin)(b, b_scale)
        p, q = p.mT if self.transpose_a else p, q.mT if self.transpose_b else q
        joint = self.dtype or promote(a.dtype, b.dtype)
        return ScaledMatmul(dtype=joint)(p, q, of_p, of_q), most_a, most_b

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (a, b, *scales), g = xs, gs[0]
        of_a, of_b, of_g = (*scales, None, None, None)[:3]
        none = [ZERO] * len(scales)
        if g is ZERO:
            return [ZERO, ZERO, *none]
        left = a, self.a_dtype, of_a, self.transpose_a
        right = b, self.b_dtype, of_b, self.transpose_b
        flow = g, self.g_dtype, of_g

        def times(like: Any, *factors: Any) -> Any:
            (x, x_dtype, x_scale, x_turned), (y, y_dtype, y_scale, y_turned) = factors
            return Fp8Product(
                dtype=like.dtype,
                a_dtype=x_dtype,
                b_dtype=y_dtype,
                g_dtype=self.g_dtype,
                margin=self.margin,
                transpose_a=x_turned,
                transpose_b=y_turned,
            )(x, y, x_scale, y_scale)[0]

        def turned(factor: Any) -> Any:
            return *factor[:3], not factor[3]

        def to_a() -> Any:  # of y = A·B:  ∂A = g·Bᵀ, and its transpose B·gᵀ
            if self.transpose_a:
                return times(a, right, (*flow, True))
            return times(a, (*flow, False), turned(right))

        def to_b() -> Any:  # ∂B = Aᵀ·g, and its transpose gᵀ·A
            if self.transpose_b:
                return times(b, (*flow, True), left)
            return times(b, turned(left), (*flow, False))

        return to_a, to_b, *none

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 4)))
        s = np.float32(100.0)
        # What expand stands for has no gradient: it is stated, in 8 bits as well.
        yield Sample((a, b), smooth=False, differentiate=())
        yield Sample((a, b, s, s, s), smooth=False, differentiate=())
        turned = {"transpose_a": True, "transpose_b": True, "b_dtype": "float8_e5m2"}
        yield Sample((a.T.copy(), b.T.copy()), turned, smooth=False, differentiate=())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, s = TensorSpec((2, 3)), TensorSpec((3, 4))
        yield ErrorSample((a, a), {}, "have no product")
        yield ErrorSample((a, s, a), {}, "a_scale is")
        yield ErrorSample((a, s), {"g_dtype": "float16"}, "is not known")
        yield ErrorSample((a.with_dtype("int8"), s.with_dtype("int8")), {}, "does not take")


class UpdateFp8Scale(Op):
    """Scales of the next step from the largest numbers of the last ones (delayed scaling).

    h₀ ← amax,  m = max h, or h₀ with ``algorithm="most_recent"``
    scale ← 2^−margin·tops/m, kept where m is 0, infinite or NaN;  h ← roll(h, −1), h₀ ← 0

    history: f32[H, n], scale: f32[n], amax: n numbers, f32[] each -> history and scale. ``tops``
    are the largest numbers of the n formats. Column by column, a maximum of 0 leaves the history as
    it is: nothing has flowed there. Raises ShapeError where the sizes differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, s = g.constant([[0.0], [8.0]]), g.constant([1.0])
    >>> found = gw.training.update_fp8_scale(h, s, g.constant(2.0), tops=(448.0,), name="y")
    >>> [v.tolist() for v in g.output({}, *found).values()]
    [[[0.0], [2.0]], [56.0]]
    """

    namespace = "training"
    returns = "history", "scale"
    tops: tuple[float, ...] = attr(doc="Largest number of each column's format.")
    margin: int = attr(0, doc="Powers of two that are left as room.")
    algorithm: str = attr("max", doc="Which maximum counts.", choices=("max", "most_recent"))

    def infer(
        self, history: TensorSpec, scale: TensorSpec, *amax: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        n = len(self.tops)
        check_floats(self.name, history, scale)
        _check_scale(self, **{f"amax {i}": m for i, m in enumerate(amax)})
        if history.rank != 2 or len(amax) != n or scale.shape != (n,) or history.shape[1] != n:
            raise ShapeError(
                f"{self.name}: {history}, {scale} and {len(amax)} maxima do not fit",
                need=f"history f32[H, {n}], scale f32[{n}] and {n} maxima, one for each of tops",
            )
        return history.with_shape(history.shape), scale.with_shape(scale.shape)

    def forward(self, history: Any, scale: Any, *amax: Any) -> Any:
        now = np.array(amax, history.dtype)
        most = now
        if self.algorithm == "max" and len(history) > 1:
            most = np.maximum(now, history[1:].max(0))
        new_scale = scale_for(most, np.array(self.tops), self.margin, scale)
        rolled = np.zeros_like(history)
        if len(history) > 1:
            rolled[1:-1], rolled[-1] = history[2:], now
            flowed = now != 0
            if not flowed.all():
                rolled[:, ~flowed] = history[:, ~flowed]
        return rolled, new_scale.astype(scale.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [NotDifferentiable("scales are measured, not learned")] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        history = np.abs(rng.standard_normal((4, 2))).astype(np.float32)
        history[0] = 0.0
        scale, tops = np.ones(2, np.float32), (448.0, 256.0)
        for amax in ((0.5, 9.0), (0.0, np.inf)):
            now = map(np.float32, amax)
            yield Sample((history, scale, *now), {"tops": tops, "margin": 1}, smooth=False)
        xs = history, scale, np.float32(0.1), np.float32(0.2)
        yield Sample(xs, {"tops": tops, "algorithm": "most_recent"}, smooth=False)
        yield Sample((history[:1], scale, *xs[2:]), {"tops": tops}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        history, scale, m = TensorSpec((4, 2)), TensorSpec((2,)), TensorSpec(())
        yield ErrorSample((history, scale, m), {"tops": (1.0, 1.0)}, "do not fit")
        yield ErrorSample((history, scale, m, scale), {"tops": (1.0, 1.0)}, "amax 1 is")
