"""Ops on the samples of sound: filters, levels, pitch, another rate; and how loud tones seem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, dtype
from ...spec.rounding import rounded
from ..core.choice import Maximum, Where
from ..core.creation import Arange
from ..core.elementwise import Abs
from ..core.exponential import Sqrt
from ..core.functions import Log10, Square
from ..core.movement import Cast
from ..core.padding import Pad
from ..core.quantifiers import Argmax
from ..core.reduce import Max, Mean, Sum
from ..core.reshape import Flatten
from ..core.scatter import TakeAlongAxis
from .fourier import Irfft, Rfft
from .frames import Frame
from .spectral import OfSound, energy


def pad_last(x: Any, before: int, after: int, mode: str = "constant") -> Any:
    """Extend the last axis."""
    return Pad(pad_width=((0, 0),) * (x.rank - 1) + ((before, after),), mode=mode)(x)


class PreEmphasis(OfSound):
    """High-pass filter that lifts what speech has little of.

    y[t] = x[t] − coefficient·x[t − 1],  y[0] = x[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> g.output({}, gw.audio.pre_emphasis(x, 0.5, name="y"))["y"].tolist()
    [1.0, 1.5, 2.0]
    """

    coefficient: float = attr(0.97, doc="How much of the sample before is taken off.")

    def computed(self, x: Any) -> Any:
        return x - pad_last(x, 1, 0)[..., :-1] * float(self.coefficient)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 4)),))
        yield Sample((rng.standard_normal(0),))


class AudioNormalize(OfSound):
    """Bring each signal to a level; silence stays.

    y = level·x / max |x|, or level·x / √(mean x²) in the mode "rms"

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.audio.audio_normalize(g.constant([1.0, -2.0]), name="y"))["y"].tolist()
    [0.5, -1.0]
    """

    mode: str = attr("peak", doc="What is brought to the level.", choices=("peak", "rms"))
    level: float = attr(1.0, doc="The level.")

    def computed(self, x: Any) -> Any:
        if self.mode == "peak":
            size = Max(axis=-1, keepdims=True)(Abs()(x))
        else:
            size = Mean(axis=-1, keepdims=True)(Square()(x))
        size = Where()(size == 0.0, 1.0, size)
        return x * float(self.level) / (size if self.mode == "peak" else Sqrt()(size))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 4)),), {"level": 0.5})
        yield Sample((rng.standard_normal(3),), {"mode": "rms"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"mode": "max"}, "is not known")


_POLES = tuple(f * f for f in (20.598997, 107.65265, 737.86223, 12194.217))


class AWeighting(OfSound):
    """How much less loud a tone seems than one of 1 kHz, in decibels (IEC 61672-1:2013).

    A(f) = 20·log₁₀(R(f)/R(1000)),
    R(f) = f₄²·f⁴ / ((f² + f₁²)·√((f² + f₂²)·(f² + f₃²))·(f² + f₄²))

    with f₁ … f₄ = 20.6, 107.7, 737.9 and 12194 Hz. Frequencies below 10⁻⁵ Hz count as that.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> f = g.constant([100.0, 1000.0], dtype="float64")
    >>> (g.output({}, gw.audio.a_weighting(f, name="y"))["y"].round(1) + 0.0).tolist()
    [-19.1, 0.0]
    """

    inner = 0

    def computed(self, x: Any) -> Any:
        gain = self.gain(Maximum()(Square()(x), 1e-10), Sqrt())
        return Log10()(gain * (1 / self.gain(1e6, math.sqrt))) * 20.0

    @staticmethod
    def gain(square: Any, root: Any) -> Any:
        """Return R of the square of a frequency, each factor near 1 where it matters."""
        first, second, third, fourth = (square + pole for pole in _POLES)
        middle = root(square / second) * root(square / third)
        return square / first * middle * (_POLES[3] / fourth)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.uniform(20, 20000, (2, 2)),))
        yield Sample((np.array(100.0),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int16"),), {}, "does not take int16")


class _OfFrames(OfSound):
    """A feature of frames that are centred at every hop."""

    frame_length: int
    hop_length: int

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        if min(self.frame_length, self.hop_length) < 1:
            raise ShapeError(f"{self!r} makes no sense", need="lengths of 1 or more")

    def frames(self, x: Any, mode: str) -> Any:
        """Return the frames of the extended signal."""
        half = self.frame_length // 2
        padded = pad_last(x, half, half, mode)
        return Frame(frame_length=self.frame_length, frame_step=self.hop_length)(padded)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"hop_length": 0}, "makes no sense")


class ZeroCrossingRate(_OfFrames):
    """How often the sign changes within each frame, per sample; it has no slope.

    y[…, f] = #{t : (x[t] < 0) ≠ (x[t − 1] < 0)} / frame_length

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``; the signal goes on with its first and
    last sample.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, -1.0, 1.0, -1.0, 1.0])
    >>> y = gw.audio.zero_crossing_rate(x, frame_length=4, hop_length=4, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.25, 0.5]
    """

    frame_length: int = attr(2048, doc="Number of samples of a frame.")
    hop_length: int = attr(512, doc="Distance of two frames in samples.")

    def computed(self, x: Any) -> Any:
        below = self.frames(x, "edge") < 0.0
        changes = Sum(axis=-1)(below[..., 1:] != below[..., :-1])
        return Cast(dtype=x.dtype)(changes) / float(self.frame_length)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 7)),), {"frame_length": 4, "hop_length": 2})
        yield Sample((np.array([0.0, -0.0, 1.0, -1.0]),), {"frame_length": 2, "hop_length": 3})


class PitchDetection(_OfFrames):
    """Pitch of each frame in Hertz: where its autocorrelation is largest; 0 where there is none.

    y[…, f] = sample_rate / τ,  τ = argmax Σₜ x[t]·x[t + τ] over sample_rate/f_max ≤ τ ≤
    sample_rate/f_min

    The place of the largest sum is refined by a parabola through it and its neighbours, each
    divided by the part of the frame that it runs over, so that pitch is a smooth function of the
    samples between jumps. A frame has none if that value is below ``threshold`` times its energy.
    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 440 / 22050 * np.arange(22050)))
    >>> round(float(g.output({}, gw.audio.pitch_detection(x, name="y"))["y"][20]))
    440
    """

    sample_rate: int = attr(22050, doc="Samples per second.")
    f_min: float = attr(80.0, doc="Lowest pitch in Hertz.")
    f_max: float = attr(1000.0, doc="Highest pitch in Hertz.")
    frame_length: int = attr(2048, doc="Number of samples of a frame.")
    hop_length: int = attr(512, doc="Distance of two frames in samples.")
    threshold: float = attr(0.1, doc="Part of a frame's energy that a pitch must explain.")

    def lags(self) -> tuple[int, int]:
        """Return the shortest and longest period in samples."""
        return int(self.sample_rate / self.f_max), math.ceil(self.sample_rate / self.f_min)

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        if not 0 < self.f_min < self.f_max <= self.sample_rate / 2:
            raise ShapeError(
                f"no pitch from {self.f_min} to {self.f_max} Hz",
                need=f"0 < f_min < f_max <= sample_rate/2 = {self.sample_rate / 2}",
            )
        if self.lags()[1] + 1 >= self.frame_length:
            raise ShapeError(
                f"a frame is shorter than a period of {self.f_min} Hz",
                need=f"frame_length > {self.lags()[1] + 1}, got {self.frame_length}",
            )

    def computed(self, x: Any) -> Any:
        frames, n = self.frames(x, "constant"), 2 * self.frame_length
        r = Irfft(n=n)(energy(Rfft(n=n)(frames)))
        first, last = self.lags()
        place = Argmax(axis=-1, keepdims=True)(r[..., first : last + 1])
        lag = Arange(start=last + 2, dtype=x.dtype)()
        fair = r[..., : last + 2] * (self.frame_length / (self.frame_length - lag))
        before, at, after = (
            TakeAlongAxis(axis=-1)(fair[..., first + k : last + 1 + k], place)[..., 0]
            for k in (-1, 0, 1)
        )
        bend = before - at * 2.0 + after
        shift = (before - after) * 0.5 / Where()(bend == 0.0, 1.0, bend)
        period = Cast(dtype=x.dtype)(place[..., 0] + first) + shift
        voiced = at > r[..., 0] * float(self.threshold)
        return Where()(voiced, float(self.sample_rate) / period, 0.0)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        small = {"sample_rate": 16, "f_min": 2.5, "f_max": 8.0, "frame_length": 10}
        tone = np.sin(1.7 * np.arange(12)) + 0.1 * rng.standard_normal((2, 12))
        yield Sample((tone,), {**small, "hop_length": 6})
        yield Sample((np.zeros(4),), {**small, "hop_length": 3}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"f_max": 20.0}, "no pitch from")
        yield ErrorSample((TensorSpec((9,)),), {"frame_length": 200}, "shorter than a period")


class LanczosKernel(Op):
    """Weights with which one period of another sampling rate is made, one column per sample.

    y[i, p] ∝ sinc(c·t)·sinc(c·t/width) for |c·t| < width, else 0

    with t = i − r − p·down/up, c = min(1, up/down) and r = ⌈width/c⌉; columns add up to 1.

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.lanczos_kernel(up=2, down=1).shape
    (14, 2)
    """

    namespace = "audio"
    up: int = attr(doc="Samples of the new rate in a period of both.")
    down: int = attr(doc="Samples of the old rate in it.")
    width: int = attr(6, doc="Zero crossings on each side.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    @property
    def reach(self) -> int:
        """How many old samples on each side matter."""
        return -(-self.width * max(self.up, self.down) // self.up)

    def infer(self) -> TensorSpec:
        if min(self.up, self.down, self.width) < 1:
            raise ShapeError(f"{self!r} makes no sense", need="rates and width of 1 or more")
        return TensorSpec((2 * self.reach + self.down + 1, self.up), self.dtype)

    def forward(self) -> Any:
        cutoff = min(1.0, self.up / self.down)
        i = np.arange(2 * self.reach + self.down + 1)[:, None]
        t = cutoff * (i - self.reach - np.arange(self.up) * (self.down / self.up))
        y = np.where(np.abs(t) < self.width, np.sinc(t) * np.sinc(t / self.width), 0)
        return rounded(y / y.sum(0), self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"up": 2, "down": 3, "width": 2})
        yield Sample((), {"up": 1, "down": 1, "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"up": 0, "down": 1}, "makes no sense")


class Resample(OfSound):
    """Signal at another sampling rate, by a windowed sinc (Lanczos; Duchon 1979).

    y[n] = Σₜ x[t]·h(n·orig_rate/new_rate − t), h as ``lanczos_kernel``, x = 0 beyond its ends

    ``f32[..., T]`` becomes ``f32[..., ⌈T·new_rate/orig_rate⌉]``. What the lower rate cannot hold is
    filtered out.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.resample(g.placeholder("x", ("B", 44100)), 44100, 16000).shape
    (B, 16000)
    """

    orig_rate: int = attr(doc="Samples per second of the input.")
    new_rate: int = attr(doc="Samples per second of the result.")
    width: int = attr(6, doc="Zero crossings of the kernel on each side.")

    def kernel(self, d: Any) -> LanczosKernel:
        """Return the op that makes the weights."""
        common = math.gcd(self.orig_rate, self.new_rate) or 1
        return LanczosKernel(
            up=self.new_rate // common, down=self.orig_rate // common, width=self.width, dtype=d
        )

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        self.kernel(x.dtype).infer()
        if x.shape[-1] == 0:
            raise ShapeError("resample needs samples", need="one or more, got 0")

    def computed(self, x: Any) -> Any:
        kernel = self.kernel(x.dtype)
        up, down, reach = kernel.up, kernel.down, kernel.reach
        padded = pad_last(x, reach, reach + down)
        frames = Frame(frame_length=2 * reach + down + 1, frame_step=down)(padded)
        periods = Flatten(start_axis=-2)(frames @ kernel())
        return periods[..., : (x.shape[-1] * up + (down - 1)) // down]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 5)),), {"orig_rate": 4, "new_rate": 6, "width": 2})
        yield Sample((rng.standard_normal(7),), {"orig_rate": 3, "new_rate": 1, "width": 1})
        yield Sample((rng.standard_normal(1),), {"orig_rate": 2, "new_rate": 2, "width": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        rates = {"orig_rate": 2, "new_rate": 3}
        yield ErrorSample((TensorSpec((2,), "int16"),), rates, "does not take int16")
        yield ErrorSample((TensorSpec((2, 0)),), rates, "needs samples")
        yield ErrorSample((TensorSpec((2,)),), {"orig_rate": 2, "new_rate": 0}, "makes no sense")
