"""Features of the spectrum of sound: its centre, its edge, its pitch classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, dtype, kind
from ...spec.rounding import rounded
from ..core.choice import Where
from ..core.complex import Imag
from ..core.creation import Arange
from ..core.elementwise import Abs, Real
from ..core.functions import Square
from ..core.movement import Cast
from ..core.padding import Pad
from ..core.reduce import Cumsum, Max, Sum
from .common import InFloat32
from .fourier import Rfft
from .frames import Frame
from .windows import HannWindow


def spectrum(x: Any, n_fft: int, hop_length: int, mode: str = "constant") -> Any:
    """Return the spectra of Hann-windowed frames centred at every hop, c64[..., F, K].

    The signal is extended by half a frame at both ends: of zeros, or by another mode of ``pad``.
    """
    half = n_fft // 2
    padded = Pad(pad_width=((0, 0),) * (x.rank - 1) + ((half, half),), mode=mode)(x)
    frames = Frame(frame_length=n_fft, frame_step=hop_length)(padded)
    return Rfft()(frames * HannWindow(size=n_fft, dtype=x.dtype)())


def energy(z: Any) -> Any:
    """Return the squared modulus of a complex tensor."""
    return Square()(Real()(z)) + Square()(Imag()(z))


class OfSound(InFloat32, abstract=True):
    """A composite on the samples of sound, ``f32[..., T]``."""

    namespace = "audio"
    inner: ClassVar[int] = 1

    def check(self, x: TensorSpec) -> None:
        """Refuse what holds no samples."""
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        if x.rank < self.inner:
            raise ShapeError(f"{self.name} needs samples", need=f"rank {self.inner} or more")

    def infer(self, x: TensorSpec) -> Any:
        self.check(x)
        return super().infer(x)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int16"),), {}, "does not take int16")
        yield ErrorSample((TensorSpec(()),), {}, "needs samples")


class OfSpectrum(OfSound, abstract=True):
    """A feature of the spectra of frames that are centred at every hop."""

    sample_rate: int = attr(22050, doc="Samples per second.")
    n_fft: int = attr(2048, doc="Number of samples of a frame.")
    hop_length: int = attr(512, doc="Distance of two frames in samples.")

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        if min(self.sample_rate, self.n_fft, self.hop_length) < 1:
            raise ShapeError(f"{self!r} makes no sense", need="rates and lengths of 1 or more")

    def frequencies(self, d: Any) -> Any:
        """Return the frequency of each bin in Hertz."""
        bins = Arange(start=self.n_fft // 2 + 1, dtype=d)()
        return bins * (self.sample_rate / self.n_fft)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        small = {"sample_rate": 8, "n_fft": 4, "hop_length": 2}
        yield Sample((rng.standard_normal((2, 5)),), small)
        yield Sample((rng.standard_normal(7),), {**small, "n_fft": 5, "hop_length": 3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"hop_length": 0}, "makes no sense")


class SpectralCentroid(OfSpectrum):
    """Mean frequency of each frame, weighted by magnitude; 0 where there is silence.

    y[…, f] = Σₖ fₖ·|X[f, k]| / Σₖ |X[f, k]|, in Hertz, fₖ = k·sample_rate/n_fft

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 1000 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.spectral_centroid(x, name="y"))["y"]
    >>> y.shape, round(float(y[20]), -1)
    ((44,), 1000.0)
    """

    def computed(self, x: Any) -> Any:
        size = Abs()(spectrum(x, self.n_fft, self.hop_length))
        total = Sum(axis=-1)(size)
        silent = total == 0.0
        mean = size @ self.frequencies(x.dtype) / Where()(silent, 1.0, total)
        return Where()(silent, 0.0, mean)


class SpectralRolloff(OfSpectrum):
    """Frequency below which a part of each frame's magnitude lies; it has no slope.

    y[…, f] = min {fₖ : Σⱼ≤ₖ |X[f, j]| ≥ rolloff·Σⱼ |X[f, j]|}, in Hertz

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 1000 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.spectral_rolloff(x, name="y"))["y"]
    >>> round(float(y[20]), -1)
    1010.0
    """

    rolloff: float = attr(0.85, doc="The part, between 0 and 1.")

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        if not 0 < self.rolloff < 1:
            raise ShapeError(f"rolloff {self.rolloff} is no part", need="0 < rolloff < 1")

    def computed(self, x: Any) -> Any:
        size = Abs()(spectrum(x, self.n_fft, self.hop_length))
        below = Cumsum(axis=-1)(size) < Sum(axis=-1, keepdims=True)(size) * self.rolloff
        count = Cast(dtype=x.dtype)(Sum(axis=-1)(below))
        return count * (self.sample_rate / self.n_fft)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"rolloff": 1.0}, "is no part")


class ChromaFilterbank(Op):
    """Weights that gather the bins of a spectrum into pitch classes (Ellis 2007).

    y[c, k] = exp(−2·(d/w)²) / ‖·‖₂ · exp(−½·((p/n − 5)/2)²)

    where p = n·log₂(fₖ/27.5) is the bin's pitch above A0, with n classes to the octave, d its
    distance from class c on the circle, and w = p[k + 1] − p[k], but at least 1; the norm is that
    of the bin's column, and the pitch of 0 Hz 1.5·n below the next. The middle of the range, five
    octaves above A0, weighs most. Class 0 is C.

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.chroma_filterbank().shape
    (12, 1025)
    """

    namespace = "audio"
    n_chroma: int = attr(12, doc="Number of pitch classes.")
    n_fft: int = attr(2048, doc="Number of samples that were transformed.")
    sample_rate: int = attr(22050, doc="Samples per second.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        if self.n_chroma < 1 or self.n_fft < 2:
            raise ShapeError(f"{self!r} makes no sense", need="n_chroma >= 1 and n_fft >= 2")
        return TensorSpec((self.n_chroma, self.n_fft // 2 + 1), self.dtype)

    def forward(self) -> Any:
        n = self.n_chroma
        frequency = np.arange(1, self.n_fft // 2 + 2) * (self.sample_rate / self.n_fft)
        pitch = n * np.log2(frequency / 27.5)
        pitch = np.concatenate([[pitch[0] - 1.5 * n], pitch])
        width, pitch = np.maximum(np.diff(pitch), 1), pitch[:-1]
        apart = pitch - np.arange(n)[:, None]
        apart = (apart + n // 2) % n - n // 2
        weight = np.exp(-2 * (apart / width) ** 2)
        weight /= np.sqrt((weight**2).sum(0))
        weight *= np.exp(-0.5 * ((pitch / n - 5) / 2) ** 2)
        return rounded(np.roll(weight, -3 * (n // 12), axis=0), self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"n_fft": 8, "sample_rate": 800})
        yield Sample((), {"n_fft": 9, "n_chroma": 24, "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"n_chroma": 0}, "makes no sense")


class ChromaFeatures(OfSpectrum):
    """Energy of each frame per pitch class, relative to the strongest one.

    y[…, c, f] = e[c, f] / max e[·, f],  e = W·|X|², W as ``chroma_filterbank``

    ``f32[..., T]`` becomes ``f32[..., n_chroma, ⌊T/hop_length⌋ + 1]``; class 0 is C, 9 is A.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 440 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.chroma_features(x, name="y"))["y"]
    >>> y.shape, int(y[:, 20].argmax())
    ((12, 44), 9)
    """

    n_chroma: int = attr(12, doc="Number of pitch classes.")

    def computed(self, x: Any) -> Any:
        weights = ChromaFilterbank(
            n_chroma=self.n_chroma,
            n_fft=self.n_fft,
            sample_rate=self.sample_rate,
            dtype=x.dtype,
        )()
        found = (energy(spectrum(x, self.n_fft, self.hop_length)) @ weights.mT).mT
        peak = Max(axis=-2, keepdims=True)(found)
        return found / Where()(peak == 0.0, 1.0, peak)
