"""The mel scale, on which equal distances sound equal, and features on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, dtype
from ...spec.rounding import rounded
from ..core.choice import Maximum
from ..core.elementwise import Abs
from ..core.functions import Log10
from ..core.reduce import Max
from .spectral import OfSpectrum, energy, spectrum

Array = np.ndarray[Any, Any]

_BREAK, _LINEAR, _OCTAVES = 1000.0, 200.0 / 3, np.log(6.4) / 27
"""Slaney's scale: 3 mel per 200 Hz up to 1 kHz, then 27 mel for each factor of 6.4."""


def to_mel(hertz: Any, scale: str) -> Any:
    """Return mel for Hertz.

    >>> float(to_mel(700.0, "htk").round(2)), float(to_mel(6400.0, "slaney"))
    (781.17, 42.0)
    """
    f = np.asarray(hertz, np.float64)
    if scale == "htk":
        return 2595 * np.log10(1 + f / 700)
    return np.where(
        f < _BREAK,
        f / _LINEAR,
        _BREAK / _LINEAR + np.log(np.maximum(f, _BREAK) / _BREAK) / _OCTAVES,
    )


def to_hertz(mel: Any, scale: str) -> Any:
    """Return Hertz for mel.

    >>> float(to_hertz(42.0, "slaney").round(6))
    6400.0
    """
    m = np.asarray(mel, np.float64)
    if scale == "htk":
        return 700 * (10 ** (m / 2595) - 1)
    above = np.maximum(m - _BREAK / _LINEAR, 0)
    return np.where(m < _BREAK / _LINEAR, m * _LINEAR, _BREAK * np.exp(_OCTAVES * above))


class MelFilterbank(Op):
    """Triangles that gather the bins of a spectrum into bands of equal width on the mel scale.

    y[m, k] = aₘ·max(0, min((fₖ − eₘ)/(eₘ₊₁ − eₘ), (eₘ₊₂ − fₖ)/(eₘ₊₂ − eₘ₊₁)))

    where e are n_mels + 2 frequencies at equal distances in mel, fₖ = k·sample_rate/n_fft, and aₘ
    is 2/(eₘ₊₂ − eₘ) for the norm "slaney" (equal areas), else 1. The scale is Slaney's (1998), or
    that of HTK, 2595·log₁₀(1 + f/700).

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.mel_filterbank(80, n_fft=400, sample_rate=16000).shape
    (80, 201)
    """

    namespace = "audio"
    n_mels: int = attr(128, doc="Number of bands.")
    n_fft: int = attr(2048, doc="Number of samples that were transformed.")
    sample_rate: int = attr(22050, doc="Samples per second.")
    f_min: float = attr(0.0, doc="Lowest frequency in Hertz.")
    f_max: float = attr(8000.0, doc="Highest frequency in Hertz.")
    scale: str = attr("slaney", doc="Which mel scale.", choices=("slaney", "htk"))
    norm: str | None = attr(
        "slaney", doc="What is equal: areas, or heights.", choices=("slaney", None)
    )
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        if min(self.n_mels, self.n_fft, self.sample_rate) < 1:
            raise ShapeError(f"{self!r} makes no sense", need="numbers of 1 or more")
        if not 0 <= self.f_min < self.f_max <= self.sample_rate / 2:
            raise ShapeError(
                f"no bands from {self.f_min} to {self.f_max} Hz",
                need=f"0 <= f_min < f_max <= sample_rate/2 = {self.sample_rate / 2}",
            )
        return TensorSpec((self.n_mels, self.n_fft // 2 + 1), self.dtype)

    def forward(self) -> Any:
        low, high = to_mel(self.f_min, self.scale), to_mel(self.f_max, self.scale)
        edges = to_hertz(np.linspace(low, high, self.n_mels + 2), self.scale)[:, None]
        frequency = np.arange(self.n_fft // 2 + 1) * (self.sample_rate / self.n_fft)
        width = np.diff(edges, axis=0)
        rising = (frequency - edges[:-2]) / width[:-1]
        falling = (edges[2:] - frequency) / width[1:]
        weight = np.maximum(0, np.minimum(rising, falling))
        if self.norm is not None:
            weight *= 2 / (edges[2:] - edges[:-2])
        return rounded(weight, self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        small = {"n_mels": 3, "n_fft": 16, "sample_rate": 8000, "f_max": 4000.0}
        yield Sample((), small)
        yield Sample((), {**small, "scale": "htk", "norm": None, "f_min": 50, "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"sample_rate": 8000}, "no bands")
        yield ErrorSample((), {"n_mels": 0}, "makes no sense")


class MelWeightMatrix(Op):
    """Triangles between whole bins of a spectrum, as ONNX defines them.

    y[k, m] = (k − bₘ)/(bₘ₊₁ − bₘ) for bₘ ≤ k ≤ bₘ₊₁, (bₘ₊₂ − k)/(bₘ₊₂ − bₘ₊₁) for bₘ₊₁ ≤ k < bₘ₊₂

    where b = ⌊(dft_length + 1)·f/sample_rate⌋ and f are num_mel_bins + 2 frequencies, beginning
    with the lower edge, each 1/(num_mel_bins + 2) of the way to the upper one further in mel
    (2595·log₁₀(1 + f/700)).

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.mel_weight_matrix(8, 16, 8192, 0.0, 4096.0).shape
    (9, 8)
    """

    namespace = "audio"
    num_mel_bins: int = attr(doc="Number of bands.")
    dft_length: int = attr(doc="Number of samples that were transformed.")
    sample_rate: int = attr(doc="Samples per second.")
    lower_edge_hertz: float = attr(doc="Lowest frequency.")
    upper_edge_hertz: float = attr(doc="Highest frequency.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")
    onnx = OnnxRule(
        "MelWeightMatrix",
        17,
        rename={"dtype": "output_datatype"},
        inputs=(
            "num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz",
        ),
    )  # fmt: skip

    def infer(self) -> TensorSpec:
        if min(self.num_mel_bins, self.dft_length, self.sample_rate) < 1:
            raise ShapeError(f"{self!r} makes no sense", need="numbers of 1 or more")
        if not 0 <= self.lower_edge_hertz <= self.upper_edge_hertz <= self.sample_rate / 2:
            raise ShapeError(
                f"no bands from {self.lower_edge_hertz} to {self.upper_edge_hertz} Hz",
                need=f"0 <= lower <= upper <= sample_rate/2 = {self.sample_rate / 2}",
            )
        return TensorSpec((self.dft_length // 2 + 1, self.num_mel_bins), self.dtype)

    def forward(self) -> Any:
        low, high = (to_mel(f, "htk") for f in (self.lower_edge_hertz, self.upper_edge_hertz))
        n = self.num_mel_bins + 2
        f = to_hertz(low + np.arange(n) * ((high - low) / n), "htk")
        edges = np.floor((self.dft_length + 1) * f / self.sample_rate)
        left, centre, right = edges[:-2], edges[1:-1], edges[2:]
        k = np.arange(self.dft_length // 2 + 1)[:, None]
        rising = (k - left) / np.maximum(centre - left, 1)
        falling = (right - k) / np.maximum(right - centre, 1)
        y = np.where((left <= k) & (k < centre), rising, 0)
        y = np.where((centre < k) & (k < right), falling, y)
        return rounded(np.where(k == centre, 1, y), self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        names = list(cls.attrs)
        yield Sample((), dict(zip(names, (8, 16, 8192, 0.0, 4096.0), strict=False)))
        yield Sample((), dict(zip(names, (3, 9, 800, 20, 300, "float64"), strict=True)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        names = list(cls.attrs)
        yield ErrorSample((), dict(zip(names, (8, 16, 8192, 0, 5000), strict=False)), "no bands")
        yield ErrorSample((), dict(zip(names, (0, 16, 8192, 0, 4096), strict=False)), "no sense")


class MelSpectrogram(OfSpectrum):
    """Energy of each frame in bands of equal width on the mel scale.

    y[…, m, f] = Σₖ W[m, k]·|X[f, k]|^power, W as ``mel_filterbank``

    ``f32[..., T]`` becomes ``f32[..., n_mels, ⌊T/hop_length⌋ + 1]``; frames have a Hann window and
    are centred at every hop.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.mel_spectrogram(g.placeholder("x", ("B", 22050))).shape
    (B, 128, 44)
    """

    n_mels: int = attr(128, doc="Number of bands.")
    f_min: float = attr(0.0, doc="Lowest frequency in Hertz.")
    f_max: float = attr(8000.0, doc="Highest frequency in Hertz.")
    power: float = attr(2.0, doc="Exponent of the magnitude: 2 energy, 1 magnitude.")
    scale: str = attr("slaney", doc="Which mel scale.", choices=("slaney", "htk"))
    norm: str | None = attr(
        "slaney", doc="What is equal: areas, or heights.", choices=("slaney", None)
    )
    mirrored: ClassVar[bool] = False
    """Whether the signal is mirrored at its ends; else there is silence."""

    def bank(self, d: Any) -> MelFilterbank:
        """Return the op that makes the filters."""
        shared = {k: v for k, v in self.attributes().items() if k in MelFilterbank.attrs}
        return MelFilterbank(**shared, dtype=d)

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        self.bank(x.dtype).infer()

    def mel(self, x: Any) -> Any:
        """Return the mel spectrogram of a tensor of float32 or float64."""
        z = spectrum(x, self.n_fft, self.hop_length, "reflect" if self.mirrored else "constant")
        size = energy(z) if self.power == 2 else Abs()(z)
        if self.power not in (1, 2):
            size = size ** float(self.power)
        return (size @ self.bank(x.dtype)().mT).mT

    def computed(self, x: Any) -> Any:
        return self.mel(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        small = {"sample_rate": 16, "n_fft": 8, "hop_length": 3, "n_mels": 3, "f_max": 8.0}
        yield Sample((rng.standard_normal((2, 7)),), small)
        yield Sample((rng.standard_normal(9),), {**small, "power": 1.0, "scale": "htk"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"sample_rate": 8000}, "no bands")


class DctMatrix(Op):
    """Basis of the discrete cosine transform, type 2, with rows of length 1 (Ahmed et al. 1974).

    y[k, j] = √(2/n)·cos(π·k·(2j + 1)/(2n)), the first row divided by √2

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.dct_matrix(13, 128).shape
    (13, 128)
    """

    namespace = "audio"
    k: int = attr(doc="Number of rows.")
    n: int = attr(doc="Number of columns.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        if not 0 <= self.k <= self.n or not self.n:
            raise ShapeError(f"{self.k} cosines of {self.n}", need="0 <= k <= n, n >= 1")
        return TensorSpec((self.k, self.n), self.dtype)

    def forward(self) -> Any:
        angle = np.arange(self.k)[:, None] * (2 * np.arange(self.n) + 1) * (np.pi / (2 * self.n))
        y = np.cos(angle) * np.sqrt(2 / self.n)
        y[:1] /= np.sqrt(2)
        return rounded(y, self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"k": 3, "n": 4})
        yield Sample((), {"k": 1, "n": 1, "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"k": 3, "n": 2}, "3 cosines of 2")


class Mfcc(MelSpectrogram):
    """Mel-frequency cepstral coefficients: the shape of the mel spectrum in decibels.

    y = D·max(d, max d − top_db),  d = 10·log₁₀ max(mel, 10⁻¹⁰), D as ``dct_matrix``

    ``f32[..., T]`` becomes ``f32[..., n_mfcc, ⌊T/hop_length⌋ + 1]``; the largest value is taken
    over bands and frames (Davis and Mermelstein 1980).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.mfcc(g.placeholder("x", ("B", 22050))).shape
    (B, 13, 44)
    """

    n_mfcc: int = attr(13, doc="Number of coefficients.")
    top_db: float | None = attr(80.0, doc="How far below the largest value small ones are cut.")

    def check(self, x: TensorSpec) -> None:
        super().check(x)
        DctMatrix(k=self.n_mfcc, n=self.n_mels).infer()

    def computed(self, x: Any) -> Any:
        d = Log10()(Maximum()(self.mel(x), 1e-10)) * 10.0
        if self.top_db is not None:
            d = Maximum()(d, Max(axis=(-2, -1), keepdims=True)(d) - float(self.top_db))
        return DctMatrix(k=self.n_mfcc, n=self.n_mels, dtype=x.dtype)() @ d

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(sample.inputs, {**sample.attrs, "n_mfcc": 2, "top_db": 12.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((9,)),), {"n_mfcc": 129}, "129 cosines of 128")


class LogMelSpectrogram(MelSpectrogram):
    """What Whisper hears: the logarithm of the mel spectrum, cut off below its largest value.

    y = (max(d, max d − 8) + 4)/4,  d = log₁₀ max(mel, 10⁻¹⁰)

    ``f32[..., T]`` becomes ``f32[..., n_mels, ⌊T/hop_length⌋]``: the signal is mirrored at its
    ends, for which it needs n_fft/2 + 1 samples, and the last frame is left out; the largest value
    is taken over bands and frames (Radford et al. 2023). Raises ShapeError for less.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.log_mel_spectrogram(g.placeholder("x", ("B", 480_000))).shape
    (B, 80, 3000)
    """

    sample_rate: int = attr(16000, doc="Samples per second.")
    n_fft: int = attr(400, doc="Number of samples of a frame.")
    hop_length: int = attr(160, doc="Distance of two frames in samples.")
    n_mels: int = attr(80, doc="Number of bands.")
    mirrored: ClassVar[bool] = True

    def computed(self, x: Any) -> Any:
        mel = self.mel(x)
        n = mel.shape[-1] - 1
        d = Log10()(Maximum()(mel[..., :n], 1e-10))
        d = Maximum()(d, Max(axis=(-2, -1), keepdims=True)(d) - 8.0)
        return (d + 4.0) * 0.25
