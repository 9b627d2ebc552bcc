"""Neural-network ops beyond what their samples say: kinks, extremes, state, errors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError
from gradwright.ops.core import special
from tests.support.op_values import run, slope

# -- activations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (gw.nn.relu, [-1.0, 0.0, 1.0], [0, 0, 1]),
        (gw.nn.relu6, [-1.0, 0.0, 3.0, 6.0, 7.0], [0, 0, 1, 0, 0]),
        (gw.nn.leaky_relu, [-1.0, 0.0, 1.0], [0.01, 0.01, 1]),
        (gw.nn.elu, [-1.0, 0.0, 1.0], [math.exp(-1), 1, 1]),
        (gw.nn.hard_sigmoid, [-3.0, 0.0, 3.0], [0, 1 / 6, 0]),
    ],
)
def test_gradients_at_kinks(function: Any, at: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(slope(function, at), expected, rtol=1e-7)


def test_relu_stops_infinite_cotangents_and_shows_nan() -> None:
    g = gw.Graph()
    x = g.constant(np.array([-1.0, 1.0, np.nan]))
    (dx,) = gw.gradients(gw.nn.relu(x), [x], g.constant(np.full(3, np.inf)))
    assert g.output({}, dx)[dx.name][:2].tolist() == [0.0, np.inf]
    assert np.isnan(run(gw.nn.relu, [np.nan])).all()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (gw.nn.sigmoid, [0, 0, 0.5, 1, 1]),
        (gw.nn.softplus, [0, 0, math.log(2), 800, np.inf]),
        (gw.nn.elu, [-1, -1, 0, 800, np.inf]),
        (gw.nn.gelu, [-0.0, -0.0, 0, 800, np.inf]),
        (gw.tanh, [-1, -1, 0, 1, 1]),
    ],
)
def test_extremes(function: Any, expected: list[float]) -> None:
    """No overflow anywhere: a warning would fail the test."""
    for dtype in (np.float64, np.float32):
        x = np.array([-1e4, -800, 0, 800, np.inf], dtype)
        np.testing.assert_allclose(run(function, x), expected, rtol=1e-6)


def test_small_tails_keep_their_digits() -> None:
    np.testing.assert_allclose(run(gw.nn.sigmoid, [-700.0]), math.exp(-700), rtol=1e-12)
    np.testing.assert_allclose(run(gw.nn.softplus, [-700.0]), math.exp(-700), rtol=1e-12)
    normal_tail = 0.5 * math.erfc(10 / math.sqrt(2))
    np.testing.assert_allclose(run(gw.nn.gelu, [-10.0]), -10 * normal_tail, rtol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_error_function(dtype: type, tolerance: float) -> None:
    x = np.concatenate([np.linspace(-6, 6, 2001), [0.0, 1e-8, -1e-8, 1.0, -1.0]]).astype(dtype)
    for ours, reference in ((special.erf, math.erf), (special.erfc, math.erfc)):
        expected = np.array([reference(float(v)) for v in x])
        found = ours(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=3 * tolerance, atol=0)
    assert np.isnan(special.erf(np.array([np.nan]))).all()
    assert special.erfc(np.array([-np.inf, np.inf])).tolist() == [2.0, 0.0]


# -- embedding, normalisation, attention -----------------------------------------------------------


def test_embedding_adds_up_repeated_ids() -> None:
    ids, table = np.array([[2, 0], [2, 2]]), np.zeros((4, 3))
    found = slope(gw.nn.embedding, ids, table, wrt=1)
    assert found.tolist() == [[1.0] * 3, [0.0] * 3, [3.0] * 3, [0.0] * 3]


@pytest.mark.parametrize("wrong", [4, -1])
def test_embedding_refuses_unknown_ids(wrong: int) -> None:
    with pytest.raises(GraphError, match=rf"{wrong} at \[1\] is no row of the table"):
        run(gw.nn.embedding, np.array([0, wrong]), np.zeros((4, 3)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_halves_take_statistics_in_float32(dtype: str) -> None:
    """Squares of 300 overflow float16, and 100 of them drown in bfloat16's 8 bits."""
    x = (np.arange(200) % 2 * 600.0 - 300.0 + 20.0).astype(gw.spec.dtype(dtype))
    exact = x.astype(np.float64)
    normed = run(gw.nn.layer_norm, x).astype(np.float64)
    np.testing.assert_allclose(normed, (exact - exact.mean()) / exact.std(), atol=1e-2)
    normed = run(gw.nn.rms_norm, x).astype(np.float64)
    np.testing.assert_allclose(normed, exact / np.sqrt((exact**2).mean()), atol=1e-2)


def test_layer_norm_of_a_constant_is_zero_with_a_finite_slope() -> None:
    x = np.full((2, 5), 3.0)
    assert not run(gw.nn.layer_norm, x).any()
    assert np.isfinite(slope(gw.nn.layer_norm, x)).all()


def batch_normed(**attrs: Any) -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    return g, gw.nn.batch_norm(g.placeholder("x", ("B", 2)), name="bn", **attrs)


def test_batch_norm_in_training_and_eval() -> None:
    g, y = batch_normed(momentum=0.25)
    x = np.array([[1.0, 10.0], [3.0, 14.0], [5.0, 18.0]])
    with gw.Session(g) as session:
        trained = session.run(y, {"x": x}, g.updates, training=True)
        np.testing.assert_allclose(trained.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(trained.std(0), 1, rtol=1e-4)
        np.testing.assert_allclose(g.values["bn/running_mean"], [0.75, 3.5])
        np.testing.assert_allclose(g.values["bn/running_var"], [0.75 + 1, 0.75 + 4])
        rested = session.run(y, {"x": x}, g.updates)
    mean, var = np.array([0.75, 3.5]), np.array([1.75, 4.75])
    np.testing.assert_allclose(rested, (x - mean) / np.sqrt(var + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(g.values["bn/running_mean"], [0.75, 3.5])


def test_batch_norm_gradient_follows_the_mode() -> None:
    """In training a shift of the batch changes nothing; in eval it shifts the result."""
    g, y = batch_normed()
    (dx,) = gw.gradients(y, [g["x"]])
    x = np.array([[1.0, 10.0], [3.0, 14.0], [5.0, 19.0]])
    with gw.Session(g) as session:
        np.testing.assert_allclose(session.run(dx, {"x": x}, training=True), 0, atol=1e-6)
        np.testing.assert_allclose(session.run(dx, {"x": x}), 1 / math.sqrt(1 + 1e-5), rtol=1e-6)


def test_batch_norm_of_one_example_changes_nothing() -> None:
    g, y = batch_normed()
    with gw.Session(g) as session:
        with pytest.raises(ShapeError, match="one value per channel has no variance"):
            session.run(y, {"x": [[1.0, 2.0]]}, g.updates, training=True)
        assert session.run(y, {"x": [[1.0, 2.0]]}).shape == (1, 2)
    assert g.values["bn/running_var"].tolist() == [1.0, 1.0]


def test_batch_norm_makes_or_takes_parameters() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (8, 3, 4, 4))
    with g.scope("block"):
        gw.nn.batch_norm(gw.nn.batch_norm(x))
    mine = g.variable("mine", (4,), init=2.0)
    y = gw.nn.batch_norm(x, mine, axis=-1, name="last")
    names = [t.name for t in g.variables]
    assert "block/batch_norm/weight" in names and "block/batch_norm_1/running_var" in names
    assert "last/weight" not in names and "last/bias" in names
    assert y.name == "last" and len(g.updates) == 6
    assert not g["last/running_mean"].trainable


def test_batch_norm_refused_leaves_no_variables() -> None:
    g = gw.Graph()
    x, three = g.placeholder("x", (8, 2)), g.variable("three", (3,))
    with pytest.raises(ShapeError, match="does not fit"):
        gw.nn.batch_norm(x, three)
    with pytest.raises(GraphError, match="momentum"):
        gw.nn.batch_norm(x, momentum=-1.0)
    assert [t.name for t in g.variables] == ["three"] and not g.updates


def test_attention_sees_what_the_mask_shows(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal(s) for s in ((2, 3, 4), (2, 5, 4), (2, 5, 2)))
    attend = gw.nn.scaled_dot_product_attention
    seen = rng.random((2, 3, 5)) < 0.5
    seen[1, 2] = False
    found = run(attend, q, k, v, seen)
    scores = np.where(seen, q @ k.swapaxes(1, 2) / 2, -np.inf)
    for n, i in itertools.product(range(2), range(3)):
        weights = np.exp(scores[n, i])
        expected = weights @ v[n] / max(weights.sum(), 1e-300)
        np.testing.assert_allclose(found[n, i], expected, rtol=1e-12)
    as_bias = np.where(seen, 0.0, -np.inf)
    np.testing.assert_allclose(run(attend, q, k, v, as_bias), found, rtol=1e-12)
    causal = run(attend, q, k, v, is_causal=True)
    np.testing.assert_allclose(run(attend, q, k, v, np.tri(3, 5) > 0), causal, rtol=1e-12)


def test_attention_of_blind_queries_has_zero_slope(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((3, 4)) for _ in range(3))
    seen = np.array([[True, False, True], [False] * 3, [True] * 3])
    for mask in (seen, np.where(seen, 0.0, -np.inf)):
        for wrt in range(3):
            found = slope(gw.nn.scaled_dot_product_attention, q, k, v, mask, wrt=wrt)
            assert np.isfinite(found).all()
            assert wrt != 0 or not found[1].any()


def test_attention_in_halves(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((4, 8)) for _ in range(3))
    exact = run(gw.nn.scaled_dot_product_attention, q, k, v, is_causal=True)
    for dtype in ("float16", "bfloat16"):
        halves = [a.astype(gw.spec.dtype(dtype)) for a in (q, k, v)]
        found = run(gw.nn.scaled_dot_product_attention, *halves, is_causal=True)
        assert found.dtype == gw.spec.dtype(dtype)
        np.testing.assert_allclose(found.astype(np.float64), exact, atol=0.05)


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "kernels", "attrs"),
    [
        ((2, 3, 6, 5), (4, 3, 3, 2), {}),
        ((1, 4, 7, 6), (6, 2, 2, 3), {"groups": 2, "stride": (2, 1), "padding": (1, 2)}),
        ((2, 2, 8, 7), (2, 2, 3, 3), {"dilation": (2, 1), "padding": ((2, 0), (1, 3))}),
        ((1, 3, 4, 4), (2, 3, 1, 1), {"padding": "valid", "stride": 3}),
    ],
)
def test_conv2d_by_loops(
    images: Any, kernels: Any, attrs: dict[str, Any], rng: np.random.Generator
) -> None:
    x, w, b = (rng.standard_normal(s) for s in (images, kernels, kernels[:1]))
    written = {0: ((0, 0), (0, 0)), "valid": ((0, 0), (0, 0)), (1, 2): ((1, 1), (2, 2))}
    pads = attrs.get("padding", 0)
    padded = np.pad(x, ((0, 0), (0, 0), *written.get(pads, pads)))
    s, t = np.broadcast_to(attrs.get("stride", 1), 2)
    d, e = np.broadcast_to(attrs.get("dilation", 1), 2)
    groups = attrs.get("groups", 1)
    found = run(gw.cnn.conv2d, x, w, b, **attrs)
    (n_out, per_group, kh, kw), n_in = kernels, images[1] // groups
    for n, o, p, q in np.ndindex(found.shape):
        first = o // (n_out // groups) * n_in
        total = b[o]
        for c, i, j in np.ndindex(per_group, kh, kw):
            total += w[o, c, i, j] * padded[n, first + c, p * s + i * d, q * t + j * e]
        np.testing.assert_allclose(found[n, o, p, q], total, rtol=1e-11)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("n", [5, 6])
def test_same_padding(n: int, stride: int, kernel: int, dilation: int) -> None:
    """⌈n/stride⌉ results, and the odd one of padding at the end."""
    g = gw.Graph()
    x, w = g.placeholder("x", (1, 1, n, "W")), g.variable("w", (1, 1, kernel, 1), init=1.0)
    y = gw.cnn.conv2d(x, w, stride=(stride, 1), padding="same", dilation=(dilation, 1))
    found = g.output({"x": np.ones((1, 1, n, 2))}, y)[y.name]
    assert found.shape == (1, 1, -(-n // stride), 2)
    reach = dilation * (kernel - 1) + 1
    total = max((found.shape[2] - 1) * stride + reach - n, 0)
    for p in range(found.shape[2]):
        seen = [p * stride - total // 2 + i * dilation for i in range(kernel)]
        assert found[0, 0, p, 0] == sum(0 <= row < n for row in seen)


def test_max_pool_gives_ties_to_the_first() -> None:
    x = np.array([[[[1.0, 1.0, 0.0], [1.0, 1.0, 2.0]]]])
    found = slope(gw.cnn.max_pool2d, x, kernel_size=2, stride=1)
    assert found.tolist() == [[[[1, 0, 0], [0, 0, 1]]]]


def test_max_pool_of_nothing_but_minus_infinity() -> None:
    """Padding is −∞ too, but the gradient stays within the image."""
    x = np.full((1, 1, 3, 3), -np.inf)
    for dilation in (1, 2):
        attrs = {"kernel_size": 2, "padding": 1, "stride": 1, "dilation": dilation}
        assert (run(gw.cnn.max_pool2d, x, **attrs) == -np.inf).all()
        n_windows = (3 + 2 - dilation) ** 2
        assert slope(gw.cnn.max_pool2d, x, **attrs).sum() == n_windows


def test_max_pool_shows_nan() -> None:
    x = np.array([[[[1.0, np.nan], [5.0, 2.0]]]])
    assert np.isnan(run(gw.cnn.max_pool2d, x, kernel_size=2)).all()


def test_pooling_of_symbolic_images() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("N", 2, "H", "W"))
    y = gw.cnn.avg_pool2d(gw.cnn.max_pool2d(x, 2), 2, 1)
    sizes = {"N": 3, "H": 9, "W": 6}
    assert gw.spec.substitute(y.shape, sizes) == (3, 2, 3, 2)
    assert g.output({"x": np.zeros((3, 2, 9, 6))}, y)[y.name].shape == (3, 2, 3, 2)


# -- namespaces ------------------------------------------------------------------------------------


def test_namespaces() -> None:
    assert {"relu", "dropout", "batch_norm", "tanh", "softmax"} <= set(dir(gw.nn))
    assert {"conv2d", "max_pool2d", "avg_pool2d"} <= set(dir(gw.cnn))
    assert "matmul" in dir(gw.linalg) and "exp" in dir(gw.math)
    assert gw.nn.relu is gw.nn.relu
    from gradwright.nn import softmax

    assert softmax is gw.nn.softmax
    for module in (gw.nn, gw.cnn, gw.loss, gw.linalg, gw.math):
        assert all(callable(getattr(module, name)) for name in dir(module))
        with pytest.raises(AttributeError, match=r"has no attribute 'sofmax'"):
            module.sofmax  # noqa: B018


def test_weight_sites() -> None:
    sites = {
        gw.op.find_op(name)(): (site.input, site.layout, site.kind)
        for name in ("linear", "embedding", "conv2d", "conv_input_grad", "conv_weight_grad")
        for site in gw.op.find_op(name)().weight_sites()
    }
    assert {op.name: s for op, s in sites.items()} == {
        "linear": (1, "in,out", "linear"),
        "embedding": (1, "in,out", "embedding"),
        "conv2d": (1, "out,in,h,w", "conv2d"),
    }


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x, i: gw.nn.relu(i), DTypeError, "relu does not take int64"),
        (lambda x, i: gw.nn.softmax(x, axis=1), ShapeError, "axis 1 is out of range"),
        (lambda x, i: gw.loss.mean_squared_error(x, i), DTypeError, r"\(labels, predictions\)"),
        (
            lambda x, i: gw.loss.sparse_softmax_cross_entropy(x, x),
            DTypeError,
            "softmax_cross_entropy takes probabilities",
        ),
    ],
)
def test_messages(build: Any, error: type[Exception], message: str) -> None:
    g = gw.Graph()
    with pytest.raises(error, match=message):
        build(g.placeholder("x", (3,)), g.placeholder("i", (3,), "int64"))


@pytest.mark.parametrize("name", ["thresholded_relu", "shrink", "hard_shrink", "soft_shrink"])
def test_nan_goes_through_activations_with_a_dead_zone(name: str) -> None:
    g = gw.Graph()
    x = g.constant([np.nan, 0.1, 2.0])
    y = getattr(gw.nn, name)(x, name="y")
    found = g.output({}, y)["y"]
    assert np.isnan(found).tolist() == [True, False, False]
    assert found[1] == 0


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_no_ids_are_zeros(mode: str) -> None:
    g = gw.Graph()
    y = gw.nn.embedding_bag(
        g.constant(np.zeros((2, 0), int)), g.constant(np.ones((3, 4))), mode=mode
    )
    np.testing.assert_array_equal(g.output({}, y)[y.name], np.zeros((2, 4)))


def test_gelu_of_large_halves_has_a_slope() -> None:
    g = gw.Graph()
    x = g.constant(np.array([3000.0, -3000.0, 1.5], "float16"))
    (slope,) = gw.gradients(gw.nn.gelu(x, approximate="tanh"), [x])
    found = g.output({}, slope)[slope.name]
    assert found.dtype == np.float16 and found[:2].tolist() == [1.0, 0.0]
    assert float(found[2]) == pytest.approx(1.128, rel=1e-3)
