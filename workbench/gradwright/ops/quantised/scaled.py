"""Products in 8-bit floats, and activations made easier to quantise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ELEMENT, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import NARROW, TensorSpec, differ, dtype, kind
from ..core.choice import Where
from ..core.elementwise import Abs
from ..core.functions import Pow
from ..core.identity import StopGradient
from ..core.like import OnesLike
from ..core.movement import Cast
from ..core.special import finfo
from ..matrices.linalg import Matmul


class FakeCast(Op):
    """Round to what a narrow float holds, in the dtype of x, with a gradient for training.

    y = x's dtype(cast(x, dtype)), too large numbers become the largest; ∂y/∂x := 1 (Bengio et al.
    2013)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.quant.fake_cast(g.constant([1.06, 1000.0]), dtype="float8_e4m3fn", name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 448.0]
    """

    namespace = "quant"
    dependence = ELEMENT
    dtype: np.dtype[Any] = attr(dtype("float8_e4m3fn"), doc="The narrow dtype.", exact=True)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        if kind(self.dtype) != "f":
            raise GraphError(f"{self.name}: {self.dtype} is no float", need="float8_e4m3fn, …")
        return x

    def forward(self, x: Any) -> Any:
        y = Cast(dtype=self.dtype).forward(x).astype(x.dtype)
        # Floats below 8 bits have no NaN, but a training run has to see it.
        return np.where(np.isnan(x), x, y)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0],)

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        return xs[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), smooth=False)
        yield Sample((rng.standard_normal(3) * 1e6,), {"dtype": "float8_e5m2"}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int8"),), {}, "does not take int8")
        yield ErrorSample((TensorSpec((2,)),), {"dtype": "int8"}, "is no float")


class Fp8Matmul(Op):
    """Product of matrices rounded to 8-bit floats, each with one scale (Micikevicius et al. 2022).

    y = (f8(a/s_a) @ f8(b/s_b))·s_a·s_b, s = max |·| / the largest f8, or the scale that is given

    a: f32[…, M, K], b: f32[…, K, N], a_scale, b_scale: f32[]. Products are summed in float32. The
    gradient takes rounding as the identity, scales as constants. Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[448.0, 1.06]])
    >>> g.output({}, gw.nn.fp8_matmul(a, a.T, name="y"))["y"].tolist()
    [[200705.0]]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.PRODUCT
    dtype: np.dtype[Any] = attr(dtype("float8_e4m3fn"), doc="The narrow dtype.", exact=True)

    def infer(
        self,
        a: TensorSpec,
        b: TensorSpec,
        a_scale: TensorSpec | None = None,
        b_scale: TensorSpec | None = None,
    ) -> TensorSpec:
        if self.dtype not in NARROW or kind(self.dtype) != "f":
            raise GraphError(f"{self.name} in {self.dtype}", need="a float of at most 8 bits")
        for name, s in (("a_scale", a_scale), ("b_scale", b_scale)):
            if s is not None and s.rank:
                raise ShapeError(f"{name} is {s}", need="one number, f32[]")
        y: TensorSpec = Matmul().infer(a, b)
        if kind(y.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {y.dtype}", hint="gw.cast")
        return y

    def expand(self, a: Any, b: Any, a_scale: Any = None, b_scale: Any = None) -> Any:
        largest = float(finfo(self.dtype).max)
        factor, narrow = None, []
        for x, scale in ((a, a_scale), (b, b_scale)):
            if scale is None:
                most = Abs()(x).max() if 0 not in x.shape else x.sum()
                scale = Where()(most > 0.0, most / largest, OnesLike()(most))
            scale = StopGradient()(scale)
            narrow.append(FakeCast(dtype=self.dtype)(x / scale))
            factor = scale if factor is None else factor * scale
        return Matmul()(*narrow) * factor

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
        yield Sample((a, b), smooth=False)
        yield Sample((a[None], b, np.array(0.1)), {"dtype": "float8_e5m2"}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, b = TensorSpec((2, 3)), TensorSpec((3, 4))
        yield ErrorSample((a, a), {}, "differ")
        yield ErrorSample((a, b, a), {}, "a_scale is")
        yield ErrorSample((a, b), {"dtype": "float16"}, "fp8_matmul in float16")


class SmoothQuant(Op):
    """Move the size of a layer's inputs into its weight, channel by channel (Xiao et al. 2023).

    s_j = max |x_j|^α / max |w_j|^(1 − α), y = x/s, v = w·s, so that y @ v = x @ w for the weight w

    x: f32[…, D], weight: f32[D, F] -> y, v of the same shapes, and s: f32[D]; s is 1 where x_j or
    w_j is zero. Raises ShapeError where D differs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[100.0, 1.0]]), g.constant([[1.0], [1.0]])
    >>> y, v, s = gw.nn.smooth_quant(x, w, name="smooth")
    >>> [a.tolist() for a in g.output({}, y, v).values()]
    [[[10.0, 1.0]], [[10.0], [1.0]]]
    """

    namespace = "nn"
    drawing = "activation"
    alpha: float = attr(0.5, doc="How much of the size goes into the weight, from 0 to 1.")

    def infer(self, x: TensorSpec, weight: TensorSpec) -> Any:
        if not 0 <= self.alpha <= 1:
            raise GraphError(f"alpha is {self.alpha}", need="0 <= alpha <= 1")
        if not x.rank or weight.rank != 2 or differ(x.shape[-1], weight.shape[0]):
            raise ShapeError(
                "x does not fit weight",
                need="x: […, D], weight: [D, F]",
                facts=[f"{x}, {weight}"],
            )
        if kind(x.dtype) != "f" or kind(weight.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x} and {weight}", need="floats")
        return super().infer(x, weight)

    def expand(self, x: Any, weight: Any) -> Any:
        of_x, of_w = Abs()(x).max(tuple(range(x.rank - 1))), Abs()(weight).max(1)
        both = (of_x > 0.0) & (of_w > 0.0)
        of_x, of_w = (Where()(both, m, OnesLike()(m)) for m in (of_x, of_w))
        s = Pow()(of_x, self.alpha) * Pow()(of_w, self.alpha - 1)
        return x / s, weight * s.expand_dims(1), s

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w = rng.standard_normal((2, 2, 3)), rng.standard_normal((3, 2))
        yield Sample((x, w))
        yield Sample((x[0, 0], w), {"alpha": 0.8})
        yield Sample((x * [0, 1, 1], w), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 3)), TensorSpec((3, 4))
        yield ErrorSample((x, x), {}, "x does not fit weight")
        yield ErrorSample((x, w), {"alpha": 2.0}, "alpha is 2.0")
