"""Rows of packed tables by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, dtype, kind
from ..layers.nn import refuse_outside
from .blocks import FORMATS, columns, packed_ggml, unpacked
from .nf4 import FROZEN
from .scales import check_result


class GgmlEmbedding(Op):
    """Rows of a table in blocks of a ggml format, by number, as floats.

    y[…, :] = dequantize_ggml(weight)[ids[…], :], ids: i64[…], weight: u8[n, D/size·bytes]
    -> f32[…, D]

    The table is frozen. An id that is no row of it is an error when it is run. Raises ShapeError
    unless the bytes are whole blocks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[1.0] * 32, [-2.0] * 32]), format="q4_0")
    >>> y = gw.nn.ggml_embedding(g.constant([1, 0]), w, format="q4_0", name="y")
    >>> g.output({}, y)["y"][:, 0].tolist()
    [-2.0, 1.0]
    """

    namespace = "nn"
    drawing = "linear"
    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self, ids: TensorSpec, weight: TensorSpec) -> TensorSpec:
        if kind(ids.dtype) not in "iu":
            raise DTypeError(f"ggml_embedding needs integer ids, got {ids.dtype}")
        n = columns(weight, self.format)
        if weight.rank != 2:
            raise ShapeError("ggml_embedding needs a matrix of rows", need="weight: u8[n, bytes]")
        check_result(self, self.dtype)
        return TensorSpec((*ids.shape, n), self.dtype)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return 0  # rows are read

    def forward(self, ids: Any, weight: Any) -> Any:
        n = weight.shape[0]
        refuse_outside(ids, (ids >= 0) & (ids < n), "row of the table", n)
        rows = unpacked(np.take(weight, ids.astype(np.intp, copy=False), 0), self.format)
        return rows.astype(self.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, FROZEN

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "embedding", x=0, packed=self.format),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("q8_0", "q4_0"):
            w = packed_ggml(rng.standard_normal((3, 32)), name)
            for ids in (np.array([[0, 2], [2, 2]]), np.array(1), np.zeros((0, 2), np.int64)):
                yield Sample((ids, w), {"format": name})
        yield Sample((np.array([1, 0]), w), {"format": name, "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        w = TensorSpec((2, 34), "uint8")
        yield ErrorSample((TensorSpec((2,)), w), {}, "needs integer ids")
        yield ErrorSample((TensorSpec((2,), "int64"), w.with_shape((34,))), {}, "matrix of rows")
        yield ErrorSample((TensorSpec((2,), "int64"), w.with_shape((2, 33))), {}, "no blocks")
        yield ErrorSample((TensorSpec((2,), "int64"), w), {"dtype": "int8"}, "does not give int8")
