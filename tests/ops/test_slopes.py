"""Slopes of functions of elements where values saturate, overflow or jump: precise, and no NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw

WIDE = np.longdouble
DTYPES = ["float32", "float64"]


def grid(dtype):
    """Return numbers of all sizes, and where exponentials reach the ends of a dtype."""
    top = 38 if dtype == "float32" else 150
    sizes = [10.0**k for k in range(-top, top + 1, 3)]
    sizes += [0.1, 0.5, 2.0, 5.0, 9.0, 13.0, 17.0, 20.0, 30.0, 40.0, 50.0, 80.0, 86.0, 100.0, 700.0]
    near_one = [1 - 10.0**-k for k in range(1, 6)]
    points = np.array([*sizes, *near_one]).astype(dtype)
    return np.unique(np.concatenate([-points, points]))


def exp(x):
    return np.exp(np.clip(x, -11000, 11000))


def decay(x):
    return np.where(x > 0, WIDE(1), exp(np.minimum(x, 0)))


def sigma(x):
    return 1 / (1 + exp(-x))


def sech2(x):
    e = exp(-2 * np.abs(x))
    return 4 * e / (1 + e) ** 2


def mish(x):
    soft, far = np.logaddexp(0, x), sigma(-x)
    return np.tanh(soft) + x * sigma(x) * 4 * far**2 / (1 + far**2) ** 2


def gelu_tanh(x):
    x = np.clip(x, -100, 100)
    u = 2 * np.sqrt(2 / np.arccos(WIDE(-1))) * (x + WIDE("0.044715") * x**3)
    bend = 2 * np.sqrt(2 / np.arccos(WIDE(-1))) * (1 + 3 * WIDE("0.044715") * x * x)
    return sigma(u) * (1 + x * sigma(-u) * bend)


def inside(x):
    return np.abs(x) < 1


SELU = WIDE(1.0507009873554805) * WIDE(1.6732632423543772)
# name: op, slopes in long doubles, domain, units in the last place
SLOPES = {
    "expm1": (gw.expm1, exp, None, 4),
    "elu": (gw.nn.elu, decay, None, 4),
    "celu": (gw.nn.celu, decay, None, 4),
    "celu_2": (lambda x: gw.nn.celu(x, alpha=2.0), lambda x: decay(x / 2), None, 4),
    "selu": (
        gw.nn.selu,
        lambda x: np.where(x > 0, WIDE(1.0507009873554805), SELU * decay(x)),
        None,
        4,
    ),
    "sigmoid": (gw.nn.sigmoid, lambda x: sigma(x) * sigma(-x), None, 6),
    "tanh": (gw.tanh, sech2, None, 6),
    "tanh_shrink": (gw.nn.tanh_shrink, lambda x: np.tanh(x) ** 2, None, 6),
    "softplus": (gw.nn.softplus, sigma, None, 4),
    "log_sigmoid": (gw.nn.log_sigmoid, lambda x: sigma(-x), None, 4),
    "mish": (gw.nn.mish, mish, None, 10),
    "softsign": (gw.nn.softsign, lambda x: 1 / (1 + np.abs(x)) ** 2, None, 4),
    "gelu_tanh": (lambda x: gw.nn.gelu(x, approximate="tanh"), gelu_tanh, None, 1000),
    "fused_gelu": (gw.nn.fused_gelu, gelu_tanh, None, 1000),
    "arcsin": (gw.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), inside, 4),
    "arccos": (gw.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), inside, 4),
    "arctanh": (gw.arctanh, lambda x: 1 / ((1 - x) * (1 + x)), inside, 4),
    "arctan": (gw.arctan, lambda x: 1 / (1 + x * x), None, 4),
    "arcsinh": (gw.arcsinh, lambda x: 1 / np.hypot(x, WIDE(1)), None, 4),
    "arccosh": (
        gw.arccosh,
        lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
        lambda x: x > 1,
        4,
    ),
    "log1p": (gw.log1p, lambda x: 1 / (1 + x), lambda x: x > -1, 4),
}


@pytest.mark.parametrize(
    ("dtype", "kernels"), [("float32", "off"), ("float64", "off"), ("float32", "wait")]
)
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_precise_at_every_size(name, dtype, kernels):
    op, slope, domain, units = SLOPES[name]
    x = grid(dtype)
    if domain is not None:
        x = x[domain(x)]
    g = gw.Graph()
    t = g.placeholder("x", (None,), dtype)
    (dx,) = gw.gradients(op(t).sum(), [t])
    with gw.Session(g, kernels=kernels) as s:
        found = s.run(dx, {t: x})
    with np.errstate(over="ignore"):
        want = slope(x.astype(WIDE))
    info = np.finfo(dtype)
    normal = (np.abs(want) >= 4 * info.tiny) & (np.abs(want) <= info.max)
    assert normal.any()
    error = np.abs(found.astype(WIDE) - want)[normal] / np.abs(want[normal])
    worst = np.argmax(error)
    assert error[worst] <= units * info.eps, (x[normal][worst], found[normal][worst])
    assert np.all(np.abs(found[np.abs(want) < 4 * info.tiny]) < 8 * info.tiny)


SECOND = {
    "log_sigmoid": (gw.nn.log_sigmoid, lambda x: -sigma(x) * sigma(-x)),
    "softplus": (gw.nn.softplus, lambda x: sigma(x) * sigma(-x)),
    "sigmoid": (gw.nn.sigmoid, lambda x: sigma(x) * sigma(-x) * (sigma(-x) - sigma(x))),
    "tanh": (gw.tanh, lambda x: -2 * np.tanh(x) * sech2(x)),
}


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_do_not_vanish_in_tails(name, kernels):
    op, want = SECOND[name]
    x = np.array([-40.0, -20.0, -5.0, -0.5, 0.5, 5.0, 20.0, 40.0], np.float32)
    g = gw.Graph()
    t = g.placeholder("x", (None,))
    (dx,) = gw.gradients(op(t).sum(), [t])
    (ddx,) = gw.gradients(dx.sum(), [t])
    with gw.Session(g, kernels=kernels) as s:
        found = s.run(ddx, {t: x})
    np.testing.assert_allclose(found.astype(WIDE), want(x.astype(WIDE)), rtol=4e-6)


FAR = {
    **{name: op for name, (op, *_) in SLOPES.items() if not name.startswith("arc")},
    **{name: getattr(gw.nn, name) for name in ("gelu", "silu", "mish")},
    "erf": gw.erf,
    "erfc": gw.erfc,
    "logaddexp": lambda x: gw.logaddexp(x, 0.0),
}
GROWING = ("expm1", "log1p")


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", [name for name in FAR if name not in GROWING])
def test_slopes_of_slopes_are_zero_far_out(name, kernels):
    size = np.array([1e3, 1e10, 1e19, 1e20, 1e30, 1e36], np.float32)
    x = np.concatenate([size, -size])
    g = gw.Graph()
    t = g.placeholder("x", (None,))
    (dx,) = gw.gradients(FAR[name](t).sum(), [t])
    (ddx,) = gw.gradients(dx.sum(), [t])
    with gw.Session(g, kernels=kernels) as s:
        first, second = s.run([dx, ddx], {t: x})
    assert np.isfinite(first).all()
    assert np.abs(second).max() < 1e-8


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_logaddexp_of_equal_numbers_is_as_smooth_as_of_others(kernels):
    g = gw.Graph()
    a, b = g.placeholder("a", (5,), "float64"), g.placeholder("b", (5,), "float64")
    first = gw.gradients(gw.logaddexp(a, b).sum(), [a, b])
    second = gw.gradients((first[0] - 2.0 * first[1]).sum(), [a, b])
    at = np.array([0.0, 3.0, -700.0, np.inf, -np.inf])
    with gw.Session(g, kernels=kernels) as s:
        slopes, bends = s.run([first[0], *second], {a: at, b: at})[0], s.run(second, {a: at, b: at})
    np.testing.assert_array_equal(slopes, 0.5)
    np.testing.assert_allclose(bends[0][:3], 0.75)
    np.testing.assert_allclose(bends[1][:3], -0.75)


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_value_and_slope_of_an_elu_in_one_kernel_are_those_of_two(kernels):
    """There expm1 and exp of one x share the work."""
    x = np.concatenate([grid("float32"), np.linspace(-110, 3, 4001, dtype=np.float32)])
    g = gw.Graph()
    t, w = g.placeholder("x", (None,)), g.placeholder("w", (None,))
    for op in (gw.nn.elu, gw.nn.celu, gw.nn.selu, gw.expm1):
        y = op(t)
        (dx,) = gw.gradients((y * w).sum(), [t])
        with gw.Session(g, kernels=kernels) as s:
            feeds = {t: x, w: np.ones_like(x)}
            both = s.run([y, dx], feeds)
            for together, alone in zip(both, (s.run(y, feeds), s.run(dx, feeds)), strict=True):
                np.testing.assert_array_equal(together, alone)
        if op is gw.nn.elu:
            below = np.minimum(x, 0).astype(WIDE)
            want = np.where(x > 0, x, np.expm1(below))
            np.testing.assert_allclose(both[0].astype(WIDE), want, rtol=4 * 2.0**-23)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_as_ops_do_not_cancel(dtype):
    x = grid(dtype)
    g = gw.Graph()
    t = g.placeholder("x", (None,), dtype)
    tanh, sigmoid = gw.nn.tanh_derivative(t), gw.nn.sigmoid_derivative(t)
    found = g.output({"x": x}, tanh, sigmoid)
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny
    wide = x.astype(WIDE)
    for y, want in ((tanh, sech2(wide)), (sigmoid, sigma(wide) * sigma(-wide))):
        np.testing.assert_allclose(found[y.name].astype(WIDE), want, rtol=6 * eps, atol=8 * tiny)


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sinc_is_smooth_and_right_far_out(dtype, kernels):
    """Phases are those of the exact x: at whole numbers the value is 0, the slope ±1/x."""
    x = np.array([0.0, 0.25, 0.5, 1.0, 709.0, 1000.0, 12345.0, 2.0**22, -1.5, 1e30]).astype(dtype)
    g = gw.Graph()
    t = g.placeholder("x", (None,), dtype)
    y = gw.sinc(t)
    (dx,) = gw.gradients(y.sum(), [t])
    with gw.Session(g, kernels=kernels) as s:
        value, slope = (a.astype(WIDE) for a in s.run([y, dx], {t: x}))
    wide, pi = x.astype(WIDE), np.arccos(WIDE(-1))
    turn = np.fmod(wide, WIDE(2)) * pi
    safe = np.where(wide == 0, WIDE(1), wide)
    want = np.where(wide == 0, WIDE(1), np.sin(turn) / (pi * safe))
    eps = np.finfo(dtype).eps
    room = 4 * eps * np.abs(want) + 2 * eps / np.maximum(1, np.abs(wide))
    assert np.all(np.abs(value - want) <= room)
    slopes = np.where(wide == 0, WIDE(0), (np.cos(turn) - want) / safe)
    np.testing.assert_allclose(slope, slopes, rtol=8 * eps)


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize(("dtype", "sizes"), [
    ("float32", [1.0, 1e-23, 1e-37, 1e20, 1e38]), ("float64", [1.0, 1e-200, 1e-305, 1e200, 1e305])
])  # fmt: skip
def test_angles_have_slopes_at_every_size(dtype, sizes, kernels):
    v = np.array(sizes, dtype)
    g = gw.Graph()
    y, x = g.placeholder("y", (None,), dtype), g.placeholder("x", (None,), dtype)
    slopes = gw.gradients(gw.arctan2(y, x).sum(), [y, x])
    with gw.Session(g, kernels=kernels) as s:
        dy, dx = s.run(slopes, {y: v, x: 2 * v})
        none = s.run(slopes, {y: np.zeros(2, dtype), x: np.array([0.0, -0.0], dtype)})
        far = s.run(slopes[0], {y: np.array([np.inf, 1.0], dtype), x: np.array([1, 0], dtype)})
    wide = v.astype(WIDE)
    np.testing.assert_allclose(dy.astype(WIDE), WIDE(0.4) / wide, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(dx.astype(WIDE), WIDE(-0.2) / wide, rtol=4 * np.finfo(dtype).eps)
    assert not np.any(none)  # torch's choice at the origin, and that of hypot and norms
    assert not np.any(far)


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_powers_are_flat_where_they_are_constant(kernels):
    g = gw.Graph()
    a, b = (g.placeholder(name, (None,), "float64") for name in "ab")
    da, db = gw.gradients((a**b).sum(), [a, b])
    (dab,) = gw.gradients(da.sum(), [b])
    inf = np.inf
    with gw.Session(g, kernels=kernels) as s:
        at = {a: [0.0, 2.0, inf, -inf, np.nan], b: np.zeros(5)}
        assert s.run(da, at).tolist()[:4] == [0, 0, 0, 0]
        at = {a: [0.0, 0.0, inf, inf, 1e300], b: [0.0, 2.0, -1.0, -inf, -5.0]}
        assert s.run(db, at).tolist() == [0, 0, 0, 0, 0]
        assert s.run(dab, {a: [4.0], b: [0.0]}).tolist() == [0.25]  # of b·a^(b − 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rational_tanh_saturates_without_overflow(dtype):
    x = grid(dtype)
    g = gw.Graph()
    t = g.placeholder("x", (None,), dtype)
    y = gw.rational_tanh(t)
    (dx,) = gw.gradients(y.sum(), [t])
    value, slope = g.output({"x": x}, y, dx).values()
    a = np.abs(x.astype(WIDE)) * 2 / 3
    p = a + a**2 + WIDE(1.41645) * a**4
    c, eps = WIDE(1.7159), np.finfo(dtype).eps
    np.testing.assert_allclose(value.astype(WIDE), np.sign(x) * c / (1 + 1 / p), rtol=8 * eps)
    want = c * (1 + 2 * a + 4 * WIDE(1.41645) * a**3) * 2 / 3 / (1 + p) ** 2
    tiny = np.finfo(dtype).tiny
    np.testing.assert_allclose(slope.astype(WIDE), want, rtol=16 * eps, atol=8 * tiny)


def test_log_cosh_is_even_and_finite():
    g = gw.Graph()
    p = g.placeholder("p", (4,), "float64")
    y = gw.loss.log_cosh(g.constant(np.zeros(4)), p, reduction="none")
    (dp,) = gw.gradients(y.sum(), [p])
    far = 1.5e308
    value, slope = g.output({"p": [-far, far, -30.0, 30.0]}, y, dp).values()
    np.testing.assert_allclose(value, [far, far, 30 - math.log(2), 30 - math.log(2)], rtol=1e-15)
    assert slope.tolist() == [-1, 1, -1, 1]
