"""Affine maps adapted by products of another kind: Hadamard's (LoHa) and Kronecker's (LoKr)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, Sample
from ...spec import TensorSpec, differ
from ..core.movement import alike
from ..core.reshape import Reshape
from .low_rank import _Adapted, check_factors


class LohaMatmul(_Adapted):
    """Affine map with an adapter of rank up to r² (Hyeon-Woo, Ye-Bin and Oh 2022, "FedPara").

    y = x @ (weight + scale·(a₁ @ b₁)⊙(a₂ @ b₂)) + bias, with aᵢ: f32[in, r], bᵢ: f32[r, out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w, c = g.constant([1.0]), g.constant([[1.0]]), [g.constant([[v]]) for v in (2.0, 3.0)]
    >>> g.output({}, gw.nn.loha_matmul(x, w, *c, *c, name="y"))["y"].tolist()
    [37.0]
    """

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        a1: TensorSpec,
        b1: TensorSpec,
        a2: TensorSpec,
        b2: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        y = self.base(x, weight, bias, a1, b1, a2, b2)
        check_factors(self, weight, a1, b1)
        check_factors(self, weight, a2, b2)
        return y

    def expand(
        self, x: Any, weight: Any, a1: Any, b1: Any, a2: Any, b2: Any, bias: Any = None
    ) -> Any:
        x, weight, a1, b1, a2, b2, bias = alike(x, weight, a1, b1, a2, b2, bias)
        y = x @ (weight + self.scaled((a1 @ b1) * (a2 @ b2)))
        return y if bias is None else y + bias

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, weight = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
        a, c = rng.standard_normal((2, 3, 1))
        b, d = rng.standard_normal((2, 1, 2))
        yield Sample((x, weight, a, b, c, d, rng.standard_normal(2)), {"scale": 0.5})
        yield Sample((np.zeros((0, 3)), weight, a, b, c, d))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 2))
        a, b = TensorSpec((3, 1)), TensorSpec((1, 2))
        yield ErrorSample((x, w, a, b, b, a), {}, "do not multiply")
        yield ErrorSample((x, w, a, b, TensorSpec((2, 1)), b), {}, "do not fit the weight")


def _product(w: TensorSpec, other: TensorSpec | None) -> tuple[Any, Any]:
    """Return the shape of a matrix that may be given as two factors."""
    last = w if other is None else other
    fits = other is None or not differ(w.shape[-1], other.shape[0])
    if w.rank != 2 or last.rank != 2 or not fits:
        raise ShapeError("factors do not multiply", need="w: f32[m, r], w_b: f32[r, l]")
    return w.shape[0], last.shape[1]


class LokrMatmul(_Adapted):
    """Affine map with a Kronecker product as its adapter (Yeh et al. 2023, "LyCORIS").

    y = x @ (weight + scale·w₁ ⊗ w₂) + bias, with w₁: f32[m, l], w₂: f32[n, k], in = m·n,
    out = l·k; either may be given as two factors, wᵢ @ wᵢ_b. The Kronecker product itself is never
    made: x, seen as f32[…, m, n], is multiplied by w₂ and then by w₁.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.constant([[0.0], [0.0]])
    >>> w1, w2 = g.constant([[1.0], [10.0]]), g.constant([[3.0]])
    >>> g.output({}, gw.nn.lokr_matmul(x, w, w1, w2, name="y"))["y"].tolist()
    [63.0]
    """

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        w1: TensorSpec,
        w2: TensorSpec,
        w1_b: TensorSpec | None = None,
        w2_b: TensorSpec | None = None,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        given = [w for w in (w1, w2, w1_b, w2_b) if w is not None]
        y = self.base(x, weight, bias, *given)
        (m, k), (n, p) = _product(w1, w1_b), _product(w2, w2_b)
        self.fit("w1 and w2", (m * n, k * p), weight.shape)
        return y

    def expand(
        self,
        x: Any,
        weight: Any,
        w1: Any,
        w2: Any,
        w1_b: Any = None,
        w2_b: Any = None,
        bias: Any = None,
    ) -> Any:
        x, weight, w1, w2, w1_b, w2_b, bias = alike(x, weight, w1, w2, w1_b, w2_b, bias)
        w1 = w1 if w1_b is None else w1 @ w1_b
        w2 = w2 if w2_b is None else w2 @ w2_b
        grid = Reshape(shape=(*x.shape[:-1], w1.shape[0], w2.shape[0]))(x)
        delta = w1.mT @ (grid @ w2)
        delta = Reshape(shape=(*x.shape[:-1], weight.shape[1]))(delta)
        y = x @ weight + self.scaled(delta)
        return y if bias is None else y + bias

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, weight = rng.standard_normal((2, 4)), rng.standard_normal((4, 6))
        w1, w2 = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
        a, b = rng.standard_normal((2, 1)), rng.standard_normal((1, 2))
        yield Sample((x, weight, w1, w2, None, None, rng.standard_normal(6)), {"scale": 0.5})
        yield Sample((x[0], weight, w1, a, None, b))
        yield Sample((np.zeros((0, 4)), weight, w1, w2))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 4)), TensorSpec((4, 6))
        w1, w2 = TensorSpec((2, 3)), TensorSpec((2, 2))
        yield ErrorSample((x, w, w1, w1), {}, "do not fit the weight")
        yield ErrorSample((x, w, w1, w2, w2), {}, "do not multiply")
