"""Products with weights of 4 bits in AutoAWQ's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Sample
from ...spec import TensorSpec, differ
from ..core.special import widened
from .products import PackedMatmul

Array = np.ndarray[Any, Any]


class AwqMatmul(PackedMatmul):
    """Product with a weight of 4 bits in AutoAWQ's layout, of which 0.5 MB at a time are floats.

    y = x @ ((q − z)·scales), x: f32[…, D], qweight: i32[D, F/8], qzeros: i32[D/group, F/8],
    scales: f16[D/group, F] -> f32[…, F]; an int32 holds columns 0, 2, 4, 6, 1, 3, 5, 7 of eight
    from its lowest to its highest 4 bits (Lin et al. 2024)

    The gradient flows to x. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, z = g.constant([[0x21], [0x43]], dtype="int32"), g.constant([[0]], dtype="int32")
    >>> y = gw.nn.awq_matmul(g.constant([[1.0, 1.0]]), q, z, g.constant([[1.0] * 8]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[4.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """

    def infer(
        self, x: TensorSpec, qweight: TensorSpec, qzeros: TensorSpec, scales: TensorSpec
    ) -> TensorSpec:
        return self.joint(x, qweight, qzeros, scales)

    def size(self, x: TensorSpec, *packed: TensorSpec | None) -> Any:
        q, zeros, scales = packed
        assert q is not None and zeros is not None and scales is not None
        if q.dtype != np.dtype("int32") or zeros.dtype != np.dtype("int32"):
            raise DTypeError(f"qweight and qzeros are {q} and {zeros}", need="int32")
        if q.rank != 2 or differ(q.shape[0], x.shape[-1]):
            raise ShapeError("x does not fit qweight", need="x: […, D], qweight: [D, F/8]")
        n = q.shape[1] * 8
        if (
            (zeros.rank, scales.rank) != (2, 2)
            or differ(zeros.shape[0], scales.shape[0])
            or differ(zeros.shape[1], q.shape[1])
            or differ(scales.shape[1], n)
        ):
            raise ShapeError(
                "qzeros or scales do not fit", need=f"[D/group, {n}/8], [D/group, {n}]"
            )
        d, groups = q.shape[0], scales.shape[0]
        if isinstance(d, int) and isinstance(groups, int) and (not groups or d % groups):
            raise ShapeError(f"{groups} groups of {d} rows", need="groups of equal size")
        return n

    def rows(self, start: int, stop: int, n: int, packed: Sequence[Any]) -> Array:
        q, zeros, scales = packed
        first, last = start // 8, -(-stop // 8)
        group = n // len(scales)
        z = _unpacked_awq(zeros[:, first:last])
        s = widened(scales[:, first * 8 : last * 8])
        grouped = _unpacked_awq(q[:, first:last]).reshape(len(s), group, -1)
        y = ((grouped - z[:, None]) * s[:, None]).reshape(n, -1).T
        return y[start - first * 8 : stop - first * 8]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        q, z = (rng.integers(-(2**31), 2**31, s).astype("i4") for s in ((4, 2), (2, 2)))
        xs = rng.standard_normal((3, 4)), q, z, rng.standard_normal((2, 16))
        yield Sample(xs, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, q = TensorSpec((3, 4)), TensorSpec((4, 2), "int32")
        s = TensorSpec((2, 16), "float16")
        yield ErrorSample((x, q, q, s), {}, "do not fit")
        yield ErrorSample((x, TensorSpec((4, 2), "int8"), q, s), {}, "qweight and qzeros are")


def _unpacked_awq(q: Array) -> Array:
    """Return the numbers of 4 bits in int32s, in the order of the columns, as float32."""
    shifts = np.array([0, 4, 1, 5, 2, 6, 3, 7], np.uint32) * np.uint32(4)
    columns = q.view(np.uint32)[..., None] >> shifts & np.uint32(15)
    return columns.reshape(*q.shape[:-1], -1).astype(np.float32)
