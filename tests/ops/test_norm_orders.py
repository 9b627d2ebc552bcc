"""Norms of every order, those below 1 as well: values are numpy's, slopes torch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw

ORDERS = [0.5, 0.1, -1.0, -2.5, 0.0, -math.inf, math.inf, 1.0, 1.5, 2.0, 3.0]
X = np.array([[3.0, -0.5, 2.0], [0.0, -4.0, 0.25], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0]])


def slopes(x, order):
    """Return the derivatives that torch's vector_norm has, in long doubles."""
    wide = np.abs(x.astype(np.longdouble))
    with np.errstate(all="ignore"):
        if math.isinf(order):
            best = wide == (wide.max if order > 0 else wide.min)(1, keepdims=True)
            return np.sign(x) * best / best.sum(1, keepdims=True)
        if order == 0:
            return np.zeros_like(x)
        total = (wide**order).sum(1, keepdims=True)
        slope = np.sign(x) * wide ** (order - 1) * total ** (1 / np.longdouble(order) - 1)
    return np.where(wide == 0, 0, slope)


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
def test_values_and_slopes_of_every_order(order, dtype, kernels):
    g = gw.Graph()
    x = g.placeholder("x", (None, 3), dtype)
    y = gw.norm(x, axis=1, ord=order)
    (dx,) = gw.gradients(y.sum(), [x])
    with gw.Session(g, kernels=kernels) as s:
        value, slope = s.run([y, dx], {x: X})
    with np.errstate(divide="ignore"):
        want = np.linalg.norm(X, order, axis=1)
    assert value.dtype == slope.dtype == dtype
    rtol = 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(value, want, rtol=rtol)
    np.testing.assert_allclose(slope, slopes(X, order).astype(float), rtol=rtol)


@pytest.mark.parametrize("order", [p for p in ORDERS if p])  # of order 0 it gives none
def test_slopes_are_those_of_torch(order):
    torch = pytest.importorskip("torch")
    t = torch.tensor(X, requires_grad=True)
    torch.linalg.vector_norm(t, order, dim=1).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), slopes(X, order).astype(float), rtol=1e-13)


def test_axes_of_any_number_and_halves():
    g = gw.Graph()
    x = g.placeholder("x", (4, 3), "float16")
    y = gw.norm(x, ord=0.5, keepdims=True)
    found = g.output({"x": X + 1}, y)[y.name]
    assert found.dtype == "float16" and found.shape == (1, 1)
    np.testing.assert_allclose(found, np.sqrt(np.abs(X + 1)).sum() ** 2, rtol=1e-3)
