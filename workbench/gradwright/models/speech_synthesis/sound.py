"""Sound as log-mel spectra, and back: least squares, then Griffin and Lim's turns."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import audio
from ...errors import FeedError, GraphError
from ...graph import Graph
from ...ops.signals.mel import MelFilterbank
from ...words.jsonable import jsonable
from ..decoder.config import check_counts

Array = np.ndarray[Any, Any]


@jsonable
@dataclass(frozen=True)
class MelConfig:
    """How sound is told by bands of the mel scale.

    Args:
        rate: samples a second.
        n_fft: samples of a frame.
        hop: distance of two frames in samples.
        bands: how many there are, of equal width on Slaney's scale.
        f_min: lowest frequency in Hertz.
        f_max: highest frequency in Hertz.
        floor: the least magnitude that is told; what is softer is as loud.

    Raises GraphError for numbers that make no spectrum.

    >>> from gradwright.models import MelConfig
    >>> MelConfig().rate / MelConfig().hop  # frames a second
    62.5
    """

    rate: int = 16_000
    n_fft: int = 1024
    hop: int = 256
    bands: int = 40
    f_min: float = 60.0
    f_max: float = 7600.0
    floor: float = 1e-3

    def __post_init__(self) -> None:
        check_counts(self, "rate", "n_fft", "hop", "bands")
        if self.n_fft % 2 or self.hop > self.n_fft:
            raise GraphError(
                f"frames of {self.n_fft} every {self.hop} samples do not overlap",
                need="an even n_fft, and hop <= n_fft",
            )
        if not (0 <= self.f_min < self.f_max <= self.rate / 2 and self.floor > 0):
            raise GraphError(
                f"no bands from {self.f_min} to {self.f_max} Hz above {self.floor}",
                need=f"0 <= f_min < f_max <= rate/2 = {self.rate / 2}, floor > 0",
            )

    def filters(self) -> Array:
        """Return what bands take of the bins of a spectrum, f64[bands, n_fft/2 + 1]."""
        made: Array = MelFilterbank(
            n_mels=self.bands,
            n_fft=self.n_fft,
            sample_rate=self.rate,
            f_min=self.f_min,
            f_max=self.f_max,
            dtype="float64",
        ).forward()
        return made


def log_mel(sound: Any, config: MelConfig = MelConfig()) -> Array:
    """Return the log-mel spectrum of samples, f32[frames, bands].

    y[f, m] = ln max(Σₖ W[m, k]·|X[f, k]|, floor), W as ``audio.mel_filterbank``

    There are ⌊T/hop⌋ + 1 frames, centred at every hop. Raises FeedError for what is no samples.

    >>> import numpy as np
    >>> from gradwright.models import log_mel
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    >>> log_mel(tone).shape, int(log_mel(tone)[30].argmax())
    ((63, 40), 4)
    """
    samples = np.asarray(sound, np.float32)
    if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
        raise FeedError(f"sound is {samples.shape}", need="finite samples of one channel, f32[T]")
    g = Graph("log_mel")
    x = g.placeholder("x", samples.shape)
    y = audio.mel_spectrogram(
        x,
        sample_rate=config.rate,
        n_fft=config.n_fft,
        hop_length=config.hop,
        n_mels=config.bands,
        f_min=config.f_min,
        f_max=config.f_max,
        power=1.0,
        name="y",
    )
    found: Array = np.log(np.maximum(g.output({"x": samples}, y)["y"], config.floor)).T
    return found


def sound_of_log_mel(mel: Any, config: MelConfig = MelConfig(), *, n_iter: int = 40) -> Array:
    """Return samples whose log-mel spectrum is nearly the given one, f32[frames, bands].

    |X| = max(10⁻⁵, Wᵀ(WWᵀ + λ)⁻¹·eʸ), λ = 10⁻⁶·mean diag WWᵀ; phases by ``audio.griffin_lim``

    The samples are f32[(frames − 1)·hop]. Raises FeedError for another shape, and fewer than two
    frames.

    >>> import numpy as np
    >>> from gradwright.models import log_mel, sound_of_log_mel
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    >>> sound_of_log_mel(log_mel(tone), n_iter=2).shape
    (15872,)
    """
    given = np.asarray(mel, np.float64)
    if given.ndim != 2 or given.shape[1] != config.bands or len(given) < 2:
        raise FeedError(f"a spectrum is {given.shape}", need=f"(frames >= 2, {config.bands})")
    w = config.filters()
    inner = w @ w.T
    inner += np.eye(config.bands) * (1e-6 * np.trace(inner) / config.bands)
    size = np.maximum(w.T @ np.linalg.solve(inner, np.exp(given.T)), 1e-5)
    g = Graph("sound")
    x = g.placeholder("x", size.shape)
    y = audio.griffin_lim(x, n_iter, hop_length=config.hop, name="y")
    found: Array = g.output({"x": size.astype(np.float32)}, y)["y"]
    return found


def wav_bytes(sound: Any, rate: int = 16_000) -> bytes:
    """Return samples from −1 to 1 as a WAV file of 16 bits, one channel; louder ones are clipped.

    ``IPython.display.Audio(data=wav_bytes(sound))`` plays it. Raises FeedError for what is no
    samples.

    >>> from gradwright.models import wav_bytes
    >>> wav_bytes([0.0, 0.5, -1.0])[:4], len(wav_bytes([0.0, 0.5, -1.0]))
    (b'RIFF', 50)
    """
    samples = np.asarray(sound, np.float64)
    if samples.ndim != 1 or not np.isfinite(samples).all():
        raise FeedError(f"sound is {samples.shape}", need="finite samples of one channel, f32[T]")
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return written.getvalue()
