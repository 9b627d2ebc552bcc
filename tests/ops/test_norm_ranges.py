"""Norms of float32 at 1e20 and 1e-25, and of float64 at 1e200 and 1e-200, with their gradients."""

import numpy as np
import pytest

import gradwright as gw

RANGES = [("float32", c) for c in (1.0, 1e20, 1e-25)]
RANGES += [("float64", c) for c in (1.0, 1e200, 1e-200)]
MODES = [{"kernels": "off"}, {"kernels": "wait"}]
D = 40


def fetched(f, x, mode):
    """Return what ``f`` makes of x, and the gradient of its sum."""
    graph = gw.Graph()
    p = graph.placeholder("x", x.shape, x.dtype.name)
    y = f(p)
    (dx,) = gw.gradients(y.sum(), [p])
    with gw.Session(graph, **mode) as session:
        return [np.asarray(v, np.float64) for v in session.run([y, dx], {p: x})]


def near(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=2e-5 if dtype == "float32" else 1e-12, atol=0)


def drawn(dtype, scale):
    x = np.random.default_rng(0).uniform(0.5, 2.0, (3, D)) * scale
    return x.astype(dtype), x.astype(dtype).astype(np.longdouble)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("dtype", "scale"), RANGES)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_lengths_and_their_gradients(dtype, scale, axis, mode):
    x, wide = drawn(dtype, scale)
    size = np.sqrt(np.square(wide).sum(axis, keepdims=True))
    centred = wide - wide.mean(axis, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis, keepdims=True))
    n = wide.size / spread.size
    cases = {
        "norm": (lambda p: gw.norm(p, axis=axis), size, wide / size),
        "distance": (lambda p: gw.euclidean_distance(p, p * 0.0, axis=axis), size, wide / size),
        "std": (lambda p: gw.std(p, axis=axis), spread, centred / spread / n),
    }
    for f, y, dx in cases.values():
        found, slope = fetched(f, x, mode)
        near(found, np.squeeze(y, axis).astype(float), dtype)
        np.testing.assert_allclose(slope, dx.astype(float), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("dtype", "scale"), RANGES)
def test_rows_that_do_not_depend_on_scale(dtype, scale, mode):
    x, wide = drawn(dtype, scale)
    unit = wide / np.sqrt(np.square(wide).sum(1, keepdims=True))
    centred = wide - wide.mean(1, keepdims=True)
    standard = centred / np.sqrt(np.square(centred).mean(1, keepdims=True))
    cases = {
        "lp_normalize": (gw.nn.lp_normalize, unit),
        "rms_norm": (lambda p: gw.nn.rms_norm(p, eps=0.0), unit * np.sqrt(D)),
        "layer_norm": (lambda p: gw.nn.layer_norm(p, eps=0.0), standard),
        "cosine": (lambda p: gw.cosine_similarity(p, p, axis=1), np.ones(3)),
    }
    for f, y in cases.values():
        found, slope = fetched(f, x, mode)
        np.testing.assert_allclose(found, y.astype(float), rtol=1e-4, atol=1e-6)
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_of_rows_of_every_scale_beside_each_other(dtype, mode):
    info = np.finfo(dtype)
    scales = np.geomspace(float(info.tiny) * 100, float(info.max) / 100, 60)
    x = (np.random.default_rng(0).uniform(0.5, 2, (60, D)) * scales[:, None]).astype(dtype)
    part = x / scales[:, None]
    expected = np.sqrt(np.square(part.astype(np.longdouble)).sum(1)) * scales
    found, slope = fetched(lambda p: gw.norm(p, axis=1), x, mode)
    near(found / scales, (expected / scales).astype(float), dtype)
    np.testing.assert_allclose(
        slope, (part / (expected / scales)[:, None]).astype(float), rtol=1e-4
    )


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_length_of_nothing_and_of_what_is_no_number(mode):
    for x, y in (
        (np.zeros((2, 3)), 0.0),
        (np.full((2, 3), np.inf), np.inf),
        (np.full((2, 3), np.nan), np.nan),
    ):
        for dtype in ("float32", "float64"):
            found, slope = fetched(lambda p: gw.norm(p, axis=1), x.astype(dtype), mode)
            np.testing.assert_array_equal(found, np.full(2, y))
            assert y != 0.0 or not slope.any()


@pytest.mark.parametrize("order", [1.5, 3.0])
@pytest.mark.parametrize(("dtype", "scale"), RANGES)
def test_norms_of_other_orders(dtype, scale, order):
    x, wide = drawn(dtype, scale)
    part = wide / wide.max()
    expected = (np.sum(part**order, 1) ** (1 / np.longdouble(order)) * wide.max()).astype(float)
    found, slope = fetched(lambda p: gw.norm(p, ord=order, axis=1), x, {})
    near(found, expected, dtype)
    np.testing.assert_allclose(slope, (wide / expected[:, None]) ** (order - 1), rtol=1e-4)


@pytest.mark.parametrize("kind", ["clip_norm", "clip_tensor_norm"])
def test_a_large_finite_gradient_is_clipped_not_dropped(kind):
    graph = gw.Graph()
    x = graph.placeholder("x", (None,))
    w = graph.variable("w", (3,), init=np.ones(3, np.float32))
    loss = (w * np.float32(1e20)).sum() + 0.0 * x.sum()
    trainer = gw.Trainer(graph, loss, optimizer=gw.optim.SGD(1.0), **{kind: 1.0})
    trainer.fit([{"x": np.zeros(1, np.float32)}], progress=False)
    np.testing.assert_allclose(graph.values["w"], 1 - 3**-0.5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e20])
def test_the_joint_norm_of_tensors(scale):
    x, wide = drawn("float32", scale)
    for mode in MODES:
        found, _ = fetched(lambda p: gw.training.global_norm([p, p]), x, mode)
        near(found, float(np.sqrt(2 * np.square(wide).sum())), "float32")


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("eps", [0.0, 1e-5])
@pytest.mark.parametrize("scale", [1.0, 1e20, 1e-25])
def test_norms_of_channels(scale, eps, mode):
    if eps and scale < 1:
        return  # what is far below ε is not brought to variance 1
    x, wide = drawn("float32", scale)
    x = x.reshape(3, 4, 10)
    wide = wide.reshape(x.shape)

    def standard(axes):
        centred = wide - wide.mean(axes, keepdims=True)
        return (centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + eps)).astype(float)

    graph = gw.Graph()
    p = graph.placeholder("x", x.shape)
    batch = gw.nn.batch_norm(p, eps=eps)
    g = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    (dx,) = gw.gradients((batch * graph.constant(g)).sum(), [p])
    group = gw.nn.group_norm(p, np.ones(4, "f4"), np.zeros(4, "f4"), 2, eps=eps)
    with gw.Session(graph, **mode) as session:
        found, grouped, slope = session.run([batch, group, dx], {p: x}, training=True)
    y = standard((0, 2))
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-6)
    root = np.sqrt(wide.astype(float).var((0, 2), keepdims=True) + eps)
    mean = [np.mean(v, (0, 2), keepdims=True) for v in (g, g * y)]
    np.testing.assert_allclose(slope * root, g - mean[0] - y * mean[1], rtol=1e-3, atol=1e-5)
    halves = x.reshape(3, 2, 20)
    wide = wide.reshape(halves.shape)
    np.testing.assert_allclose(grouped.reshape(halves.shape), standard((2,)), rtol=1e-4, atol=1e-6)
