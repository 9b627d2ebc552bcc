"""Norms over the pixels of channels, groups of channels, or any axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, differ, normalize_axes, normalize_axis
from ..core.choice import Maximum, Where
from ..core.like import ReshapeLike
from ..core.movement import ExpandDims, cast_to, widen
from ..core.reduce import Mean
from ..core.reshape import Reshape
from ..core.statistics import Norm
from .norm import check_floating
from .standardised import StandardRows


class _OfChannels(Op):
    """A norm of images, ``f32[B, C, …]``, with one weight and one bias per channel."""

    namespace = "nn"
    drawing = "norm"
    autocast = Autocast.STATISTIC
    eps: float = attr(
        1e-5, doc="Added to the variance, so that constants do not divide by 0.", least=0.0
    )

    def infer(
        self, x: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None
    ) -> TensorSpec:
        check_floating(self, x)
        if x.rank < 2:
            raise ShapeError(f"{self.name} needs channels", need="x: f32[B, C, …]")
        for p in (weight, bias):
            if p is not None and (p.rank != 1 or differ(p.shape[0], x.shape[1])):
                raise ShapeError(
                    "weight or bias does not fit", need=f"one number per channel: {x.shape[1]}"
                )
        return x.with_shape(x.shape)

    def expand(self, x: Any, weight: Any = None, bias: Any = None) -> Any:
        y = self.normal(widen(x))
        trailing = tuple(range(1, x.rank - 1))

        def aligned(p: Any) -> Any:
            return ExpandDims(axis=trailing)(p) if trailing else p

        y = y if weight is None else y * aligned(weight)
        y = y if bias is None else y + aligned(bias)
        return cast_to(x.dtype, y)

    def normal(self, x: Any) -> Any:
        """Return x with mean 0 and variance 1."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        w, b = rng.standard_normal((2, 4))
        yield Sample((rng.standard_normal((2, 4, 3)), w, b))
        yield Sample((rng.standard_normal((1, 4, 2, 2)), None, b), {"eps": 0.1})
        yield Sample((np.zeros((0, 4, 2)), w))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 4, 3))
        yield ErrorSample((x, TensorSpec((3,))), {}, "one number per channel")
        yield ErrorSample((TensorSpec((4,)),), {}, "needs channels")
        yield ErrorSample((x.with_dtype("int32"),), {}, "does not take int32")


class InstanceNorm(_OfChannels):
    """Bring each channel of each example to mean 0 and variance 1 (Ulyanov et al. 2016).

    y = (x − μ)/√(σ² + ε)·weight + bias, with μ and σ² over all axes but the first two

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.instance_norm(g.constant([[[1.0, 3.0], [5.0, 5.0]]]))
    >>> g.output({}, y)["instance_norm"].round(3).tolist()
    [[[-1.0, 1.0], [0.0, 0.0]]]
    """

    onnx = OnnxRule("InstanceNormalization", since=6, rename={"eps": "epsilon"})

    def normal(self, x: Any) -> Any:
        return StandardRows(axis=2, eps=self.eps)(x)[0] if x.rank > 2 else x - x


class GroupNorm(_OfChannels):
    """Bring each group of channels to mean 0 and variance 1 (Wu and He 2018).

    y = (x − μ)/√(σ² + ε)·weight + bias, with μ and σ² over C/num_groups channels and all pixels

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 3.0, 5.0, 5.0]])
    >>> y = gw.nn.group_norm(x, num_groups=2)
    >>> g.output({}, y)["group_norm"].round(3).tolist()
    [[-1.0, 1.0, 0.0, 0.0]]
    """

    num_groups: int = attr(doc="Number of groups that the channels make.")
    onnx = OnnxRule("GroupNormalization", since=21, rename={"eps": "epsilon"})

    def infer(
        self, x: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None
    ) -> TensorSpec:
        y = super().infer(x, weight, bias)
        n = x.shape[1]
        if self.num_groups < 1 or (not isinstance(n, Dim) and n % self.num_groups):
            raise ShapeError(
                f"{n} channels do not make {self.num_groups} groups", need="groups of equal size"
            )
        return y

    def normal(self, x: Any) -> Any:
        n = x.shape[1]
        shape = (x.shape[0], self.num_groups, n // self.num_groups, *x.shape[2:])
        grouped = Reshape(shape=shape)(x)
        return ReshapeLike()(StandardRows(axis=2, eps=self.eps)(grouped)[0], x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample, n in zip(super().samples(rng), (2, 4, 1), strict=True):
            yield Sample(sample.inputs, {**sample.attrs, "num_groups": n})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        for bad in super().error_samples():
            yield ErrorSample(bad.inputs, {"num_groups": 2}, bad.match)
        yield ErrorSample((TensorSpec((2, 4)),), {"num_groups": 3}, "do not make 3 groups")


class MeanVarianceNormalization(Op):
    """Bring the elements along some axes to mean 0 and standard deviation 1.

    y = (x − mean x)/(√(mean (x − mean x)²) + ε)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.mean_variance_normalization(g.constant([[1.0, 3.0]]), axis=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[-1.0, 1.0]]
    """

    namespace = "nn"
    drawing = "norm"
    autocast = Autocast.STATISTIC
    axis: int | tuple[int, ...] = attr((0, 2, 3), doc="Axes of which mean and variance are taken.")
    eps: float = attr(1e-9, doc="Added to the standard deviation.", least=0.0)
    onnx = OnnxRule("MeanVarianceNormalization", since=9, rename={"axis": "axes"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_floating(self, x)
        normalize_axes(self.axis, x.rank)
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        wide = widen(x)
        centred = wide - Mean(axis=self.axis, keepdims=True)(wide)
        deviation = Norm(axis=self.axis, keepdims=True)(centred)  # whose gradient at 0 is 0
        scale = deviation / Norm(axis=self.axis, keepdims=True)(centred * 0 + 1)
        return cast_to(x.dtype, centred / (scale + self.eps))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 2, 1, 2)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": -1, "eps": 0.1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int32"),), {"axis": 0}, "does not take int32")


class LpNormalize(Op):
    """Divide by the norm along an axis; what has no length stays 0.

    Defaults of torch: ``axis=1, eps=1e-12``.

    y = x/max(‖x‖ₚ, ε), with 0/0 = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.lp_normalize(g.constant([3.0, 4.0])))["lp_normalize"].round(2).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    namespace = "nn"
    drawing = "norm"
    autocast = Autocast.STATISTIC
    p: float = attr(2.0, doc="Order of the norm, at least 1.")
    axis: int = attr(-1, doc="Axis of the vectors.")
    eps: float = attr(0.0, doc="Smallest number to divide by; torch takes 1e-12.", least=0.0)
    onnx = OnnxRule("LpNormalization", since=1)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_floating(self, x)
        if not self.p >= 1:
            raise GraphError(f"p={self.p} is no norm", need="p >= 1")
        normalize_axis(self.axis, x.rank)
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        wide = widen(x)
        size = Norm(ord=float(self.p), axis=self.axis, keepdims=True)(wide)
        divisor = Maximum()(size, self.eps) if self.eps else Where()(size == 0, 1, size)
        return cast_to(x.dtype, wide / divisor)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.uniform(0.5, 2, (2, 3)),), {"axis": 0, "p": 1.0})
        yield Sample((rng.standard_normal((2, 3)),), {"eps": 100.0})
        yield Sample((np.zeros((2, 3)),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"p": 0.5}, "is no norm")
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")


class MeanSquare(Op):
    """Mean of the squares over axes, halves in float32.

    y = mean x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.mean_square(g.constant([1.0, 7.0]), name="y"))["y"])
    25.0
    """

    namespace = "nn"
    axis: int | tuple[int, ...] | None = attr(None, doc="Axes to reduce; None reduces all.")
    keepdims: bool = attr(False, doc="Keep reduced axes with size 1.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_floating(self, x)
        return Mean(axis=self.axis, keepdims=self.keepdims).infer(x)

    def expand(self, x: Any) -> Any:
        wide = widen(x)
        return cast_to(x.dtype, Mean(axis=self.axis, keepdims=self.keepdims)(wide * wide))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": -1, "keepdims": True})
        yield Sample((rng.standard_normal(()),))
        yield Sample((np.zeros((0, 2)),), {"axis": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")
