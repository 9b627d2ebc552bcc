"""Quantising to blocks of ggml's formats, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, Op, Sample, attr
from ...spec import Dim, TensorSpec, dtype, kind
from .blocks import FORMATS, WRITTEN, columns, packed_ggml, unpacked
from .nf4 import FROZEN
from .scales import ROUNDED, check_result


class QuantizeGgml(Op):
    """Store rows of numbers in blocks of a ggml format.

    x: f32[…, n] -> u8[…, n/size·bytes], with size and bytes of the format: q4_0 (32, 18), q4_1 (32,
    20), q5_0 (32, 22), q5_1 (32, 24), q8_0 (32, 34), mxfp4 (32, 17), q4_k (256, 144), q5_k (256,
    176), q6_k (256, 210). Raises ShapeError unless the block size divides n (ggml-quants, 2023).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed = gw.quant.quantize_ggml(g.placeholder("x", ("B", 64)), format="q4_0")
    >>> packed.spec
    u8[B, 36]
    """

    namespace = "quant"
    format: str = attr("q8_0", doc="Name of the format.", choices=WRITTEN)

    def infer(self, x: TensorSpec) -> TensorSpec:
        form = FORMATS[self.format]
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        n = x.shape[-1] if x.rank else 1
        if not isinstance(n, Dim) and n % form.size:
            raise ShapeError(f"rows of {n} are no whole blocks", need=f"a multiple of {form.size}")
        return TensorSpec((*x.shape[:-1], n // form.size * form.n_bytes), "uint8")

    def forward(self, x: Any) -> Any:
        return packed_ggml(x, self.format)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ROUNDED,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name in WRITTEN:
            yield Sample((rng.standard_normal((2, FORMATS[name].size)),), {"format": name})
        yield Sample((np.zeros((1, 64)),), {"format": "q5_1"})
        yield Sample((np.zeros((0, 32)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 33)),), {}, "no whole blocks")
        yield ErrorSample((TensorSpec((32,), "int8"),), {}, "does not take int8")


class DequantizeGgml(Op):
    """Numbers in blocks of a ggml format.

    u8[…, n/size·bytes] -> f32[…, n], with size and bytes of the format as in ``quantize_ggml``, and
    q2_k (256, 84), q3_k (256, 110), nvfp4 (64, 36), tq1_0 (256, 54), tq2_0 (256, 66), iq1_s (256,
    50), iq1_m (256, 56), iq2_xxs (256, 66), iq2_xs (256, 74), iq2_s (256, 82), iq3_xxs (256, 98),
    iq3_s (256, 110), iq4_nl (32, 18), iq4_xs (256, 136). Raises ShapeError unless the bytes are
    whole blocks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> block = g.constant([0, 60, *range(32)], dtype="uint8")  # d = 1
    >>> g.output({}, gw.quant.dequantize_ggml(block, format="q8_0", name="y"))["y"][:3].tolist()
    [0.0, 1.0, 2.0]
    """

    namespace = "quant"
    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self, packed: TensorSpec) -> TensorSpec:
        n = columns(packed, self.format)
        check_result(self, self.dtype)
        return TensorSpec((*packed.shape[:-1], n), self.dtype)

    def forward(self, packed: Any) -> Any:
        return unpacked(packed, self.format).astype(self.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (FROZEN,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name in WRITTEN:
            x = rng.standard_normal((2, FORMATS[name].size))
            yield Sample((packed_ggml(x, name),), {"format": name})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 33), "uint8"),), {}, "33 bytes are no blocks")
        yield ErrorSample((TensorSpec((34,)),), {}, "blocks are f32")
        yield ErrorSample((TensorSpec((34,), "uint8"),), {"dtype": "int8"}, "does not give int8")
