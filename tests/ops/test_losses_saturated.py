"""Losses of saturated predictions: finite, and in float32 what float64 gives."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

ONE_HOT = np.eye(4)[[0, 1, 2, 3, 3]]
NUMBERS = np.array([0, 1, 2, 3, 3])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])


def _ctc(c, p, t):
    """Two labels in three steps."""
    steps = gw.stack([p, t, -p], axis=1)
    lengths = (c(np.full(5, 3)), c(np.full(5, 2)))
    return gw.loss.ctc(c(np.tile([1, 2], (5, 1))), steps, *lengths)


def _binary(y, gamma=None):
    def build(c, p, t):
        labels = c(np.full((5, 4), y))
        if gamma is None:
            return gw.loss.sigmoid_cross_entropy(labels, p, reduction="none")
        return gw.loss.sigmoid_focal(labels, p, gamma=gamma, reduction="none")

    return build


def _soft(loss, **attributes):
    return lambda c, p, t: loss(c(ONE_HOT), p, reduction="none", **attributes)


def _teacher(loss, **attributes):
    return lambda c, p, t: loss(t, p, reduction="none", **attributes)


LOSSES = {
    "softmax": _soft(gw.loss.softmax_cross_entropy),
    "smoothed": _soft(gw.loss.softmax_cross_entropy, label_smoothing=0.1),
    "numbers": lambda c, p, t: gw.loss.sparse_softmax_cross_entropy(
        c(NUMBERS), p, reduction="none"
    ),
    "nll": lambda c, p, t: gw.loss.nll(c(NUMBERS), gw.nn.log_softmax(p), reduction="none"),
    "multi_margin": lambda c, p, t: gw.loss.multi_margin(c(NUMBERS), p, reduction="none"),
    "log_cosh": _soft(gw.loss.log_cosh),
    "huber": _soft(gw.loss.huber),
    "soft_margin": lambda c, p, t: gw.loss.soft_margin(c(ONE_HOT * 2 - 1), p, reduction="none"),
    "distillation": _teacher(gw.loss.distillation_kl),
    **{f"jsd_{b}": _teacher(gw.loss.generalized_jsd, beta=b) for b in (0.0, 0.3, 0.5, 1.0)},
    **{f"binary_{y}": _binary(y) for y in (0.0, 0.3, 1.0)},
    **{f"focal_{y}_{g}": _binary(y, g) for y in (0.0, 1.0) for g in (0.5, 1.5, 2.0)},
    "contrastive": _teacher(gw.loss.contrastive),
    "triplet": lambda c, p, t: gw.loss.triplet_margin(t, p, c(ONE_HOT), reduction="none"),
    "cosine": lambda c, p, t: gw.loss.cosine_embedding(c(SIGNS), t, p, reduction="none"),
    "ctc": _ctc,
}
ELEMENTWISE = [n for n in LOSSES if n.startswith(("binary", "focal", "soft_margin", "log_cosh"))]


def _run(name, size, dtype, kernels):
    s = size
    x = [[s, -s, 0, 1], [-s, s, s, -s], [0, 0, s, 0], [-s, -s, -s, s], [s, 0.5, 0.25, -s]]
    given = np.array(x, dtype)
    g = gw.Graph()
    p, t = (g.placeholder(n, (5, 4), dtype) for n in "pt")
    y = LOSSES[name](lambda a: g.constant(a if a.dtype.kind == "i" else a.astype(dtype)), p, t)
    (dp,) = gw.gradients(y.sum(), [p])
    with gw.Session(g, kernels=kernels) as session:
        return session.run([y, dp], {p: given, t: -given[::-1]})


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_slopes_are_finite_and_those_of_float64(name):
    for size in (1.0, 20.0, 50.0, 100.0, 1e4):
        atol = 1e-6 * (size if name == "triplet" else 1)  # a difference of distances of that size
        reference = _run(name, size, "float64", "off")
        assert all(np.isfinite(part).all() for part in reference)
        for kernels in ("off", "wait"):
            for found, want in zip(_run(name, size, "float32", kernels), reference, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_losses_of_elements_keep_their_digits_in_tails(name, kernels):
    for size in (20.0, 50.0, 80.0):
        reference = _run(name, size, "float64", "off")
        for found, want in zip(_run(name, size, "float32", kernels), reference, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-37)
