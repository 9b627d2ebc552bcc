"""Fourier transforms, frames and windows beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.rows import Array, Case, Row

RNG = np.random.default_rng(0)  # of its own: phases of small numbers are all rounding


def normal(*shape: int) -> Array:
    return np.asarray(RNG.standard_normal(shape))


def uniform(low: float, high: float, *shape: int) -> Array:
    return np.asarray(RNG.uniform(low, high, shape))


def complexes(*shape: int) -> Array:
    return normal(*shape) + 1j * normal(*shape)


LENGTHS: list[dict[str, Any]] = [
    {}, {"n": 3}, {"n": 8, "norm": "ortho"}, {"axis": 0, "norm": "forward"}, {"axis": -2, "n": 1},
]  # fmt: skip


def fourier(name: str) -> Any:
    def transform(
        t: Any, x: Any, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Any:
        return getattr(t.fft, name)(x, n=n, dim=axis, norm=norm)

    return transform


def parts(t: Any, z: Any) -> Any:
    return t.stack([z.real, z.imag], -1)


def joined(t: Any, x: Any) -> Any:
    return (
        t.complex(x[..., 0].contiguous(), x[..., 1].contiguous()) if x.shape[-1] == 2 else x[..., 0]
    )


def dft(
    t: Any,
    x: Any,
    axis: int = -2,
    dft_length: int | None = None,
    inverse: bool = False,
    onesided: bool = False,
) -> Any:
    name = {(0, 0): "fft", (1, 0): "ifft", (0, 1): "rfft", (1, 1): "irfft"}[inverse, onesided]
    y = getattr(t.fft, name)(joined(t, x), n=dft_length, dim=axis % x.ndim)
    return y[..., None] if name == "irfft" else parts(t, y)


def stft(
    t: Any,
    signal: Any,
    window: Any = None,
    frame_step: int = 1,
    frame_length: int | None = None,
    onesided: bool = True,
) -> Any:
    length = frame_length or (signal.shape[-2] if window is None else len(window))
    window = t.ones(length, dtype=signal.dtype) if window is None else window
    z = t.stft(
        joined(t, signal), length, frame_step, window=window, center=False, onesided=onesided,
        return_complex=True,
    )  # fmt: skip
    return parts(t, z.mT)


def istft(
    t: Any,
    spectrum: Any,
    window: Any = None,
    frame_step: int = 1,
    onesided: bool = True,
    frame_length: int | None = None,
    length: int | None = None,
) -> Any:
    z = joined(t, spectrum).mT
    size = frame_length or ((z.shape[-2] - 1) * 2 if onesided else z.shape[-2])
    window = t.ones(size, dtype=spectrum.dtype) if window is None else window
    y = t.istft(
        z, size, frame_step, window=window, center=False, onesided=onesided,
        return_complex=not onesided,
    )  # fmt: skip
    if length is not None:
        y = t.nn.functional.pad(y, (0, length - y.shape[-1]))
    return y[..., None] if onesided else parts(t, y)


def overlap_add(t: Any, x: Any, frame_step: int) -> Any:
    n, size = x.shape[-2:]
    at = (t.arange(n)[:, None] * frame_step + t.arange(size)).flatten()
    y = t.zeros(*x.shape[:-2], (n - 1) * frame_step + size, dtype=x.dtype)
    return y.index_add(-1, at, x.flatten(-2))


def window(name: str, **fixed: float) -> Any:
    def make(t: Any, size: int, periodic: bool = True, dtype: str = "float32") -> Any:
        return getattr(t, name)(size, periodic=periodic, dtype=getattr(t, dtype), **fixed)

    return make


def spread(x: Array) -> list[Case]:
    """Return the lengths of transforms on an input."""
    return [(x, attrs) for attrs in LENGTHS]


NOLA = uniform(0.5, 1.0, 6)
WINDOWS: list[Case] = [
    ({"size": 7},), ({"size": 8, "periodic": False},), ({"size": 1},), ({"size": 0},),
    ({"size": 9, "dtype": "float64"},),
]  # fmt: skip

ROWS: dict[str, Row] = {
    "fft": Row(fourier("fft"), [*spread(normal(4, 5)), *spread(complexes(2, 3))]),
    "ifft": Row(fourier("ifft"), [*spread(normal(4, 5)), *spread(complexes(2, 3))]),
    "rfft": Row(fourier("rfft"), [*spread(normal(4, 5)), *spread(normal(2, 4))]),
    "irfft": Row(fourier("irfft"), [*spread(complexes(4, 5)), *spread(complexes(2, 3))[:3]]),
    "dft": Row(
        dft,
        [
            (normal(2, 5, 1),),
            (normal(2, 5, 2), {"axis": 0, "dft_length": 4}),
            (normal(2, 5, 2), {"inverse": True, "dft_length": 4}),
            (normal(2, 5, 1), {"onesided": True}),
            (normal(2, 5, 2), {"onesided": True, "inverse": True}),
        ],
    ),
    "stft": Row(
        stft,
        [
            (normal(2, 20, 1), normal(6), {"frame_step": 3}),
            (normal(2, 20, 2), normal(5), {"frame_step": 4, "onesided": False}),
            (normal(1, 9, 1), {"frame_step": 2, "frame_length": 4}),
        ],
    ),
    "istft": Row(
        istft,
        [
            (normal(2, 5, 4, 2), NOLA, {"frame_step": 2}),
            (normal(1, 4, 6, 2), NOLA, {"frame_step": 3, "onesided": False}),
            (normal(1, 4, 3, 2), {"frame_step": 2, "frame_length": 5, "length": 14}),
            (normal(1, 4, 3, 2), {"frame_step": 2, "frame_length": 5, "length": 7}),
        ],
    ),
    "view_as_real": Row("view_as_real", [(complexes(2, 3),), (complexes(),)]),
    "view_as_complex": Row(
        lambda t, x: t.view_as_complex(x.contiguous()), [(normal(2, 3, 2),), (normal(2),)]
    ),
    "frame": Row(
        lambda t, x, frame_length, frame_step: x.unfold(-1, frame_length, frame_step),
        [
            (normal(2, 9), {"frame_length": 4, "frame_step": 2}),
            (normal(9), {"frame_length": 2, "frame_step": 3}),
            (complexes(0, 5), {"frame_length": 5, "frame_step": 1}),
        ],
    ),
    "overlap_add": Row(
        overlap_add,
        [
            (normal(2, 9, 4), {"frame_step": 2}),
            (normal(2, 9), {"frame_step": 2}),
            (normal(3, 2), {"frame_step": 3}),
            (complexes(2, 3, 5), {"frame_step": 1}),
        ],
    ),
    "hann_window": Row(window("hann_window"), WINDOWS),
    "hamming_window": Row(window("hamming_window", alpha=25 / 46, beta=21 / 46), WINDOWS),
    "blackman_window": Row(window("blackman_window"), WINDOWS),
}  # fmt: skip
