"""Fourier transforms with real and imaginary parts on a last axis, whole and of short frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, differ, kind, normalize_axis
from ..core.choice import Where
from ..core.creation import Full
from ..core.movement import alike
from ..core.reshape import BroadcastTo
from .common import InFloat32
from .fourier import CutOrPadLike, Fft, Ifft, Irfft, Rfft
from .frames import Frame, OverlapAdd
from .parts import ViewAsComplex, ViewAsReal


def joined(x: Any) -> Any:
    """Return the numbers whose real part, and imaginary part if any, are on the last axis."""
    return ViewAsComplex()(x) if x.shape[-1] == 2 else x[..., 0]


def check_parts(op: Op, x: TensorSpec, allowed: tuple[int, ...], rank: int) -> None:
    """Refuse what has no real and imaginary parts on its last axis."""
    if kind(x.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {x.dtype}", need="floats, parts on a last axis")
    if x.rank < rank or x.shape[-1] not in allowed:
        sizes = " or ".join(map(str, allowed))
        raise ShapeError(
            f"{op.name} needs real and imaginary parts on a last axis",
            need=f"rank {rank} or more, last size {sizes}, got {x}",
        )


class Dft(InFloat32):
    """Fourier transform with real and imaginary parts on the last axis (ONNX DFT-20).

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n); inverse: y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n)

    ``f32[..., N, ..., 1]`` (real) or ``f32[..., N, ..., 2]`` becomes ``f32[..., n, ..., 2]``. With
    ``onesided`` the transform of a real tensor has ⌊n/2⌋ + 1 bins, and the inverse takes such a
    half and gives a real tensor ``f32[..., n, ..., 1]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.signal.dft(g.placeholder("x", ("B", 8, 1)), onesided=True).shape
    (B, 5, 2)
    """

    namespace = "signal"
    dft_length: AnyDim | None = attr(None, doc="Number of elements transformed: n.")
    axis: int = attr(-2, doc="Axis to transform; not the last one.")
    inverse: bool = attr(False, doc="Whether to transform back.")
    onesided: bool = attr(False, doc="Whether only one half of a symmetric spectrum is stored.")
    onnx = OnnxRule("DFT", since=20, inputs=("dft_length", "axis"))

    def infer(self, x: TensorSpec) -> Any:
        both, forward = (1, 2), self.onesided and not self.inverse
        allowed = both if not self.onesided else (1,) if forward else (2,)
        check_parts(self, x, allowed, 2)
        if normalize_axis(self.axis, x.rank) == x.rank - 1:
            raise ShapeError("dft cannot transform the axis of real and imaginary parts")
        return super().infer(x)

    def computed(self, x: Any) -> Any:
        axis, n = normalize_axis(self.axis, x.rank), self.dft_length
        if self.onesided and self.inverse:
            return Irfft(n=n, axis=axis)(joined(x))[..., None]
        kind_of = Rfft if self.onesided else Ifft if self.inverse else Fft
        return ViewAsReal()(kind_of(n=n, axis=axis)(joined(x)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 1)),), {"onesided": True})
        yield Sample((rng.standard_normal((3, 2, 2)),), {"axis": 0, "dft_length": 4})
        yield Sample((rng.standard_normal((3, 2)),), {"inverse": True, "dft_length": 2})
        yield Sample((rng.standard_normal((1, 3, 2)),), {"inverse": True, "onesided": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((8, 3)),), {}, "real and imaginary parts")
        yield ErrorSample((TensorSpec((8, 2)),), {"onesided": True}, "last size 1")
        yield ErrorSample((TensorSpec((8, 2)),), {"axis": 1}, "cannot transform")
        yield ErrorSample((TensorSpec((8, 1), "int64"),), {}, "does not take int64")


class Stft(InFloat32):
    """Fourier transforms of frames that slide over a signal (ONNX STFT-17).

    y[…, f, k] = Σⱼ window[j]·x[…, f·frame_step + j]·e^(−2πi·jk/L)

    ``signal: f32[..., T, 1]`` or, if complex, ``f32[..., T, 2]``, ``window: f32[L]``, and
    y: f32[..., ⌊(T − L)/frame_step⌋ + 1, K, 2] with K = ⌊L/2⌋ + 1 bins, or L without ``onesided``.
    The signal is not extended at its ends.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 16, 1))
    >>> gw.signal.stft(x, frame_step=4, frame_length=8).shape
    (B, 3, 5, 2)
    """

    namespace = "signal"
    frame_step: int = attr(doc="Distance of the starts of two frames.")
    frame_length: AnyDim | None = attr(
        None, doc="Number of elements of a frame: L; None: that of the window, or of the signal."
    )
    onesided: bool = attr(True, doc="Whether only one half of a symmetric spectrum is computed.")
    onnx = OnnxRule("STFT", since=17)

    def infer(self, signal: TensorSpec, window: TensorSpec | None = None) -> Any:
        check_parts(self, signal, (1,) if self.onesided else (1, 2), 2)
        if window is not None and (
            window.rank != 1
            or (self.frame_length is not None and differ(window.shape[0], self.frame_length))
        ):
            raise ShapeError(
                "the window does not fit", need=f"f32[{self.frame_length or 'L'}], got {window}"
            )
        return super().infer(signal, window)

    def computed(self, signal: Any, window: Any = None) -> Any:
        length = self.frame_length
        if length is None:
            length = signal.shape[-2] if window is None else window.shape[0]
        cut = Frame(frame_length=length, frame_step=self.frame_step)
        frames = cut(joined(signal))
        if window is not None:
            frames = frames * window
        return ViewAsReal()((Rfft if self.onesided else Fft)()(frames))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 7, 1)), draw(4)), {"frame_step": 2})
        yield Sample((draw((1, 4, 2)), draw(3)), {"frame_step": 1, "onesided": False})
        yield Sample((draw((4, 1)), None), {"frame_step": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        signal, window = TensorSpec((1, 8, 1)), TensorSpec((4,))
        step = {"frame_step": 2}
        yield ErrorSample((signal, window), {**step, "frame_length": 5}, "does not fit")
        yield ErrorSample((TensorSpec((1, 8, 2)), window), step, "last size 1")
        yield ErrorSample((TensorSpec((1, 3, 1)), window), step, "shorter than a frame")


class Istft(InFloat32):
    """Signal whose frames have given Fourier transforms, as nearly as it can (Griffin, Lim 1984).

    y[…, t] = Σ window[i]·xₜ[…, f, i] / Σ window[i]² over f·frame_step + i = t

    where xₜ are the frames transformed back. It undoes ``stft`` where windows overlap; where all of
    them are 0, so is y. ``spectrum: f32[..., F, K, 2]``, ``window: f32[L]``, and the result is
    ``f32[..., T, 1]``, or without ``onesided`` ``f32[..., T, 2]``, with
    T = (F − 1)·frame_step + L unless ``length`` is given.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3, 5, 2))
    >>> gw.signal.istft(x, frame_step=4).shape
    (B, 16, 1)
    """

    namespace = "signal"
    frame_step: int = attr(doc="Distance of the starts of two frames.")
    frame_length: AnyDim | None = attr(
        None, doc="Number of elements of a frame: L; None: what an even one must be."
    )
    onesided: bool = attr(True, doc="Whether only one half of a symmetric spectrum is given.")
    length: AnyDim | None = attr(None, doc="Length of the result, cut or filled up with zeros.")

    def frame(self, bins: AnyDim) -> AnyDim:
        """Return the length of a frame."""
        if self.frame_length is not None:
            return self.frame_length
        return (bins - 1) * 2 if self.onesided else bins

    def infer(self, spectrum: TensorSpec, window: TensorSpec | None = None) -> Any:
        check_parts(self, spectrum, (2,), 3)
        bins = spectrum.shape[-2]
        size = self.frame(bins)
        if differ(bins, size // 2 + 1 if self.onesided else size):
            raise ShapeError(f"{bins} bins are no transform of a frame of {size}")
        if window is not None and (window.rank != 1 or differ(window.shape[0], size)):
            raise ShapeError("the window does not fit", need=f"f32[{size}], got {window}")
        return super().infer(spectrum, window)

    def computed(self, spectrum: Any, window: Any = None) -> Any:
        n_frames, size = spectrum.shape[-3], self.frame(spectrum.shape[-2])
        if window is None:
            window = Full(shape=(size,), fill_value=1.0, dtype=spectrum.dtype)()
        back = Irfft if self.onesided else Ifft
        spectrum, window = alike(spectrum, window)
        place = OverlapAdd(frame_step=self.frame_step)
        total = place(back(n=size)(joined(spectrum)) * window)
        weight = place(BroadcastTo(shape=(n_frames, size))(window * window))
        silent = weight < 1e-11
        y = Where()(silent, 0.0, total / Where()(silent, 1.0, weight))
        if self.length is not None:
            y = CutOrPadLike()(y, Full(shape=(*y.shape[:-1], self.length))())
        return y[..., None] if self.onesided else ViewAsReal()(y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        window = rng.uniform(0.5, 1, 4)
        yield Sample((draw((2, 2, 3, 2)), window), {"frame_step": 2})
        yield Sample((draw((2, 3, 2)), window[:3]), {"frame_step": 2, "onesided": False})
        yield Sample((draw((2, 3, 2)), None), {"frame_step": 3, "frame_length": 5, "length": 9})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        step = {"frame_step": 2}
        yield ErrorSample((TensorSpec((2, 3, 2)), TensorSpec((5,))), step, "does not fit")
        yield ErrorSample((TensorSpec((2, 3, 1)),), step, "real and imaginary parts")
        yield ErrorSample((TensorSpec((2, 3, 2)),), {**step, "frame_length": 8}, "3 bins")
