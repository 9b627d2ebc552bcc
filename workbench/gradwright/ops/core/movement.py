"""Ops that change the dtype, or the order of axes and elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import (
    TensorSpec,
    at_least_float32,
    differ,
    dtype,
    is_floating,
    kind,
    normalize_axes,
    normalize_axis,
    promote_all,
)
from ...spec.rounding import rounded
from ..numerics.standard import library

_POWERS = dtype("float8_e8m0fnu")
_SATURATED = frozenset(
    map(dtype, ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"))
)


class Cast(Op):
    """Convert the elements to another dtype; float to int rounds toward zero, to float to nearest.

    y = dtype(x). An integer that does not fit loses its higher bits, a float becomes infinite; to
    float8, ``saturate`` (ONNX Cast-25) gives the largest number instead, also for infinities.
    float8_e8m0fnu holds powers of two: ``round_mode`` says which one is taken.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([-1.5, 2.5, 1000.0])
    >>> g.output({}, gw.cast(x, "int32", name="y"))["y"].tolist()
    [-1, 2, 1000]
    >>> g.output({}, gw.cast(x, "float8_e4m3fn", name="z"))["z"].tolist()
    [-1.5, 2.5, 448.0]
    """

    namespace = "base"
    drawing = "shape"
    never_fails = True
    value_rule = True
    is_method = True
    dependence = AFFINE
    dtype: np.dtype[Any] = attr(doc="Dtype of the result.")
    saturate: bool = attr(True, doc="Whether float8 takes its largest number for larger ones.")
    round_mode: str = attr(
        "up", doc="Power of two for float8_e8m0fnu.", choices=("up", "down", "nearest")
    )
    onnx = OnnxRule("Cast", since=13, rename={"dtype": "to"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x.with_dtype(self.dtype)

    def forward(self, x: Any) -> Any:
        if x.dtype == object:
            return x
        if x.dtype.kind == "c" and self.dtype.kind != "c":
            x = x.real
        with np.errstate(invalid="ignore", over="ignore"):
            if self.dtype == _POWERS:
                return _power_of_two(x, self.saturate, self.round_mode)
            if self.saturate and self.dtype in _SATURATED and x.dtype != self.dtype:
                top = float(ml_dtypes.finfo(self.dtype).max)  # type: ignore[no-untyped-call]
                x = np.clip(x.astype(np.result_type(x.dtype, np.float32)), -top, top)
            y = rounded(x, self.dtype)
            return y.copy() if y is x else y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] if is_floating(self.dtype) else ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x,), {"dtype": dtype("float64")})
        yield Sample((x.astype(np.float32),), {"dtype": dtype("float64")}, smooth=False)
        yield Sample((x * 3,), {"dtype": dtype("int32")})
        yield Sample((x,), {"dtype": dtype("bfloat16")}, smooth=False)
        wide = np.array([0.0, -1e9, 1e9, 3.0, np.nan, np.inf])
        yield Sample((wide,), {"dtype": dtype("float8_e5m2fnuz")}, smooth=False)
        yield Sample((wide,), {"dtype": dtype("float8_e8m0fnu"), "saturate": False}, smooth=False)
        yield Sample((x * 3,), {"dtype": dtype("int4")})


def _power_of_two(x: Any, saturate: bool, mode: str) -> Any:
    """Return x as float8_e8m0fnu: the biased exponent k + 127 of 2ᵏ, 255 for what is no number.

    Neither zero nor negative numbers exist: zero saturates to 2⁻¹²⁷, the rest is no number.
    """
    mantissa, exponent = np.frexp(x.astype(np.result_type(x.dtype, np.float32)))  # in [0.5, 1)
    above = {"up": mantissa > 0.5, "down": False, "nearest": mantissa >= 0.75}[mode]
    k = np.where(x == 0, -1 << 20, np.where(np.isinf(x), 1 << 20, exponent - 1 + above))
    lost = np.isnan(x) | (x < 0) | ((not saturate) & (np.abs(k) > 127))
    return np.where(lost, 255, np.clip(k, -127, 127) + 127).astype(np.uint8).view(_POWERS)


def cast_to(dtype: Any, x: Any) -> Any:
    """Return a tensor in a dtype; itself if it has it."""
    return x if x.dtype == dtype else Cast(dtype=dtype)(x)


def alike(*xs: Any) -> tuple[Any, ...]:
    """Return tensors with ints and bools in the common dtype, where that is of another kind.

    So a composite counts them as the numbers that its result holds: a product of bools is a bool,
    and one of ints overflows where floats do not. None stays None.
    """
    joint = promote_all(*(x.spec for x in xs if x is not None))
    same = (None, kind(joint))
    return tuple(x if x is None or kind(x.dtype) in same else Cast(dtype=joint)(x) for x in xs)


def widen(x: Any) -> Any:
    """Return a tensor in the dtype in which an op computes: halves in float32."""
    return cast_to(at_least_float32(x.dtype), x)


class Moving(Op, abstract=True):
    """The same elements in other places; text and numbers alike."""

    namespace = "base"
    drawing = "shape"
    never_fails = True
    by_reference = "s"
    dependence = LINEAR


class Transpose(Moving):
    """Permute the axes.

    y[i₀, …] = x[permuted i]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.transpose(g.placeholder("x", ("B", "T", 8)), (0, 2, 1)).shape
    (B, 8, T)
    """

    views = True
    axes: tuple[int, ...] | None = attr(None, doc="New order of the axes; None reverses them.")
    array_api = True
    onnx = OnnxRule("Transpose", since=13, rename={"axes": "perm"})

    def order(self, rank: int) -> tuple[int, ...]:
        """Return the permutation for a tensor of this rank."""
        if self.axes is None:
            return tuple(reversed(range(rank)))
        return tuple(normalize_axis(a, rank) for a in self.axes)

    def infer(self, x: TensorSpec) -> TensorSpec:
        order = self.order(x.rank)
        if sorted(order) != list(range(x.rank)):
            raise ShapeError(
                f"axes {self.axes} are no permutation", need=f"each of 0..{x.rank - 1} once"
            )
        return x.with_shape([x.shape[a] for a in order])

    def forward(self, x: Any) -> Any:
        return library(x).permute_dims(x, self.order(x.ndim))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        inverse = np.argsort(self.order(xs[0].rank)).tolist()
        return (Transpose(axes=inverse)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 3, 4)),), {"axes": (1, 2, 0)})
        yield Sample((rng.standard_normal((2, 0, 4)),), {"axes": (-1, 0, 1)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axes": (0, 0)}, "no permutation")
        yield ErrorSample((TensorSpec((2, 3)),), {"axes": (0, 2)}, "out of range")


class Swapaxes(Moving):
    """Exchange two axes.

    y[…, j, …, i, …] = x[…, i, …, j, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.swapaxes(g.constant([[1, 2], [3, 4]]), 0, 1)
    >>> g.output({}, y)["swapaxes"].tolist()
    [[1, 3], [2, 4]]
    """

    views = True
    is_method = True
    axis1: int = attr(doc="One axis.")
    axis2: int = attr(doc="The other axis.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        shape = list(x.shape)
        a, b = (normalize_axis(i, x.rank) for i in (self.axis1, self.axis2))
        shape[a], shape[b] = shape[b], shape[a]
        return x.with_shape(shape)

    def forward(self, x: Any) -> Any:
        return x.swapaxes(self.axis1, self.axis2)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4)),), {"axis1": 0, "axis2": -1})
        yield Sample((rng.standard_normal((0, 3)),), {"axis1": 1, "axis2": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis1": 0, "axis2": 2}, "out of range")


class ExpandDims(Moving):
    """Insert axes of size 1.

    y[…, 0, …] = x[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.expand_dims(g.constant([1, 2]), 0)
    >>> g.output({}, y)["expand_dims"].tolist()
    [[1, 2]]
    """

    views = True
    is_method = True
    value_rule = True
    axis: int | tuple[int, ...] = attr(doc="Positions of the new axes in the result.")
    onnx = OnnxRule("Unsqueeze", since=13, rename={"axis": "axes"})

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the new axes, counted from the front of the result."""
        new = 1 if isinstance(self.axis, int) else len(self.axis)
        return normalize_axes(self.axis, rank + new)

    def infer(self, x: TensorSpec) -> TensorSpec:
        shape = list(x.shape)
        for a in self.axes(x.rank):
            shape.insert(a, 1)
        return x.with_shape(shape)

    def forward(self, x: Any) -> Any:
        return np.expand_dims(x, self.axes(x.ndim))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Squeeze(axis=self.axes(xs[0].rank))(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 1})
        yield Sample((rng.standard_normal((2, 3)),), {"axis": (0, -1)})
        yield Sample((rng.standard_normal(()),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 3}, "out of range")
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": (0, -4)}, "named twice")


class Squeeze(Moving):
    """Drop axes of size 1.

    y[…] = x[…, 0, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.squeeze(g.constant([[1, 2]]))
    >>> g.output({}, y)["squeeze"].tolist()
    [1, 2]
    """

    views = True
    is_method = True
    value_rule = True
    axis: int | tuple[int, ...] | None = attr(None, doc="Axes to drop; None drops all of size 1.")
    array_api = True
    onnx = OnnxRule("Squeeze", since=13, rename={"axis": "axes"})

    def axes(self, shape: Sequence[Any]) -> tuple[int, ...]:
        """Return the dropped axes, counted from the front."""
        if self.axis is None:
            return tuple(i for i, d in enumerate(shape) if isinstance(d, int) and d == 1)
        return normalize_axes(self.axis, len(shape))

    def infer(self, x: TensorSpec) -> TensorSpec:
        axes = self.axes(x.shape)
        for a in axes:
            if differ(x.shape[a], 1):
                raise ShapeError(f"axis {a} has size {x.shape[a]}", need="size 1")
        return x.with_shape([d for i, d in enumerate(x.shape) if i not in axes])

    def forward(self, x: Any) -> Any:
        return library(x).squeeze(x, axis=self.axes(x.shape))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        axes = self.axes(xs[0].shape)
        return (ExpandDims(axis=axes)(gs[0]) if axes else gs[0],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 1, 3, 1)),))
        yield Sample((rng.standard_normal((2, 1, 3, 1)),), {"axis": 1})
        yield Sample((rng.standard_normal((2, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 1}, "has size 3")


class Flip(Moving):
    """Reverse the order of the elements along axes.

    y[…, i, …] = x[…, n − 1 − i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.flip(g.constant([1, 2, 3]))
    >>> g.output({}, y)["flip"].tolist()
    [3, 2, 1]
    """

    views = True
    is_method = True
    array_api = True
    axis: int | tuple[int, ...] | None = attr(None, doc="Axes to reverse; None reverses all.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        normalize_axes(self.axis, x.rank)
        return x

    def forward(self, x: Any) -> Any:
        return library(x).flip(x, axis=self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 3, 2)),), {"axis": (0, -1)})
        yield Sample((rng.standard_normal((0,)),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 2}, "out of range")


class Roll(Moving):
    """Shift elements along axes; those that leave at one end come in at the other.

    y[…, (i + shift) mod n, …] = x[…, i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.roll(g.constant([1, 2, 3]), 1))["roll"].tolist()
    [3, 1, 2]
    """

    is_method = True
    array_api = True
    shift: int | tuple[int, ...] = attr(doc="Places to shift by, per axis.")
    axis: int | tuple[int, ...] | None = attr(None, doc="Axes; None rolls the flattened tensor.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        axes = (self.axis,) if isinstance(self.axis, int) else self.axis or ()
        for a in axes:
            normalize_axis(a, x.rank)
        if isinstance(self.shift, tuple) and len(self.shift) != len(axes):
            raise ShapeError(f"{len(self.shift)} shifts for {len(axes)} axes")
        return x

    def forward(self, x: Any) -> Any:
        return library(x).roll(x, self.shift, axis=self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        back = -self.shift if isinstance(self.shift, int) else tuple(-s for s in self.shift)
        return (Roll(shift=back, axis=self.axis)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), {"shift": 4})
        yield Sample((rng.standard_normal((2, 3)),), {"shift": (1, -1), "axis": (0, -1)})
        yield Sample((rng.standard_normal((0, 3)),), {"shift": 1, "axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"shift": 1, "axis": 2}, "out of range")
        yield ErrorSample((TensorSpec((2, 3)),), {"shift": (1, 2), "axis": 0}, "2 shifts for 1")
