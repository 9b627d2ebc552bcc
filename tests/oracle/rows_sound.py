"""Features of sound beside their definitions in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.oracle.rows import Row
from tests.oracle.rows_signals import normal, uniform

SOUND = {"sample_rate": 8000, "n_fft": 64, "hop_length": 16}
MEL = {"n_mels": 6, "f_max": 4000.0}
TONES = normal(2, 200) + 3 * np.sin(0.9 * np.arange(200))


def spectrum(t: Any, x: Any, n_fft: int, hop_length: int) -> Any:
    """Return spectra, a column per frame."""
    hann = t.hann_window(n_fft, dtype=x.dtype)
    flat = x.reshape(-1, x.shape[-1])
    z = t.stft(flat, n_fft, hop_length, window=hann, pad_mode="constant", return_complex=True)
    return z.reshape(*x.shape[:-1], *z.shape[-2:])


def hertz(mel: float, scale: str) -> float:
    if scale == "htk":
        return 700 * math.expm1(mel * math.log(10) / 2595)
    return mel * 200 / 3 if mel <= 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def mel(f: float, scale: str) -> float:
    if scale == "htk":
        return 2595 / math.log(10) * math.log1p(f / 700)
    return f * 3 / 200 if f <= 1000 else 15 + 27 * math.log(f / 1000, 6.4)


def filterbank(
    t: Any,
    n_mels: int = 128,
    n_fft: int = 2048,
    sample_rate: int = 22050,
    f_min: float = 0.0,
    f_max: float = 8000.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
    dtype: str = "float32",
) -> Any:
    low, high = mel(f_min, scale), mel(f_max, scale)
    edges = [hertz(low + (high - low) * i / (n_mels + 1), scale) for i in range(n_mels + 2)]
    bins = np.linspace(0, sample_rate / 2, n_fft // 2 + 1)  # for an even n_fft
    rows = []
    for a, b, c in zip(edges, edges[1:], edges[2:], strict=False):
        height = 2 / (c - a) if norm == "slaney" else 1.0
        rows.append(np.interp(bins, [a, b, c], [0, height, 0]))
    return t.tensor(np.array(rows)).to(getattr(t, dtype))


def weight_matrix(
    t: Any,
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    dtype: str = "float32",
) -> Any:
    low, high = mel(lower_edge_hertz, "htk"), mel(upper_edge_hertz, "htk")
    step = (high - low) / (num_mel_bins + 2)
    at = [
        math.floor((dft_length + 1) * hertz(low + i * step, "htk") / sample_rate)
        for i in range(num_mel_bins + 2)
    ]
    y = t.zeros(dft_length // 2 + 1, num_mel_bins, dtype=getattr(t, dtype))
    for m, (a, b, c) in enumerate(zip(at, at[1:], at[2:], strict=False)):
        for k in range(a, b):
            y[k, m] = (k - a) / (b - a)
        for k in range(b, max(c, b + 1)):
            y[k, m] = (c - k) / (c - b) if c > b else 1.0
    return y


def mel_spectrogram(
    t: Any, x: Any, sample_rate: int, n_fft: int, hop_length: int, power: float = 2.0, **bank: Any
) -> Any:
    size = spectrum(t, x, n_fft, hop_length).abs() ** power
    name = str(x.dtype).removeprefix("torch.")
    weights = filterbank(t, n_fft=n_fft, sample_rate=sample_rate, dtype=name, **bank)
    return t.einsum("mk,...kf->...mf", weights, size)


def dct_matrix(t: Any, k: int, n: int, dtype: str = "float32") -> Any:
    """Return the cosine transform of unit vectors, by a Fourier transform of twice the length."""
    twice = t.fft.fft(t.eye(n, dtype=t.complex128), n=2 * n).mT
    turn = t.exp(-0.5j * math.pi / n * t.arange(2 * n, dtype=t.float64))
    y = (twice * turn[:, None]).real[:k] * math.sqrt(2 / n)
    y[:1] *= math.sqrt(0.5)
    return y.to(getattr(t, dtype))


def mfcc(t: Any, x: Any, n_mfcc: int = 13, top_db: float | None = 80.0, **rest: Any) -> Any:
    d = 10 * mel_spectrogram(t, x, **rest).clamp_min(1e-10).log10()
    if top_db is not None:
        d = t.maximum(d, d.amax((-2, -1), keepdim=True) - top_db)
    name = str(x.dtype).removeprefix("torch.")
    return dct_matrix(t, n_mfcc, d.shape[-2], name) @ d


def log_mel(t: Any, x: Any, n_fft: int, hop_length: int, sample_rate: int, **bank: Any) -> Any:
    window = t.hann_window(n_fft, dtype=x.dtype)
    z = t.stft(x, n_fft, hop_length, window=window, center=True, return_complex=True)
    weights = filterbank(
        t, n_fft=n_fft, sample_rate=sample_rate, dtype=str(x.dtype).removeprefix("torch."), **bank
    )
    d = (weights @ z[..., :-1].abs() ** 2).clamp_min(1e-10).log10()
    return (t.maximum(d, d.amax((-2, -1), keepdim=True) - 8) + 4) / 4


def frequencies(t: Any, x: Any, sample_rate: int, n_fft: int) -> Any:
    return t.fft.rfftfreq(n_fft, 1 / sample_rate, dtype=x.dtype)


def centroid(t: Any, x: Any, sample_rate: int, n_fft: int, hop_length: int) -> Any:
    size = spectrum(t, x, n_fft, hop_length).abs()
    share = size / size.sum(-2, keepdim=True)
    return (frequencies(t, x, sample_rate, n_fft)[:, None] * share).sum(-2)


def rolloff(
    t: Any, x: Any, sample_rate: int, n_fft: int, hop_length: int, rolloff: float = 0.85
) -> Any:
    running = spectrum(t, x, n_fft, hop_length).abs().mT.cumsum(-1)
    place = t.searchsorted(running.detach(), rolloff * running.detach()[..., -1:])[..., 0]
    return frequencies(t, x, sample_rate, n_fft)[place]


def chroma_bank(
    t: Any,
    n_chroma: int = 12,
    n_fft: int = 2048,
    sample_rate: int = 22050,
    dtype: str = "float32",
) -> Any:
    bins = n_fft // 2 + 1
    pitch = [n_chroma * math.log2(k * sample_rate / n_fft / 27.5) for k in range(1, bins + 1)]
    pitch = [pitch[0] - 1.5 * n_chroma, *pitch]
    columns = []
    for k in range(bins):
        width = max(pitch[k + 1] - pitch[k], 1.0)
        around = (pitch[k] - t.arange(n_chroma, dtype=t.float64)) / n_chroma
        apart = n_chroma * (around - around.round())
        bump = t.exp(-2 * (apart / width) ** 2)
        octave = pitch[k] / n_chroma
        columns.append(bump / bump.norm() * math.exp(-((octave - 5) ** 2) / 8))
    turn = -3 * (n_chroma // 12)
    return t.stack(columns, -1).roll(turn, 0).to(getattr(t, dtype))


def chroma(
    t: Any, x: Any, sample_rate: int, n_fft: int, hop_length: int, n_chroma: int = 12
) -> Any:
    name = str(x.dtype).removeprefix("torch.")
    bank = chroma_bank(t, n_chroma, n_fft, sample_rate, name)
    found = t.einsum("ck,...kf->...cf", bank, spectrum(t, x, n_fft, hop_length).abs() ** 2)
    return t.nn.functional.normalize(found, p=math.inf, dim=-2, eps=1e-300)


def griffin_lim(
    t: Any, x: Any, n_iter: int, hop_length: int, momentum: float = 0.99, length: int | None = None
) -> Any:
    n_fft = 2 * (x.shape[-2] - 1)
    hann = t.hann_window(n_fft, dtype=x.dtype)

    def signal(z: Any) -> Any:
        return t.istft(z, n_fft, hop_length, window=hann)

    last = t.zeros_like(x)
    phase = t.polar(t.ones_like(x), t.zeros_like(x))
    for _ in range(n_iter):
        found = spectrum(t, signal(x * phase), n_fft, hop_length)
        ahead = found - last * (momentum / (1 + momentum))
        phase, last = ahead / ahead.abs(), found
    y = signal(x * phase)
    return y if length is None else t.nn.functional.pad(y, (0, length - y.shape[-1]))


def a_weighting(t: Any, f: Any) -> Any:
    def ratio(f: Any) -> Any:
        s = f**2
        poles = [p * p for p in (20.598997, 107.65265, 737.86223, 12194.217)]
        return 20 * t.log10(poles[3] * s * s) - sum(
            weight * t.log10(s + p) for weight, p in zip((20, 10, 10, 20), poles, strict=True)
        )

    return (ratio(f.double()) - ratio(t.tensor(1000.0).double())).to(f.dtype)


def crossings(t: Any, x: Any, frame_length: int = 2048, hop_length: int = 512) -> Any:
    half = frame_length // 2
    flat = x.reshape(-1, 1, x.shape[-1])
    padded = t.nn.functional.pad(flat, (half, half), mode="replicate")
    frames = (padded.reshape(*x.shape[:-1], -1) < 0).unfold(-1, frame_length, hop_length)
    return frames.diff(dim=-1).to(x.dtype).sum(-1) / frame_length


def pitch(
    t: Any,
    x: Any,
    frame_length: int,
    hop_length: int,
    sample_rate: int,
    f_min: float = 80.0,
    f_max: float = 1000.0,
    threshold: float = 0.1,
) -> Any:
    """Return the pitch by sums of products, and the parabola by three coefficients."""
    half = frame_length // 2
    frames = t.nn.functional.pad(x, (half, half)).unfold(-1, frame_length, hop_length)
    r = t.stack(
        [(frames[..., : frame_length - k] * frames[..., k:]).sum(-1) for k in range(frame_length)],
        -1,
    )
    low, high = int(sample_rate / f_max), math.ceil(sample_rate / f_min)
    place = r[..., low : high + 1].argmax(-1, keepdim=True) + low
    mean = r * frame_length / t.arange(frame_length, 0, -1)
    a, b, c = (mean.gather(-1, place + k)[..., 0] for k in (-1, 0, 1))
    square, linear = (a + c) / 2 - b, (c - a) / 2
    period = place[..., 0] - linear / (2 * square)
    return t.where(b > threshold * r[..., 0], sample_rate / period, t.zeros_like(b))


def lanczos(t: Any, u: Any, width: int) -> Any:
    return t.where(u.abs() < width, t.sinc(u) * t.sinc(u / width), t.zeros_like(u))


def kernel(t: Any, up: int, down: int, width: int = 6, dtype: str = "float32") -> Any:
    cutoff = min(1.0, up / down)
    reach = math.ceil(width / cutoff)
    columns = []
    for p in range(up):
        u = cutoff * (t.arange(2 * reach + down + 1, dtype=t.float64) - reach - p * down / up)
        columns.append(lanczos(t, u, width) / lanczos(t, u, width).sum())
    return t.stack(columns, -1).to(getattr(t, dtype))


def resample(t: Any, x: Any, orig_rate: int, new_rate: int, width: int = 6) -> Any:
    """Return each new sample as a sum over all old ones."""
    n = math.ceil(x.shape[-1] * new_rate / orig_rate)
    cutoff = min(1.0, new_rate / orig_rate)
    beyond = math.ceil(width / cutoff) + 1
    at = t.arange(n, dtype=t.float64)[:, None] * orig_rate / new_rate
    old = t.arange(-beyond, x.shape[-1] + beyond, dtype=t.float64)
    weight = lanczos(t, cutoff * (at - old), width)
    weight = (weight / weight.sum(-1, keepdim=True))[:, beyond:-beyond].to(x.dtype)
    return x @ weight.mT


def normalize(t: Any, x: Any, mode: str = "peak", level: float = 1.0) -> Any:
    size = (
        x.abs().amax(-1, keepdim=True) if mode == "peak" else (x**2).mean(-1, keepdim=True).sqrt()
    )
    return level * x / t.where(size == 0, t.ones_like(size), size)


ROWS: dict[str, Row] = {
    "mel_filterbank": Row(
        filterbank,
        [
            ({},),
            ({"scale": "htk", "norm": None, "f_min": 20, "n_mels": 40, "n_fft": 512},),
            ({"n_mels": 5, "n_fft": 64, "sample_rate": 16000, "dtype": "float64"},),
        ],
    ),
    "mel_weight_matrix": Row(
        weight_matrix,
        [
            (dict(zip(filterbank_names, values, strict=False)),)
            for filterbank_names in [list(weight_matrix.__annotations__)[1:6]]
            for values in ((8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 125.0, 7500.0))
        ],
    ),
    "mel_spectrogram": Row(
        mel_spectrogram,
        [
            (TONES, {**SOUND, **MEL}),
            (TONES[0], {**SOUND, **MEL, "power": 1.0, "scale": "htk", "norm": None}),
            (TONES, {**SOUND, **MEL, "power": 3.0, "f_min": 500}),
        ],
    ),
    "dct_matrix": Row(dct_matrix, [({"k": 3, "n": 5},), ({"k": 4, "n": 4, "dtype": "float64"},)]),
    "mfcc": Row(
        mfcc,
        [
            (TONES, {**SOUND, **MEL, "n_mfcc": 4}),
            (TONES[0], {**SOUND, **MEL, "n_mfcc": 6, "top_db": 9.0}),
            (TONES[0], {**SOUND, **MEL, "n_mfcc": 2, "top_db": None}),
        ],
    ),
    "log_mel_spectrogram": Row(
        log_mel,
        [
            (TONES, {**SOUND, **MEL}),
            (TONES[0], {**SOUND, **MEL, "scale": "htk", "norm": None, "f_min": 500}),
        ],
    ),
    "griffin_lim": Row(
        griffin_lim,
        [
            (uniform(0.5, 1.5, 2, 9, 6), {"n_iter": 3, "hop_length": 4}),
            (uniform(0.5, 1.5, 9, 6), {"n_iter": 2, "hop_length": 8, "momentum": 0.0}),
            (uniform(0.5, 1.5, 5, 6), {"n_iter": 0, "hop_length": 2, "length": 13}),
        ],
    ),
    "spectral_centroid": Row(centroid, [(TONES, SOUND), (TONES[0], SOUND)]),
    "spectral_rolloff": Row(
        rolloff, [(TONES, SOUND), (TONES, {**SOUND, "rolloff": 0.3})], fixed=(0,)
    ),
    "chroma_filterbank": Row(
        chroma_bank,
        [({},), ({"n_chroma": 24, "n_fft": 512},), ({"n_fft": 64, "dtype": "float64"},)],
    ),
    "chroma_features": Row(chroma, [(TONES, SOUND), (TONES[0], {**SOUND, "n_chroma": 24})]),
    "zero_crossing_rate": Row(
        crossings, [(normal(2, 50), {"frame_length": 16, "hop_length": 8}), (normal(3000),)],
        fixed=(0,),
    ),
    "pre_emphasis": Row(
        lambda t, x, coefficient=0.97: t.cat(
            [x[..., :1], x[..., 1:] - coefficient * x[..., :-1]], -1
        ),
        [(normal(2, 5),), (normal(1), {"coefficient": 0.5}), (normal(2, 0),)],
    ),
    "audio_normalize": Row(
        normalize,
        [
            (normal(2, 5),),
            (normal(3, 2, 5), {"mode": "rms", "level": 0.1}),
        ],
    ),
    "audio_normalize, silence": Row(normalize, [(np.zeros((2, 3)), {"mode": "rms"})], fixed=(0,)),
    "a_weighting": Row(a_weighting, [(uniform(10, 20000, 3, 4),), (np.array(50.0),), (normal(0),)]),
    "pitch_detection": Row(
        pitch,
        [(TONES, {"sample_rate": 8000, "frame_length": 150, "hop_length": 60, "f_min": 100.0})],
    ),
    "lanczos_kernel": Row(
        kernel, [({"up": 3, "down": 2},), ({"up": 2, "down": 7, "width": 3, "dtype": "float64"},)]
    ),
    "resample": Row(
        resample,
        [
            (normal(2, 30), {"orig_rate": 8000, "new_rate": 12000}),
            (normal(31), {"orig_rate": 44100, "new_rate": 16000, "width": 3}),
            (normal(2, 2, 9), {"orig_rate": 2, "new_rate": 1}),
        ],
    ),
}  # fmt: skip
