"""Mel-cepstral distortion: how far two spectra are, once one is bent in time to the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import FeedError
from ...ops.signals.mel import DctMatrix

Array = np.ndarray[Any, Any]


def mel_cepstral_distortion(a: Any, b: Any, *, coefficients: int = 13) -> float:
    """Return how far two log-mel spectra are, f32[frames, bands] each, in decibels.

    d[i, j] = 10√2/ln 10·√(2/bands)·√Σₖ(cₐ[i, k] − c_b[j, k])², k = 1 … coefficients

    c is the cosine transform of a frame (``audio.dct_matrix``), without its loudness, k = 0. The
    mean of d is taken over the path of the least sum from the first frames to the last ones, by
    steps of one in a, b or both (Kubichek 1993; Sakoe and Chiba 1978). Values depend on the bands:
    compare those of one ``MelConfig``. Raises FeedError for spectra that do not fit.

    >>> import numpy as np
    >>> from gradwright.models import mel_cepstral_distortion
    >>> a = np.random.default_rng(0).standard_normal((9, 40))
    >>> slow = np.repeat(a, 2, 0)
    >>> mel_cepstral_distortion(a, slow), round(mel_cepstral_distortion(a, -a), 1)
    (0.0, 7.5)
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    fits = x.ndim == y.ndim == 2 and x.shape[1:] == y.shape[1:] and len(x) and len(y)
    if not fits or x.shape[1] <= coefficients:
        raise FeedError(
            f"spectra are {x.shape} and {y.shape}",
            need=f"(frames, bands) each, of the same bands, more than {coefficients}",
        )
    bands = x.shape[1]
    basis = DctMatrix(k=coefficients + 1, n=bands, dtype="float64").forward()[1:]
    x, y = x @ basis.T, y @ basis.T
    squares = ((x[:, None] - y) ** 2).sum(-1)
    return _along(np.sqrt(squares * (2 / bands)) * (10 * np.sqrt(2) / np.log(10)))


def _along(costs: Array) -> float:
    """Return the mean of costs along the path of the least sum.

    Places of one anti-diagonal depend on the two before it alone, and are found together.
    """
    n, m = costs.shape
    least, steps = np.full((n + 1, m + 1), np.inf), np.zeros((n + 1, m + 1))
    least[0, 0] = 0
    for diagonal in range(n + m - 1):
        i = np.arange(max(0, diagonal - m + 1), min(n, diagonal + 1))
        j = diagonal - i
        before = np.stack([least[i, j], least[i, j + 1], least[i + 1, j]])
        came = before.argmin(0)
        steps[i + 1, j + 1] = 1 + steps[i + (came == 2), j + (came == 1)]
        least[i + 1, j + 1] = costs[i, j] + before.min(0)
    return float(least[n, m] / steps[n, m])
