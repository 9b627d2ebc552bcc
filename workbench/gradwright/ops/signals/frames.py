"""Signals cut into frames that overlap, and frames added up to a signal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...errors import ShapeError
from ...op import LINEAR, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, kind
from ..core.special import widened
from .fourier import CutOrPadLike


class Frame(Op):
    """Frames of the last axis, each ``frame_step`` after the one before; a rest is left out.

    y[…, f, i] = x[…, f·frame_step + i]

    ``f32[..., T]`` becomes ``f32[..., ⌊(T − frame_length)/frame_step⌋ + 1, frame_length]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.frame(g.constant([1, 2, 3, 4, 5, 6]), 3, 2))["frame"].tolist()
    [[1, 2, 3], [3, 4, 5]]
    """

    namespace = "signal"
    views = True
    dependence = LINEAR
    frame_length: AnyDim = attr(doc="Number of elements of a frame.")
    frame_step: int = attr(doc="Distance of the starts of two frames.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        length, step = self.frame_length, self.frame_step
        if not x.rank:
            raise ShapeError("a scalar has no frames", need="rank 1 or more")
        if step < 1 or (isinstance(length, int) and length < 1):
            raise ShapeError(f"frames of {length} every {step}", need="both 1 or more")
        n = x.shape[-1]
        rest = n - length
        if isinstance(rest, int) and rest < 0:
            raise ShapeError("the signal is shorter than a frame", need=f"{length}, got {n}")
        return x.with_shape((*x.shape[:-1], rest // step + 1, length))

    def forward(self, x: Any) -> Any:
        length: Any = self.frame_length
        return sliding_window_view(x, length, -1)[..., :: self.frame_step, :]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (CutOrPadLike()(OverlapAdd(frame_step=self.frame_step)(gs[0]), xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 8)),), {"frame_length": 4, "frame_step": 3})
        yield Sample((rng.standard_normal(5),), {"frame_length": 2, "frame_step": 3})
        yield Sample((rng.standard_normal((0, 3)),), {"frame_length": 3, "frame_step": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        sizes = {"frame_length": 4, "frame_step": 1}
        yield ErrorSample((TensorSpec((3,)),), sizes, "shorter than a frame")
        yield ErrorSample((TensorSpec(()),), sizes, "no frames")
        yield ErrorSample((TensorSpec((3,)),), {"frame_length": 2, "frame_step": 0}, "every 0")


class OverlapAdd(Op):
    """Sum of frames, each placed ``frame_step`` after the one before: the transpose of ``frame``.

    y[…, t] = Σ x[…, f, i] over f·frame_step + i = t

    ``f32[..., F, L]`` becomes ``f32[..., (F − 1)·frame_step + L]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.signal.overlap_add(x, 2))["overlap_add"].tolist()
    [1, 2, 7, 5, 6]
    """

    namespace = "signal"
    dependence = LINEAR
    frame_step: int = attr(doc="Distance of the starts of two frames.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank < 2 or x.shape[-2] == 0 or x.shape[-1] == 0:
            raise ShapeError("overlap_add needs frames", need=f"[..., F, L], none empty, got {x}")
        if self.frame_step < 1:
            raise ShapeError(f"frames every {self.frame_step}", need="1 or more")
        return x.with_shape((*x.shape[:-2], (x.shape[-2] - 1) * self.frame_step + x.shape[-1]))

    def forward(self, x: Any) -> Any:
        (*lead, n, length), step = x.shape, self.frame_step
        wide = widened(x) if kind(x.dtype) == "f" else x
        total, over = (n - 1) * step + length, -(-length // step)
        y = np.zeros((*lead, n + over - 1, step), wide.dtype)
        if n < over:
            flat = y.reshape(*lead, (n + over - 1) * step)
            for f in range(n):
                flat[..., f * step : f * step + length] += wide[..., f, :]
        else:
            for j in range(over):  # every frame's part that lies j steps behind its start
                part = wide[..., j * step : (j + 1) * step]
                y[..., j : j + n, : part.shape[-1]] += part
        return y.reshape(*lead, (n + over - 1) * step)[..., :total].astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Frame(frame_length=xs[0].shape[-1], frame_step=self.frame_step)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 5)),), {"frame_step": 2})
        yield Sample((rng.standard_normal((2, 5)),), {"frame_step": 1})
        yield Sample((rng.standard_normal((2, 2)),), {"frame_step": 3})
        yield Sample((rng.standard_normal((0, 2, 2)),), {"frame_step": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {"frame_step": 1}, "needs frames")
        yield ErrorSample((TensorSpec((3, 2)),), {"frame_step": 0}, "every 0")
