"""Products with packed weights: some rows of them at a time are floats, never all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import (
    LINEAR,
    OPAQUE,
    ZERO,
    Autocast,
    Cotangent,
    Dependence,
    ErrorSample,
    Op,
    Sample,
    WeightSite,
    attr,
    multiplied,
    of_product,
)
from ...spec import TensorSpec, differ, kind, shapes_differ
from ..core.special import widened
from .activations import rounded
from .blocks import FORMATS, columns, packed_ggml, unpacked
from .nf4 import FROZEN, check_blocks, check_packed, packed_nf4, unpacked_nf4
from .scales import check_scale, spread

Array = np.ndarray[Any, Any]

BLOCK = 1 << 17
"""Numbers of a weight that are floats at a time: 0.5 MB, which a core's own cache holds."""


class PackedMatmul(Op, abstract=True):
    """A product with the transpose of a weight that is stored packed.

    y = x @ Wᵀ, x: f32[…, D], W: f32[F, D] -> f32[…, F]. The gradient flows to x only.
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.PRODUCT
    dependence = LINEAR, OPAQUE
    flops = of_product

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        """Return the number of rows of W, after a look at the packed weight."""
        raise NotImplementedError

    def rows(self, start: int, stop: int, n: int, packed: Sequence[Any]) -> Array:
        """Return rows of W, of n numbers each, as floats."""
        raise NotImplementedError

    def taken(self, x: Array) -> Array:
        """Return what is multiplied for x."""
        return x

    def joint(self, x: TensorSpec, *packed: TensorSpec | None) -> TensorSpec:
        """Return the spec of the product."""
        if kind(x.dtype) != "f" or not x.rank:
            raise DTypeError(f"{self.name} does not take {x}", need="f32[…, D]")
        return TensorSpec((*x.shape[:-1], self.size(x, *packed)), x.dtype)

    def blocks(self, n: int, n_rows: int, packed: Sequence[Any]) -> Iterator[tuple[slice, Array]]:
        """Yield W in blocks of rows."""
        step = max(1, BLOCK // max(n, 1))
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            yield slice(start, stop), self.rows(start, stop, n, packed)

    def forward(self, x: Any, *packed: Any) -> Any:
        a, n = self.taken(widened(x)), x.shape[-1]
        specs = (None if p is None else TensorSpec(p.shape, p.dtype) for p in packed)
        n_rows = int(self.size(TensorSpec(x.shape, x.dtype), *specs))
        flat = a.reshape(int(np.prod(a.shape[:-1])), n)
        y = np.empty((len(flat), n_rows), a.dtype)
        for part, w in self.blocks(n, n_rows, packed):
            np.matmul(flat, w.T.astype(a.dtype, copy=False), out=y[:, part])
        return y.reshape(*x.shape[:-1], n_rows).astype(x.dtype, copy=False)

    def back(self, g: Array, n: int, packed: Sequence[Any]) -> Array:
        """Return g[M, F] @ W, rows of n numbers."""
        y = np.zeros((len(g), n), g.dtype)
        for part, w in self.blocks(n, g.shape[-1], packed):
            y += g[:, part] @ w.astype(g.dtype, copy=False)
        return y

    @property
    def packing(self) -> str:
        """What the weight is packed as."""
        return self.name.removesuffix("_matmul")

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "out,in", "linear", x=0, packed=self.packing),)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        x, *packed = xs
        return (lambda: PackedMatmulGrad(op=self)(gs[0], x, *packed), *(FROZEN for _ in packed))


class PackedMatmulGrad(Op):
    """Cotangent of what a packed weight was multiplied with: the product with the weight itself.

    dx = g @ W; x gives the shape
    """

    namespace = "gradient"
    shape_only = (1,)
    dependence = LINEAR, OPAQUE
    op: Op = attr(doc="The product.")

    @property
    def product(self) -> PackedMatmul:
        """Return the product."""
        assert isinstance(self.op, PackedMatmul)
        return self.op

    def infer(self, g: TensorSpec, x: TensorSpec, *packed: TensorSpec | None) -> TensorSpec:
        y = self.product.joint(x, *packed)
        if shapes_differ(g.shape, y.shape):
            raise ShapeError("g is no cotangent of the product", need=f"{y}", facts=[f"got {g}"])
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any, *packed: Any) -> Any:
        a, n = widened(g), x.shape[-1]
        flat = a.reshape(int(np.prod(a.shape[:-1])), g.shape[-1])
        y = self.product.back(flat, n, packed)
        return y.reshape(x.shape).astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        packed = xs[2:]
        return (lambda: self.op(gs[0], *packed), ZERO, *(FROZEN for _ in packed))

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[0], ins[1].shape[-1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        w = packed_ggml(rng.standard_normal((2, 32)), "q8_0")
        xs = rng.standard_normal((3, 2)), rng.standard_normal((3, 32)), w
        yield Sample(xs, {"op": GgmlMatmul(format="q8_0")})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((3, 32)), TensorSpec((2, 34), "uint8")
        yield ErrorSample((x, x, w), {"op": GgmlMatmul(format="q8_0")}, "no cotangent")


class GgmlMatmul(PackedMatmul):
    """Product with a weight in blocks of a ggml format, of which 0.5 MB at a time are floats.

    y = x @ dequantize_ggml(weight)ᵀ, x: f32[…, D], weight: u8[F, D/size·bytes] -> f32[…, F]

    ``activations="int8"`` rounds x first, per 32 numbers to multiples of max|x|/127: products are
    then of bytes, faster, and off by 6e-3 (relative rms, normal x). The gradient flows to x as if
    nothing were rounded. With ``"float32"`` machine code may multiply a row of x as integers of 24
    bits, with a scale per 32 numbers: as exact as floats (2e-7), and NaN where one is infinite.
    Raises ShapeError where D differs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[1.0] * 32, [-2.0] * 32]), format="q4_0")
    >>> y = gw.nn.ggml_matmul(g.constant([[1.0] * 32]), w, format="q4_0", name="y")
    >>> g.output({}, y)["y"].tolist()
    [[32.0, -64.0]]
    """

    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    activations: str = attr("float32", doc="What x is multiplied as.", choices=("float32", "int8"))

    def depends(self, i: int) -> Dependence:
        """Return LINEAR for an x that is not rounded, else that its rows do not meet."""
        is_rounded = i == 0 and self.activations == "int8"
        return Dependence("rows", -1) if is_rounded else super().depends(i)

    @property
    def packing(self) -> str:
        return self.format

    def taken(self, x: Array) -> Array:
        return rounded(x) if self.activations == "int8" else x

    def infer(self, x: TensorSpec, weight: TensorSpec) -> TensorSpec:
        return self.joint(x, weight)

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        (w,) = packed
        assert w is not None
        n = columns(w, self.format)
        if w.rank != 2 or differ(n, x.shape[-1]):
            raise ShapeError(
                "x does not fit weight", need=f"x: [..., {n}]", facts=[f"got {x}, {w}"]
            )
        return w.shape[0]

    def rows(self, start: int, stop: int, n: int, packed: Sequence[Any]) -> Array:
        return unpacked(packed[0][start:stop], self.format)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("q8_0", "q4_0"):
            w = packed_ggml(rng.standard_normal((2, 32)), name)
            yield Sample((rng.standard_normal((2, 3, 32)), w), {"format": name})
        attrs = {"format": "q4_0", "activations": "int8"}
        yield Sample((rng.standard_normal((3, 32)), w), attrs, differentiate=())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((3, 32)), TensorSpec((2, 68), "uint8")
        yield ErrorSample((x, w), {}, "does not fit weight")
        yield ErrorSample((x, TensorSpec((2, 33), "uint8")), {}, "no blocks of q8_0")
        yield ErrorSample((x.with_dtype("int8"), w), {}, "does not take i8")


class GgmlLoraMatmul(Op):
    """Product with a weight in blocks of a ggml format, and a low-rank adapter beside it.

    y = x @ dequantize_ggml(weight)ᵀ + scale·(x @ Aᵀ) @ Bᵀ (Hu et al. 2022; Dettmers et al. 2023)

    x: f32[…, D], weight: u8[F, D/size·bytes], A: f32[r, D], B: f32[F, r] -> f32[…, F]; scale is
    lora_alpha/r. The gradient flows to x, A and B. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[1.0] * 32]), format="q4_0")
    >>> x, a, b = g.constant([[1.0] * 32]), g.constant([[0.5] * 32]), g.constant([[1.0]])
    >>> y = gw.nn.ggml_lora_matmul(x, w, a, b, format="q4_0", scale=2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[64.0]]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.PRODUCT
    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    scale: float = attr(1.0, doc="Factor of the adapter.")

    def infer(self, x: TensorSpec, weight: TensorSpec, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        y = GgmlMatmul(format=self.format).infer(x, weight)
        rank = a.shape[0] if a.rank else 0
        for name, spec, shape in (
            ("a", a, (rank, x.shape[-1])),
            ("b", b, (y.shape[-1], rank)),
        ):
            if spec.rank != 2 or any(map(differ, spec.shape, shape)):
                raise ShapeError(f"{name} does not fit", need=f"{shape}", facts=[f"got {spec}"])
        found: Any = super().infer(x, weight, a, b)
        return found[0]  # type: ignore[no-any-return]

    def expand(self, x: Any, weight: Any, a: Any, b: Any) -> Any:
        y = GgmlMatmul(format=self.format)(x, weight)
        return y + (x @ a.T @ b.T) * self.scale

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        w = packed_ggml(rng.standard_normal((2, 32)), "q4_0")
        xs = (rng.standard_normal(s) for s in ((3, 32), (1, 32), (2, 1)))
        x, a, b = xs
        yield Sample((x, w, a, b), {"format": "q4_0", "scale": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((3, 32)), TensorSpec((2, 34), "uint8")
        yield ErrorSample((x, w, TensorSpec((4, 32)), TensorSpec((4, 2))), {}, "b does not")


class Nf4Matmul(PackedMatmul):
    """Product with a weight packed as NF4, of which 0.5 MB at a time are floats.

    y = x @ dequantize_nf4(packed, absmax)ᵀ, x: f32[…, D], packed: u8[F·D/2, 1],
    absmax: f32[F·D/block_size] -> f32[…, F] (Dettmers et al. 2023)

    The gradient flows to x. Raises ShapeError unless packed holds ``out_features``·D codes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([[2.0, 0.0], [-2.0, 2.0]]))
    >>> y = gw.nn.nf4_matmul(g.constant([[1.0, 1.0]]), packed, absmax, out_features=2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0, 0.0]]
    """

    out_features: int = attr(doc="Rows of the weight.")
    block_size: int = attr(64, doc="Elements that share a scale.")

    def infer(self, x: TensorSpec, packed: TensorSpec, absmax: TensorSpec) -> TensorSpec:
        return self.joint(x, packed, absmax)

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        codes, absmax = packed
        assert codes is not None and absmax is not None
        check_blocks(self, self.block_size)
        check_packed(codes, absmax, x.shape[-1] * self.out_features, self.block_size)
        return self.out_features

    def rows(self, start: int, stop: int, n: int, packed: Sequence[Any]) -> Array:
        codes, absmax = packed
        part = unpacked_nf4(codes, absmax.astype(np.float32), start * n, stop * n, self.block_size)
        return part.reshape(stop - start, n)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        packed, absmax = packed_nf4(rng.standard_normal((3, 5)), 4)
        x = rng.standard_normal((2, 5))
        attrs = {"out_features": 3, "block_size": 4}
        yield Sample((x, packed, absmax), attrs, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, packed, absmax = TensorSpec((2, 4)), TensorSpec((4, 1), "uint8"), TensorSpec((1,))
        yield ErrorSample((x, packed, absmax), {"out_features": 3}, "does not hold 12")


class QuantizedMatmul(PackedMatmul):
    """Product with a weight of scaled integers, of which 0.5 MB at a time are floats.

    y = x @ ((weight − zero_point)·scale)ᵀ, x: f32[…, D], weight: i8[F, D] or
    other integers -> f32[…, F]

    scale: one number, one per row of weight (f32[F]), or with ``block_size`` one per that many
    elements of a row (f32[F, D/block_size]); zero_point: of its shape. The gradient flows to x.
    Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.constant([[1, 2], [3, -4]], dtype="int4")
    >>> y = gw.nn.quantized_matmul(g.constant([[1.0, 1.0]]), w, g.constant([0.5, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1.5, -2.0]]
    """

    block_size: int = attr(0, doc="Elements of a row that share a scale; 0: no blocks.")

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        scale: TensorSpec,
        zero_point: TensorSpec | None = None,
    ) -> TensorSpec:
        return self.joint(x, weight, scale, zero_point)

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        w, scale, zero_point = (*packed, None)[:3]
        assert w is not None and scale is not None
        if kind(w.dtype) not in "iu":
            raise DTypeError(f"weight is {w}", need="integers", hint="x @ w.T for floats")
        if w.rank != 2 or differ(w.shape[1], x.shape[-1]):
            raise ShapeError(
                "x does not fit weight", need="x: […, D], weight: [F, D]", facts=[f"{x}, {w}"]
            )
        check_scale(self, w, scale, zero_point, 1 if self.block_size else 0, self.block_size)
        return w.shape[0]

    def rows(self, start: int, stop: int, n: int, packed: Sequence[Any]) -> Array:
        w, scale, zero_point = (*packed, None)[:3]

        def of_rows(values: Array) -> Array:
            own = values if values.size == 1 and values.ndim < 2 else values[start:stop]
            axis = 1 if self.block_size else 0
            wide = spread(own, (stop - start, n), axis, self.block_size)
            return widened(wide).reshape(-1, 1) if own.ndim == 1 else widened(wide)

        y = w[start:stop].astype(np.float32)
        if zero_point is not None:
            y -= of_rows(zero_point.astype(np.float32))
        found: Array = y * of_rows(scale)
        return found

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w = rng.standard_normal((2, 2, 4)), rng.integers(-8, 8, (3, 4))
        yield Sample((x, w.astype("i1"), np.array(0.1)), differentiate=(0,))
        zero = np.array([1, 2, 3], "int4")
        narrow = x[0], w.astype("int4"), rng.standard_normal(3), zero
        yield Sample(narrow, differentiate=(0,))
        scale = rng.standard_normal((3, 2))
        blocks = x, (w + 8).astype("uint4"), scale
        yield Sample(blocks, {"block_size": 2}, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 4)), TensorSpec((3, 4), "int8")
        yield ErrorSample((x, w, TensorSpec((2,))), {}, "scale does not fit")
        yield ErrorSample(
            (x, TensorSpec((4, 3), "int8"), TensorSpec(())), {}, "x does not fit weight"
        )
        yield ErrorSample((x, TensorSpec((3, 4)), TensorSpec(())), {}, "weight is f32")
