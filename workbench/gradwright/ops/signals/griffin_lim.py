"""Sound from the magnitudes of its spectra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, Sample, attr
from ...spec import AnyDim, TensorSpec
from ..core.choice import Where
from ..core.comparison import Sign
from ..core.creation import Full
from ..core.reshape import BroadcastTo
from .fourier import CutOrPadLike, Irfft
from .frames import OverlapAdd
from .spectral import OfSound, spectrum
from .windows import HannWindow


class GriffinLim(OfSound):
    """Signal whose spectra have given magnitudes, found by turns (Griffin and Lim 1984).

    pᵢ₊₁ = phase(zᵢ − m/(1 + m)·zᵢ₋₁),  zᵢ = spectra of the signal made from x·pᵢ

    ``f32[..., n_fft/2 + 1, F]`` becomes ``f32[..., (F − 1)·hop_length]``, or the length asked for.
    Frames have a Hann window and are centred at every hop. Phases begin at 0; ``momentum`` m speeds
    up the search (Perraudin et al. 2013), 0 is the original one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.griffin_lim(g.placeholder("x", ("B", 1025, 44))).shape
    (B, 22016)
    """

    inner = 2
    n_iter: int = attr(32, doc="Number of turns.")
    hop_length: int = attr(512, doc="Distance of two frames in samples.")
    momentum: float = attr(0.99, doc="How far a turn goes beyond its goal, from 0.")
    length: AnyDim | None = attr(None, doc="Number of samples of the result.")

    def infer(self, x: TensorSpec) -> Any:
        self.check(x)
        bins = x.shape[-2]
        if not isinstance(bins, int) or bins < 2:
            raise ShapeError(
                "griffin_lim needs a known number of bins", need=f"2 or more, got {bins}"
            )
        if self.n_iter < 0 or self.hop_length < 1 or self.momentum < 0:
            raise ShapeError(f"{self!r} makes no sense", need="hop_length >= 1, the others >= 0")
        return super().infer(x)

    def computed(self, x: Any) -> Any:
        n_fft, hop = (x.shape[-2] - 1) * 2, self.hop_length
        size = x.mT
        window = HannWindow(size=n_fft, dtype=x.dtype)()
        place = OverlapAdd(frame_step=hop)
        n_frames = size.shape[-2]
        weight = place(BroadcastTo(shape=(n_frames, n_fft))(window * window))
        silent = weight < 1e-11
        scale = Where()(silent, 0.0, 1.0 / Where()(silent, 1.0, weight))
        half = n_fft // 2

        def signal(z: Any) -> Any:
            return (place(Irfft(n=n_fft)(z) * window) * scale)[..., half:-half]

        turned, before, back = size, None, self.momentum / (1 + self.momentum)
        for _ in range(self.n_iter):
            found = spectrum(signal(turned), n_fft, hop)
            ahead = found if before is None else found - before * back
            turned, before = size * Sign()(ahead), found
        y = signal(turned)
        if self.length is not None:
            y = CutOrPadLike()(y, Full(shape=(*y.shape[:-1], self.length))())
        return y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        size = rng.uniform(0.5, 1.5, (2, 3, 4))
        yield Sample((size,), {"n_iter": 2, "hop_length": 2})
        yield Sample((size[0],), {"n_iter": 1, "hop_length": 1, "momentum": 0.0, "length": 5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((5,)),), {}, "needs samples")
        yield ErrorSample((TensorSpec((1, 5)),), {}, "known number of bins")
        yield ErrorSample((TensorSpec((3, 5)),), {"n_iter": -1}, "makes no sense")
