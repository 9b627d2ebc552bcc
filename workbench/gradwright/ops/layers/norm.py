"""Normalisations: layer, root mean square, batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, check_floats, differ, kind, normalize_axis, shapes_differ
from ..core.exponential import Sqrt
from ..core.lengths import SEEN, RootSumSquares
from ..core.movement import ExpandDims, cast_to, widen


def check_floating(op: Op, x: TensorSpec) -> None:
    """Refuse what has no floating dtype."""
    if kind(x.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")


class _Normalize(Op):
    """A normalisation over all axes from ``axis`` on, then scaled by a weight of their shape."""

    namespace = "nn"
    drawing = "norm"
    autocast = Autocast.STATISTIC
    axis: int = attr(-1, doc="First normalised axis; all from there on are.")
    eps: float = attr(
        1e-5, doc="Added to the variance, so that constants do not divide by 0.", least=0.0
    )

    def _infer(self, x: TensorSpec, *parameters: TensorSpec | None) -> TensorSpec:
        check_floating(self, x)
        normalized = x.shape[normalize_axis(self.axis, x.rank) :]
        for p in parameters:
            if p is not None and shapes_differ(p.shape, normalized):
                raise ShapeError(
                    "weight or bias does not fit", need=f"the normalised axes {normalized}"
                )
        return x

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the normalised axes, counted from the front."""
        return tuple(range(normalize_axis(self.axis, rank), rank))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 2}, "axis 2 is out of range")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "does not fit")
        yield ErrorSample((TensorSpec((2, 3), "int64"),), {}, "does not take int64")


def _deviation(axes: tuple[int, ...], eps: float) -> RootSumSquares:
    """Return √(mean x² + ε), whatever the scale of x."""
    return RootSumSquares(axis=axes, keepdims=True, mean=True, eps=eps)


class LayerNorm(_Normalize):
    """Bring each example to mean 0 and variance 1 over its last axes (Ba, Kiros, Hinton 2016).

    y = (x − mean x)/√(var x + ε)·weight + bias

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.layer_norm(g.constant([[1.0, 3.0], [5.0, 5.0]]))
    >>> g.output({}, y)["layer_norm"].round(3).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """

    onnx = OnnxRule("LayerNormalization", since=17, rename={"eps": "epsilon"})

    def infer(
        self, x: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None
    ) -> TensorSpec:
        return self._infer(x, weight, bias)

    def expand(self, x: Any, weight: Any = None, bias: Any = None) -> Any:
        wide = widen(x)
        axes = self.axes(x.rank)
        centred = wide - wide.mean(axes, keepdims=True)
        y = centred / _deviation(axes, self.eps)(centred)
        y = y if weight is None else y * weight
        y = y if bias is None else y + bias
        return cast_to(x.dtype, y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b = rng.standard_normal((4, 3)), rng.standard_normal(3), rng.standard_normal(3)
        yield Sample((x, w, b))
        yield Sample((x, None, b), {"eps": 0.1})
        yield Sample((rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 3))), {"axis": 1})
        yield Sample((rng.standard_normal((0, 3)), w))


class RmsNorm(_Normalize):
    """Divide each example by its root mean square over the last axes (Zhang, Sennrich 2019).

    torch's ε is that of the dtype where none is given, 1.2e-7 in float32: ``eps=1.2e-7``.

    y = x/√(mean x² + ε)·weight

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.rms_norm(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["rms_norm"].round(3)
    array([0.849, 1.131], dtype=float32)
    """

    onnx = OnnxRule("RMSNormalization", since=23, rename={"eps": "epsilon"})

    def infer(self, x: TensorSpec, weight: TensorSpec | None = None) -> TensorSpec:
        return self._infer(x, weight)

    def expand(self, x: Any, weight: Any = None) -> Any:
        wide = widen(x)
        y = wide / _deviation(self.axes(x.rank), self.eps)(wide)
        y = y if weight is None else y * weight
        return cast_to(x.dtype, y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((4, 3)), rng.standard_normal(3)))
        yield Sample((rng.standard_normal((4, 3)),), {"eps": 0.1})
        yield Sample((rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 3))), {"axis": -2})
        yield Sample((rng.standard_normal((0, 3)),))


LOWERED: dict[str, Any] = {"float32": np.float32(2.0**-40), "float64": np.float64(2.0**-400)}
"""What numbers are scaled by before they are squared; an ε that is seen keeps its digits, too."""


class BatchNorm(Op):
    """Bring each channel to mean 0 and variance 1 over the batch (Ioffe and Szegedy 2015).

    y = (x − μ)/√(σ² + ε)·weight + bias. In training μ and σ² are those of the batch, over all axes
    but ``axis``; in eval they are the running ones. The further outputs are the new running mean
    and variance, new = (1 − momentum)·old + momentum·batch as in torch (ONNX and Keras call
    1 − momentum the momentum), with the unbiased variance (ONNX: that over n); in eval they are
    the old ones.

    Where the running ones are variables, every training step stores them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 2))
    >>> y = gw.nn.batch_norm(x, name="bn")
    >>> with gw.Session(g) as session:
    ...     session.run(y, {"x": [[1.0, 5.0], [3.0, 9.0]]}, training=True).round(2).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    namespace = "nn"
    returns = "y", "running_mean", "running_var"
    drawing = "norm"
    autocast = Autocast.STATISTIC
    follows_mode = True
    axis: int = attr(1, doc="Channel axis.")
    momentum: float = attr(0.1, doc="Share of the batch in the new running statistics.")
    eps: float = attr(
        1e-5, doc="Added to the variance, so that constants do not divide by 0.", least=0.0
    )
    training: bool | None = attr(None, doc="Batch or running statistics; None follows the run.")
    unbiased: bool = attr(True, doc="Whether the running variance is over n − 1, not over n.")
    onnx = OnnxRule("BatchNormalization", since=15, rename={"eps": "epsilon"})

    @property
    def next_state(self) -> Mapping[int, int]:
        return {} if self.training is False else {3: 1, 4: 2}

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        bias: TensorSpec,
        running_mean: TensorSpec,
        running_var: TensorSpec,
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        check_floating(self, x)
        if not 0 <= self.momentum <= 1:
            raise GraphError(f"momentum={self.momentum} is no share", need="0 <= momentum <= 1")
        channels = x.shape[normalize_axis(self.axis, x.rank)]
        for p in (weight, bias, running_mean, running_var):
            if p.rank != 1 or differ(p.shape[0], channels):
                raise ShapeError(
                    "a parameter does not fit", need=f"one number per channel: {channels}"
                )
        least = 2 if self.unbiased else 1
        if self.training and x.is_concrete and self._count(x) < least:
            raise ShapeError(
                f"{'one value' if self._count(x) else 'no values'} per channel has no variance",
                need=f"a batch of {least} or more",
                hint="eval mode",
            )
        check_floats(self.name, weight, bias, running_mean, running_var)
        new = running_mean.with_shape(running_mean.shape), running_var.with_shape(running_var.shape)
        return x.with_shape(x.shape), *new

    def _count(self, x: Any) -> int:
        """Return how many values each channel has."""
        channel = normalize_axis(self.axis, x.rank)
        return math.prod(int(d) for i, d in enumerate(x.shape) if i != channel)

    def expand(self, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any) -> Any:
        channel = normalize_axis(self.axis, x.rank)
        trailing = tuple(range(1, x.rank - channel))

        def aligned(p: Any) -> Any:
            return ExpandDims(axis=trailing)(p) if trailing else p

        wide = widen(x)
        if self.training:
            others = tuple(i for i in range(x.rank) if i != channel)
            share, n = self.momentum, self._count(x)
            unbiased = n / (n - 1) if self.unbiased else 1.0
            mean = wide.mean(others)
            centred = wide - aligned(mean)
            low = LOWERED[wide.dtype.name]
            small = centred * low
            square = (small * small).mean(others)
            var = square * (1 / low) * (1 / low)
            if self.eps >= SEEN:
                deviation = Sqrt()(square + self.eps * low * low) * (1 / low)
            else:
                deviation = RootSumSquares(axis=others, mean=True, eps=self.eps)(centred)
        else:
            share, unbiased = 0.0, 1.0
            mean, var = running_mean, running_var
            centred = wide - aligned(mean)
            deviation = Sqrt()(var + self.eps)
        new_mean = running_mean * (1 - share) + cast_to(running_mean.dtype, mean) * share
        new_var = running_var * (1 - share) + cast_to(running_var.dtype, var) * (share * unbiased)
        scale = weight / deviation
        y = centred * aligned(scale) + aligned(bias)
        return cast_to(x.dtype, y), new_mean, new_var

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, axis in (((4, 3), 1), ((2, 3, 2, 2), 1), ((5, 2, 3), -1)):
            x, (w, b, mean) = rng.standard_normal(shape), rng.standard_normal((3, 3))
            var = rng.uniform(0.5, 2.0, 3)
            unbiased = axis > 0
            attrs = {"axis": axis, "momentum": 0.3, "unbiased": unbiased}
            yield Sample((x, w, b, mean, var), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, p = TensorSpec((4, 3)), TensorSpec((3,))
        yield ErrorSample((x, p, p, p, TensorSpec((4,))), {}, "one number per channel")
        yield ErrorSample((x, p, p, p, p), {"axis": 2}, "axis 2 is out of range")
        yield ErrorSample((x, p, p, p, p), {"momentum": 2.0}, "momentum=2.0 is no share")
        one = TensorSpec((1, 3))
        yield ErrorSample((one, p, p, p, p), {"training": True}, "has no variance")
