"""Products of matrices and general contractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import (
    LINEAR,
    Autocast,
    Cotangent,
    ErrorSample,
    OnnxRule,
    Op,
    Sample,
    WeightSite,
    of_product,
)
from ...spec import TensorSpec, broadcast, differ, dtype, kind, promote
from ..core.elementwise import conj, promoted
from ..core.reshape import Flatten
from ..numerics.products import product
from ..numerics.standard import cast, library


class Matmul(Op):
    """Matrix product over the last two axes; leading axes broadcast, vectors as in numpy.

    y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", "T", 8)), g.placeholder("w", (8, 4))
    >>> (x @ w).shape
    (B, T, 4)
    """

    namespace = "linalg"
    never_fails = True
    autocast = Autocast.PRODUCT
    is_method = True
    array_api = True
    flops = of_product
    dependence = LINEAR
    onnx = OnnxRule("MatMul", since=13)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        if not a.rank or not b.rank:
            raise ShapeError("matmul does not take scalars", hint="a * b")
        left = (1, *a.shape) if a.rank == 1 else a.shape
        right = (*b.shape, 1) if b.rank == 1 else b.shape
        if differ(left[-1], right[-2]):
            fits = b.rank > 1 and a.shape[-1] == b.shape[-1]
            axis = -2 if b.rank > 1 else -1
            raise ShapeError(
                "inner dimensions differ",
                need=f"a.shape[-1] == b.shape[{axis}], got {left[-1]} and {right[-2]}",
                hint="a @ b.mT" if fits else "",
            )
        lead = broadcast(left[:-2], right[:-2])
        tail = [left[-2]] * (a.rank > 1) + [right[-1]] * (b.rank > 1)
        return TensorSpec((*lead, *tail), promote(a.dtype, b.dtype))

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        half = joint.itemsize < 4 and kind(joint) == "f"
        wide = dtype("float32") if half else joint  # halves accumulate in float32
        multiply = product if library(a) is np else library(a).matmul
        return cast(multiply(cast(a, wide), cast(b, wide)), joint)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (a, b) = gs, (conj(x) for x in xs)
        if a.rank == 1 and b.rank == 1:
            return lambda: g * b, lambda: g * a
        if b.rank == 1:
            lead = tuple(range(a.rank - 1))
            return lambda: g[..., None] * b, lambda: (a * g[..., None]).sum(lead)
        if a.rank == 1:
            return lambda: (g[..., None, :] * b).sum(-1), lambda: a[:, None] * g[..., None, :]
        if b.rank == 2 and a.rank > 2:  # one product over all rows, not a sum of one per batch
            rows = Flatten(end_axis=-2)
            return lambda: Matmul()(g, b.mT), lambda: Matmul()(rows(a).mT, rows(g))
        return lambda: Matmul()(g, b.mT), lambda: Matmul()(a.mT, g)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "linear", x=0),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        pairs = (
            ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 0, 3), (3, 4)), ((2, 1, 2, 3), (2, 3, 2)),
            ((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 0), (0, 3)),
        )  # fmt: skip
        for a, b in pairs:
            yield Sample((rng.standard_normal(a), rng.standard_normal(b)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((8, 64)), TensorSpec((8, 64))), {}, "inner dimensions differ")
        yield ErrorSample((TensorSpec(()), TensorSpec((2,))), {}, "does not take scalars")
