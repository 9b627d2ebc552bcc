"""Products of rows with the packed matrix of their group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ZERO, Cotangent, Dependence, ErrorSample, Sample, WeightSite, attr
from ...spec import TensorSpec, differ
from ..quantised.blocks import FORMATS, columns, packed_ggml
from ..quantised.nf4 import FROZEN
from ..quantised.products import GgmlMatmul, PackedMatmul, PackedMatmulGrad
from .grouped import check_sizes, groups

Array = np.ndarray[Any, Any]


class GgmlGroupedMatmul(PackedMatmul):
    """Each row times the matrix of its group, in blocks of a ggml format; group 0 comes first.

    y_m = x_m @ dequantize_ggml(weight_{e(m)})ᵀ

    x: f32[M, D], weight: u8[E, F, D/size·bytes], sizes: i64[E] with Σ sizes = M -> f32[M, F]

    ``activations`` as in ``ggml_matmul``. Of matrices whose groups are empty nothing is read. The
    gradient flows to x. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[[1.0] * 32], [[-2.0] * 32]]), format="q4_0")
    >>> x = g.constant([[1.0] * 32] * 3)
    >>> y = gw.nn.ggml_grouped_matmul(x, w, g.constant([1, 2]), format="q4_0", name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [32.0, -64.0, -64.0]
    """

    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    activations: str = attr("float32", doc="What x is multiplied as.", choices=("float32", "int8"))

    def depends(self, i: int) -> Dependence:
        """Return what `GgmlMatmul` does."""
        return self.of_a_group().depends(min(i, 1))

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "expert,out,in", "experts", x=0, packed=self.format),)

    def of_a_group(self) -> GgmlMatmul:
        """Return the product of the rows of one group."""
        return GgmlMatmul(format=self.format, activations=self.activations)

    def infer(self, x: TensorSpec, weight: TensorSpec, sizes: TensorSpec) -> TensorSpec:
        return self.joint(x, weight, sizes)

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        w, sizes = packed
        assert w is not None and sizes is not None
        check_sizes(self, sizes)
        n = columns(w, self.format)
        if x.rank != 2 or w.rank != 3 or differ(n, x.shape[-1]):
            raise ShapeError(
                "x does not fit weight",
                need=f"x: [M, {n}], weight: [E, F, bytes]",
                facts=[f"got {x}, {w}"],
            )
        if differ(w.shape[0], sizes.shape[0]):
            raise ShapeError(f"{w.shape[0]} matrices for {sizes.shape[0]} groups", need="as many")
        return w.shape[1]

    def forward(self, x: Any, *packed: Any) -> Any:
        weight, sizes = packed
        y, op = np.empty((len(x), weight.shape[1]), x.dtype), self.of_a_group()
        for group, rows in groups(self, sizes, len(x)):
            y[rows] = op.forward(x[rows], weight[group])
        return y

    def back(self, g: Array, n: int, packed: Sequence[Any]) -> Array:
        weight, sizes = packed
        dx, op = np.empty((len(g), n), g.dtype), self.of_a_group()
        for group, rows in groups(self, sizes, len(g)):
            dx[rows] = op.back(g[rows], n, (weight[group],))
        return dx

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (lambda: PackedMatmulGrad(op=self)(gs[0], *xs), FROZEN, ZERO)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("q8_0", "q4_0"):
            w = packed_ggml(rng.standard_normal((3, 2, 32)), name)
            x, sizes = rng.standard_normal((4, 32)), np.array([1, 0, 3])
            yield Sample((x, w, sizes), {"format": name}, differentiate=(0,))
        yield Sample((x[:0], w, 0 * sizes), {"format": name}, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 32)), TensorSpec((3, 2, 34), "uint8")
        sizes = TensorSpec((3,), "int64")
        yield ErrorSample((x, w.with_shape((2, 34)), sizes), {}, "does not fit weight")
        yield ErrorSample((x, w, sizes.with_shape((2,))), {}, "3 matrices for 2 groups")
        yield ErrorSample((x, w, TensorSpec((3,))), {}, "sizes are")
