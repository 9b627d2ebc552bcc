"""Written-out forms that a rule stabilises: one value and one slope, whatever else is fetched."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.layers.nn import SoftmaxGrad
from gradwright.rewrite.stand_ins import FORMS

X = [1000.0, 0.5, -1000.0, 3.0]
TINY = [1e-20, -1e-12, 0.25, -3e-17]
FAR = [6.0, -6.0, 0.1, 5.0]
ERF_SLOPES = 2 / math.sqrt(math.pi) * np.exp(-np.square(FAR))


def sigma(x):
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def shares(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def lse(x):
    return np.max(x) + np.log(np.exp(x - np.max(x)).sum())


def shifted(x):
    return x - x.max(-1, keepdims=True)


W = np.array([0.3, -1.0, 2.0, 0.7])
"""The cotangent: of shares, one of ones would tell nothing."""


def of_shares(x):
    p = shares(x)
    return p * (W - (W * p).sum())


def of_logs(x):
    return W - shares(x) * W.sum()


def erfc(x):
    return np.array([math.erfc(v) for v in x])


# rule: form, where, values, slopes (of Σ W·y)
CASES = {
    "log1p": (lambda x: gw.log(1.0 + x), TINY, np.log1p, lambda x: W / (1 + x)),
    "expm1": (lambda x: gw.exp(x) - 1.0, TINY, np.expm1, lambda x: W * np.exp(x)),
    "softplus": (lambda x: gw.log1p(gw.exp(x)), X, softplus, lambda x: W * sigma(x)),
    "softplus_of_parts": (
        lambda x: gw.maximum(x, 0.0) + gw.nn.softplus(-gw.abs(x)),
        X,
        softplus,
        lambda x: W * sigma(x),
    ),
    "sigmoid": (
        lambda x: 1.0 / (1.0 + gw.exp(-x)),
        X,
        sigma,
        lambda x: W * sigma(x) * sigma(-x),
    ),
    "log_sigmoid": (
        lambda x: gw.log(gw.nn.sigmoid(x)),
        X,
        lambda x: -softplus(-x),
        lambda x: W * sigma(-x),
    ),
    "log_sigmoid_rest": (
        lambda x: gw.log(1.0 - gw.nn.sigmoid(x)),
        X,
        lambda x: -softplus(x),
        lambda x: -W * sigma(x),
    ),
    "log_sigmoid_rest_by_log1p": (
        lambda x: gw.log1p(-gw.nn.sigmoid(x)),
        X,
        lambda x: -softplus(x),
        lambda x: -W * sigma(x),
    ),
    "erfc": (lambda x: 1.0 - gw.erf(x), FAR, erfc, lambda x: -W * ERF_SLOPES),
    "erfc_of_negative": (
        lambda x: 1.0 + gw.erf(x),
        FAR,
        lambda x: erfc(-x),
        lambda x: W * ERF_SLOPES,
    ),
    "logsumexp": (
        lambda x: gw.log(gw.exp(x).sum(-1, keepdims=True)),
        X,
        lambda x: lse(x)[None],
        lambda x: W.sum() * shares(x),
    ),
    "logsumexp_shifted": (
        lambda x: x.max(-1) + gw.logsumexp(shifted(x), axis=-1),
        X,
        lse,
        lambda x: W.sum() * shares(x),
    ),
    "softmax": (
        lambda x: gw.exp(x) / gw.exp(x).sum(-1, keepdims=True),
        X,
        shares,
        of_shares,
    ),
    "log_softmax": (
        lambda x: gw.log(gw.exp(x) / gw.exp(x).sum(-1, keepdims=True)),
        X,
        lambda x: x - lse(x),
        of_logs,
    ),
    "log_softmax_of_sum": (
        lambda x: x - gw.log(gw.exp(x).sum(-1, keepdims=True)),
        X,
        lambda x: x - lse(x),
        of_logs,
    ),
    "softmax_shifted": (lambda x: gw.nn.softmax(shifted(x)), X, shares, of_shares),
    "log_softmax_shifted": (
        lambda x: gw.nn.log_softmax(shifted(x)),
        X,
        lambda x: x - lse(x),
        of_logs,
    ),
}

FAR_OUT = [3e160, -4e160, 1e3, 2e160]
LENGTHS = {
    "of_sum": (lambda x: (x * x).sum(-1), lambda x: x, 1),
    "of_mean": (lambda x: gw.square(x).mean(-1), lambda x: x, 4),
    "of_var": (lambda x: gw.var(x, axis=-1), lambda x: x - math.fsum(x / 4), 4),
}
ROOTS = {
    "root": (gw.sqrt, False),
    "power": (lambda y: y**0.5, False),
    "inverse_root": (gw.rsqrt, True),
    "inverse_power": (lambda y: y**-0.5, True),
}


def length_case(root, squares, of, n, inverted, eps):
    def value(x):
        size = math.hypot(*of(x), math.sqrt(eps * n)) / math.sqrt(n)
        return 1 / size if inverted else size

    def slope(x):
        y = value(x)
        return W.sum() * (of(x) * y / n * -y * y if inverted else of(x) / y / n)

    return (lambda x: root(squares(x) + eps if eps else squares(x))), FAR_OUT, value, slope


CASES |= {
    f"{r}_{kind}{'_plus' if eps else ''}": length_case(root, squares, of, n, inverted, eps)
    for r, (root, inverted) in ROOTS.items()
    for kind, (squares, of, n) in LENGTHS.items()
    for eps in (0.0, 1e-5)
}


def log_softmax_grad(x):
    p = gw.nn.softmax(x)
    return SoftmaxGrad()(W / p, p)


def log_softmax_grad_of_parts(x):
    p = gw.nn.softmax(x)
    g = W / p
    return (g - (g * p).sum(-1, keepdims=True)) * p


for _name, _form in (
    ("log_softmax_grad", log_softmax_grad),
    ("log_softmax_grad_of_parts", log_softmax_grad_of_parts),
):
    CASES[_name] = _form, X, of_logs, lambda x: -W.sum() * of_shares(x)


def test_every_form_has_a_case():
    assert set(CASES) == {form.name for forms in FORMS.values() for form in forms}


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", CASES)
def test_value_and_slope_do_not_depend_on_what_else_is_fetched(name, kernels):
    build, at, value, slope = CASES[name]
    g = gw.Graph()
    x = g.placeholder("x", (4,), "float64")
    y = build(x)
    inner = [n.outputs[0] for n in g.nodes if n.kind == "array" and n.outputs[0] is not y]
    (dx,) = gw.gradients((y * W).sum(), [x])
    point = np.array(at)
    wanted, slopes = value(point), slope(point)
    with gw.Session(g, kernels=kernels) as s:
        for others in ([], [dx], inner, [*inner, dx], *([t] for t in inner)):
            found = s.run([y, *others], {x: point})[0]
            np.testing.assert_allclose(found, wanted, rtol=4e-15, atol=1e-300)
        for others in ([], [y], inner, [y, *inner]):
            found = s.run([dx, *others], {x: point})[0]
            np.testing.assert_allclose(found, slopes, rtol=1e-13, atol=1e-300)


def test_cotangents_reach_what_is_between_when_they_are_asked_for():
    """∂ log(Σ e)/∂e of an activation e = exp x, beside ∂/∂x, and with e taken as constant."""
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    e = gw.exp(x)
    y = gw.log(e.sum()) + (e * 2.0).sum()
    de, dx = gw.gradients(y, [e, x])
    (only_x,) = gw.gradients(y, [x])
    (stopped,) = gw.gradients(y + x.sum(), [x], stop=[e])
    point = np.array([0.1, -1.0, 2.0])
    found = g.output({"x": point}, de, dx, only_x, stopped)
    values = np.exp(point)
    np.testing.assert_allclose(found[de.name], 1 / values.sum() + 2, rtol=1e-14)
    for t in (dx, only_x):
        np.testing.assert_allclose(found[t.name], shares(point) + 2 * values, rtol=1e-14)
    np.testing.assert_allclose(found[stopped.name], np.ones(3), rtol=0)


def test_second_slopes_of_a_written_form_are_stable():
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    (dx,) = gw.gradients(gw.log(gw.exp(x).sum()), [x])
    (ddx,) = gw.gradients((dx * [1.0, 2.0, 4.0]).sum(), [x])
    point, w = np.array([1000.0, 999.0, -1000.0]), np.array([1.0, 2.0, 4.0])
    p = shares(point)
    np.testing.assert_allclose(g.output({"x": point}, ddx)[ddx.name], p * (w - p @ w), atol=1e-15)


def test_symbolic_sizes_have_the_same_slopes():
    g = gw.Graph()
    x = g.placeholder("x", ("B", "C"), "float32")
    loss = -gw.log(1.0 / (1.0 + gw.exp(-x))).sum()
    (dx,) = gw.gradients(loss, [x])
    for shape in ((1, 4), (2, 2), (0, 3)):
        point = np.array([-200.0, 200.0, 0.0, -90.0], np.float32)[: math.prod(shape)].reshape(shape)
        found = g.output({"x": point}, dx)[dx.name]
        np.testing.assert_allclose(found, -sigma(-point), rtol=1e-6, atol=1e-37)
