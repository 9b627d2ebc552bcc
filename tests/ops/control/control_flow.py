"""What tests of loops share: runs on every device, and gradients of two orders."""

from __future__ import annotations

import numpy as np

import gradwright as gw


def everywhere(g, fetches, feeds, **options):
    """Run with each device and with replay; all agree, and one result is returned."""
    found = []
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            found.append(session.run(fetches, feeds, **options))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return found[0]


def total(tensors):
    """Return a number that depends on all elements of the tensors, not linearly."""
    parts = [(t * t).sum() for t in tensors]
    return sum(parts[1:], start=parts[0])


def orders(loss, wrt):
    """Return the gradient and, by differentiating its squares, the second order."""
    first = gw.gradients(loss, wrt)
    return first, gw.gradients(total(first), wrt)
