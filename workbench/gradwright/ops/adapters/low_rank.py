"""Affine maps with a low-rank adapter beside the weight: LoRA, DoRA, and one of several per row.

Weights lie in matmul layout, f32[in, out], and so do the factors: a: f32[in, r], b: f32[r, out].
They are the transposes of the ``lora_A`` and ``lora_B`` that PEFT saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, kind, promote_all
from ..core.choice import Maximum
from ..core.identity import StopGradient
from ..core.index import Gather
from ..core.movement import Cast, ExpandDims, Squeeze, alike
from ..core.statistics import Norm
from ..layers.nn import Linear


class _Adapted(Op):
    """An affine map with an adapter."""

    namespace = "nn"
    scale: float = attr(1.0, doc="Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).")

    def base(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None, *adapter: TensorSpec
    ) -> TensorSpec:
        """Return the spec of the result; refuse what is not floating."""
        y = Linear().infer(x, weight, bias)
        joint = promote_all(y, *adapter)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        return y.with_dtype(joint)

    def fit(self, names: str, shape: Any, like: Any) -> None:
        """Refuse factors whose product has another shape than it should."""
        if len(shape) != len(like) or any(map(differ, shape, like)):
            raise ShapeError(f"{names} do not fit the weight", need=f"{tuple(like)}, got {shape}")

    def scaled(self, y: Any) -> Any:
        """Return the adapter's share of the result."""
        return y if self.scale == 1.0 else y * self.scale

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "linear"),)


def check_factors(op: _Adapted, weight: TensorSpec, a: TensorSpec, b: TensorSpec) -> None:
    """Refuse factors whose product is not of the weight's shape."""
    if a.rank != 2 or b.rank != 2 or differ(a.shape[1], b.shape[0]):
        raise ShapeError("a and b do not multiply", need="a: f32[in, r], b: f32[r, out]")
    op.fit("a and b", (a.shape[0], b.shape[1]), weight.shape)


def _factors(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return x, weight, a and b: in 3, out 2, r 1."""
    x, weight = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
    return x, weight, rng.standard_normal((3, 1)), rng.standard_normal((1, 2))


class LoraMatmul(_Adapted):
    """Affine map with a low-rank adapter (Hu et al. 2021, "LoRA").

    y = x @ weight + scale·(x @ a) @ b + bias, with x: f32[…, in], weight: f32[in, out],
    a: f32[in, r], b: f32[r, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.constant([[1.0], [1.0]])
    >>> a, b = g.constant([[1.0], [0.0]]), g.constant([[10.0]])
    >>> g.output({}, gw.nn.lora_matmul(x, w, a, b, scale=0.5, name="y"))["y"].tolist()
    [8.0]
    """

    drawing = "linear"
    autocast = Autocast.PRODUCT

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        y = self.base(x, weight, bias, a, b)
        check_factors(self, weight, a, b)
        return y

    def expand(self, x: Any, weight: Any, a: Any, b: Any, bias: Any = None) -> Any:
        x, weight, a, b, bias = alike(x, weight, a, b, bias)
        y = x @ weight + self.scaled((x @ a) @ b)
        return y if bias is None else y + bias

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, weight, a, b = _factors(rng)
        yield Sample((x, weight, a, b, rng.standard_normal(2)), {"scale": 0.5})
        yield Sample((x[0], weight, a, b))
        yield Sample((np.zeros((0, 2, 3)), weight, a, b))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 2))
        a, b = TensorSpec((3, 1)), TensorSpec((1, 2))
        yield ErrorSample((x, w, b, a), {}, "do not multiply")
        yield ErrorSample((x, w, TensorSpec((2, 1)), b), {}, "do not fit the weight")
        yield ErrorSample((x, TensorSpec((2, 2)), a, b), {}, "weight does not fit x")


class DoraMatmul(_Adapted):
    """Affine map whose weight's direction is adapted and whose size is learned (Liu et al. 2024).

    y = (x @ v)·magnitude/‖v‖ + bias, v = weight + scale·a @ b, with one norm and one magnitude per
    output: f32[out]. The norm counts as a constant in gradients, as §4.3 of "DoRA" proposes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 0.0]), g.constant([[3.0], [4.0]])
    >>> a, b = g.constant([[0.0], [0.0]]), g.constant([[0.0]])
    >>> g.output({}, gw.nn.dora_matmul(x, w, a, b, g.constant([10.0]), name="y"))["y"].tolist()
    [6.0]
    """

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        magnitude: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        y = self.base(x, weight, bias, a, b, magnitude)
        check_factors(self, weight, a, b)
        if magnitude.rank != 1 or differ(magnitude.shape[0], weight.shape[1]):
            raise ShapeError("magnitude does not fit", need=f"f32[{weight.shape[1]}]")
        return y

    def expand(self, x: Any, weight: Any, a: Any, b: Any, magnitude: Any, bias: Any = None) -> Any:
        x, weight, a, b, magnitude, bias = alike(x, weight, a, b, magnitude, bias)
        size = StopGradient()(Norm(axis=0)(weight + self.scaled(a @ b)))
        y = (x @ weight + self.scaled((x @ a) @ b)) * (magnitude / size)
        return y if bias is None else y + bias

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, weight, a, b = _factors(rng)
        m, bias = rng.uniform(0.5, 2, 2), rng.standard_normal(2)
        known = (0, 4, 5)  # the others also move the norm, which gradients take as a constant
        yield Sample((x, weight, a, b, m, bias), {"scale": 0.5}, differentiate=known)
        yield Sample((np.zeros((0, 3)), weight, a, b, m), differentiate=(4,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 2))
        a, b = TensorSpec((3, 1)), TensorSpec((1, 2))
        yield ErrorSample((x, w, a, b, TensorSpec((3,))), {}, "magnitude does not fit")
        yield ErrorSample((x, w, b, a, TensorSpec((2,))), {}, "do not multiply")


class MultiLoraMatmul(_Adapted):
    """Affine map with another adapter in each row of a batch (Chen et al. 2023, "Punica").

    y[i] = x[i] @ weight + scale·scales[n]·(x[i] @ a[n]) @ b[n] + bias, n = adapter[i]

    With x: f32[B, in] or f32[B, T, in], a: f32[n, in, r], b: f32[n, r, out], adapter: i64[B],
    scales: f32[n]. A row with a negative number has no adapter; a number beyond the last adapter is
    an error when it is run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0], [1.0], [1.0]]), g.constant([[1.0]])
    >>> a, b = g.constant([[[1.0]], [[1.0]]]), g.constant([[[10.0]], [[100.0]]])
    >>> y = gw.nn.multi_lora_matmul(x, w, a, b, g.constant([1, 0, -1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[101.0], [11.0], [1.0]]
    """

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        adapter: TensorSpec,
        scales: TensorSpec | None = None,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        y = self.base(x, weight, bias, a, b, *([] if scales is None else [scales]))
        if a.rank != 3 or b.rank != 3 or differ(a.shape[2], b.shape[1]):
            raise ShapeError("a and b do not multiply", need="a: f32[n, in, r], b: f32[n, r, out]")
        self.fit("a and b", (a.shape[1], b.shape[2]), weight.shape)
        if differ(a.shape[0], b.shape[0]) or (
            scales is not None and (scales.rank != 1 or differ(scales.shape[0], a.shape[0]))
        ):
            raise ShapeError("a, b and scales are of different numbers of adapters")
        if kind(adapter.dtype) not in "iu":
            raise DTypeError(f"adapters are numbered, got {adapter.dtype}", need="adapter: i64[B]")
        rows = x.shape[: adapter.rank]
        if x.rank - adapter.rank not in (1, 2) or any(map(differ, adapter.shape, rows)):
            raise ShapeError(
                "adapter does not fit x", need="i64[B] for x: f32[B, in], f32[B, T, in]"
            )
        return y

    def expand(
        self,
        x: Any,
        weight: Any,
        a: Any,
        b: Any,
        adapter: Any,
        scales: Any = None,
        bias: Any = None,
    ) -> Any:
        x, weight, a, b, scales, bias = alike(x, weight, a, b, scales, bias)
        single = x.rank == adapter.rank + 1
        rows = ExpandDims(axis=-2)(x) if single else x
        at = Maximum()(adapter, 0)
        delta = (rows @ Gather()(a, at)) @ Gather()(b, at)
        factor = Cast(dtype=a.dtype)(adapter >= 0)
        factor = factor if scales is None else factor * Gather()(scales, at)
        delta = self.scaled(delta * ExpandDims(axis=(-2, -1))(factor))
        y = x @ weight + (Squeeze(axis=-2)(delta) if single else delta)
        return y if bias is None else y + bias

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, weight = rng.standard_normal((3, 2, 3)), rng.standard_normal((3, 2))
        a, b = rng.standard_normal((2, 3, 1)), rng.standard_normal((2, 1, 2))
        at, scales, bias = np.array([1, -1, 0]), rng.standard_normal(2), rng.standard_normal(2)
        yield Sample((x, weight, a, b, at, scales, bias), {"scale": 0.5})
        yield Sample((x[:, 0], weight, a, b, at))
        yield Sample((np.zeros((0, 3)), weight, a, b, np.zeros(0, np.int64)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 2))
        a, b, at = TensorSpec((5, 3, 1)), TensorSpec((5, 1, 2)), TensorSpec((4,), "int64")
        yield ErrorSample((x, w, a, b, TensorSpec((3,), "int64")), {}, "adapter does not fit x")
        yield ErrorSample((x, w, a, b, TensorSpec((4,))), {}, "adapters are numbered")
        yield ErrorSample((x, w, a, TensorSpec((4, 1, 2)), at), {}, "different numbers")
        yield ErrorSample((x, w, b, a, at), {}, "do not multiply")
