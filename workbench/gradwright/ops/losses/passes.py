"""What a head's runs of logits are read for, pass by pass: in numpy, and as kernels have it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
LOWEST = -1e4
"""What logits less their maximum are at the least: e to the power of that is 0, and 0·−∞ is NaN."""


class Asked(NamedTuple):
    """Cotangents of a run's results, f[n] each: of log p, entropy, log Σ p² and the mean."""

    of_label: Array
    of_entropy: Array
    of_squares: Array
    of_mean: Array

    @property
    def is_plain(self) -> bool:
        """Tell whether log-probabilities alone are asked for."""
        return not (self.of_entropy.any() or self.of_squares.any() or self.of_mean.any())


class Passes:
    """Reads runs of logits f[n, V], over which it may write; a run lies where the one before did.

    >>> [round(float(y[0]), 4) for y in Passes().told(np.zeros((1, 2)), np.array([1]))]
    [-0.6931, 0.6931, -0.6931, 0.0, 0.0]
    """

    def room(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return memory for the largest run; new memory would cost as much as the product."""
        return np.empty(shape, dtype)

    def told(self, x: Array, label: Array) -> tuple[Array, ...]:
        """Return log p[label], entropy, log Σ p², mean x, and whether the label is the argmax."""
        top = x.max(-1)
        is_top = first_largest(x, label, top)
        mean = x.mean(-1)
        x -= top[:, None]
        of_label = picked(x, label)
        p = np.exp(x)
        norm = np.log(p.sum(-1))
        np.maximum(x, LOWEST, out=x)
        entropy = norm - np.vecdot(p, x) / np.exp(norm)
        return of_label - norm, entropy, np.log(np.vecdot(p, p)) - 2 * norm, mean, is_top

    def slopes(self, x: Array, label: Array, asked: Asked, slope: float) -> Array:
        """Return what comes back to logits times a number, in their place.

        a·([j = id] − p) − b·p·(log p + entropy) + 2c·(softmax(2x) − p) + d/V
        """
        x -= x.max(-1, keepdims=True)
        p = np.exp(x)
        share = 1 / p.sum(-1, keepdims=True)
        a, b, c, d = (g[:, None] for g in asked)
        if asked.is_plain:
            np.multiply(p, -a * share * slope, out=x)
        else:
            p *= share
            np.maximum(x, LOWEST, out=x)
            entropy, squares = np.vecdot(p, x)[:, None], np.vecdot(p, p)[:, None]
            x -= entropy
            x *= -b
            x += p * (2 * c / squares) - (a + 2 * c)
            x *= p
            x += d / max(x.shape[1], 1)
            x *= slope
        x[np.arange(len(x)), label] += asked.of_label * slope
        return x


def picked(x: Array, label: Array) -> Array:
    """Return one element of each row."""
    return np.asarray(x[np.arange(len(x)), label])


def first_largest(x: Array, label: Array, top: Array) -> Array:
    """Tell whether labels are the argmax of rows of that maximum: few are looked through."""
    is_top = np.zeros(len(x), bool)
    may_be = np.flatnonzero(~(picked(x, label) < top))
    is_top[may_be] = x[may_be].argmax(-1) == label[may_be]
    return is_top
