"""Sums of long float32 axes are as good as pairwise ones: against float64, over any axes."""

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.numerics.products import product
from gradwright.ops.numerics.summing import add_up

N = 300_000
TENTH = float(np.float32(0.1))
AS_PAIRWISE = 2e-6
"""Relative error: numpy's pairwise sums of equal numbers stay below 4e-7, plain ones reach 3e-3."""
MODES = [{"kernels": "off"}, {"kernels": "wait"}, {"deterministic": True}]


def tenths(*shape):
    return np.full(shape, 0.1, np.float32)


def fetched(build, feeds, **mode):
    """Return what a session makes of placeholders of these arrays."""
    graph = gw.Graph()
    given = {n: graph.placeholder(n, x.shape, str(x.dtype)) for n, x in feeds.items()}
    y = build(graph, **given)
    with gw.Session(graph, **mode) as session:
        return session.run(y, feeds)


def error(found, expected):
    found = np.asarray(found, np.float64)
    return float(np.max(np.abs(found / expected - 1)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_sums_in_any_layout_are_those_of_wider_numbers(dtype):
    rng = np.random.default_rng(0)
    for _ in range(60):
        shape = rng.choice(
            [1, 2, 3, 7, 40, 200, 1000], rng.integers(1, 5), p=[0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1]
        )
        if np.prod(shape) > 1 << 20:
            continue
        x = (rng.random(shape) + (1j * rng.random(shape) if dtype == "complex64" else 0)).astype(
            dtype
        )
        x = x.transpose(rng.permutation(x.ndim))
        if rng.random() < 0.4:
            x = x[tuple(slice(None, None, int(rng.choice([1, 2, -1]))) for _ in x.shape)]
        if rng.random() < 0.2:
            x = np.broadcast_to(x[..., None], (*x.shape, 150))
        axes = tuple(a for a in range(x.ndim) if rng.random() < 0.6)
        keep = bool(rng.random() < 0.5)
        y = add_up(x, axes, keepdims=keep)
        wide = x.astype(np.complex128 if dtype == "complex64" else np.float64)
        expected = np.asarray(wide.sum(axes, keepdims=keep))
        assert np.shape(y) == expected.shape and y.dtype == x.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-14 if dtype == "float64" else 6e-7)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((N, 2), 0), ((3, N // 3, 2), 1), ((8, 128, 96, 3), (0, 1, 2)), ((N // 3, 3), None),
     ((40, 3, 50, 50), (0, 2, 3)), ((2, N // 2), 1), ((N, 1), (0, 1)), ((9, 7, N // 63), (0, 2))],
)  # fmt: skip
def test_sums_and_means_without_kernels(shape, axis):
    x = tenths(*shape)
    n = x.size / np.sum(np.ones_like(x), axis).size
    for op, expected in ((gw.sum, n * TENTH), (gw.mean, TENTH)):
        found = fetched(lambda _, x, op=op: op(x, axis=axis), {"x": x}, kernels="off")
        assert error(found, expected) < AS_PAIRWISE


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("inner", [(), (2,)], ids=["vectors", "matrices"])
def test_segment_sums_and_the_gradient_of_gather(mode, inner):
    ids, x = np.zeros(N, np.int64), tenths(N, *inner)

    def build(graph, x, ids):
        table = graph.variable("t", (1, *inner), init=np.zeros((1, *inner), np.float32))
        taken = (gw.gather(table, ids, axis=0) * np.float32(0.1)).sum()
        return [
            gw.unsorted_segment_sum(x, ids, 1) / N,
            gw.segment_mean(x, ids),
            gw.index_add(table, ids, x) / N,
            gw.gradients(taken, [table])[0] / N,
        ]

    for y in fetched(build, {"x": x, "ids": ids}, **mode):
        assert error(y, TENTH) < AS_PAIRWISE


def test_sums_at_places_of_other_dtypes():
    rng = np.random.default_rng(0)
    at = rng.integers(0, 7, 500)
    for dtype in ("complex64", "complex128", "int64", "float64", "float16"):
        x = (rng.standard_normal(500) * 5).astype(dtype)
        expected = np.zeros(7, np.result_type(dtype, np.float64))
        np.add.at(expected, at, x)
        y = fetched(lambda _, x, i: gw.unsorted_segment_sum(x, i, 7), {"x": x, "i": at})
        assert y.dtype == dtype
        np.testing.assert_allclose(
            y, expected, rtol=1e-3 if dtype == "float16" else 2e-5, atol=1e-5
        )


@pytest.mark.parametrize("n", [N, N - 1], ids=["in chunks", "in one"])
@pytest.mark.parametrize("inner", [(), (2,)], ids=["vectors", "matrices"])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(n, inner, reverse):
    def build(_, x):
        return gw.cumsum(x, 0, reverse=reverse), gw.logcumsumexp(x, 0)

    sums, logs = fetched(build, {"x": tenths(n, *inner)})
    count = np.arange(1.0, n + 1).reshape(-1, *(1 for _ in inner))
    assert error(sums, TENTH * (count[::-1] if reverse else count)) < AS_PAIRWISE
    assert error(logs, TENTH + np.log(count)) < AS_PAIRWISE


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_averages_over_wide_windows(mode):
    y = fetched(lambda _, x: gw.cnn.avg_pool1d(x, 50_000), {"x": tenths(1, 2, 100_000)}, **mode)
    assert error(y, TENTH) < AS_PAIRWISE


def test_reductions_over_leading_axes_without_kernels():
    x = np.random.default_rng(0).random((N, 3), np.float32)
    wide = x.astype(np.float64)
    expected = {
        gw.var: wide.var(0),
        gw.norm: np.sqrt((wide**2).sum(0)),
        gw.norm1: wide.sum(0),
        gw.logsumexp: np.log(np.exp(wide).sum(0)),
    }
    for op, y in expected.items():
        found = fetched(lambda _, x, op=op: op(x, axis=0), {"x": x}, kernels="off")
        assert error(found, y) < AS_PAIRWISE, op
    logs = fetched(lambda _, x: gw.nn.log_softmax(x, axis=0), {"x": tenths(N, 2)}, kernels="off")
    assert error(logs, -np.log(N)) < AS_PAIRWISE


PRODUCTS = {
    "ij,ij->j": ((N, 2), (N, 2)),
    "i,i->": ((N,), (N,)),
    "ij,ij->i": ((2, N), (2, N)),
    "ij,j->i": ((3, N), (N,)),
    "ji,j->i": ((N, 3), (N,)),
    "i,ij->j": ((N - 77,), (N - 77, 2)),
    "i,i,i->": ((N,), (N,), (N,)),
    "ij,ij->": ((N, 2), (N, 2)),
    "ki,kj->ij": ((N // 4, 3), (N // 4, 2)),
    "bik,bkj->bij": ((2, 2, N // 4), (1, N // 4, 2)),
    "bik,bjk->ij": ((7, 2, N // 9), (7, 3, N // 9)),
    "bik,kj->bij": ((2, 3, N // 4), (N // 4, 1)),
    "ik,kj->ij": ((64, 100_003), (100_003, 33)),
}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_products_over_a_long_inner_axis(mode):
    def build(graph, **x):
        return [gw.einsum(e, *(x[f"x{i}_{k}"] for k in range(len(PRODUCTS[e])))) for i, e in each]

    each = list(enumerate(PRODUCTS))
    feeds = {f"x{i}_{k}": tenths(*shape) for i, e in each for k, shape in enumerate(PRODUCTS[e])}
    found = fetched(build, feeds, **mode)
    for (i, equation), y in zip(each, found, strict=True):
        wide = [feeds[f"x{i}_{k}"].astype(np.float64) for k in range(len(PRODUCTS[equation]))]
        expected = np.einsum(equation, *wide, optimize=True)
        assert error(y, expected) < 6e-6, equation


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_gradients_of_weights_over_many_rows(mode):
    """One output is a product with a vector, several one of matrices."""

    def build(graph, x):
        found = []
        for n in (1, 2):
            w = graph.variable(f"w{n}", (3, n), init=np.zeros((3, n), np.float32))
            found += gw.gradients((x @ w).sum(), [w])
        v = graph.variable("v", (3,), init=np.zeros(3, np.float32))
        return found + gw.gradients((x @ v).sum(), [v])

    for y in fetched(build, {"x": tenths(N, 3)}, **mode):
        assert error(y, N * TENTH) < 6e-6


def test_products_of_pieces_are_those_of_numpy():
    """Vectors, batches that broadcast, transposed and sliced operands, other dtypes."""
    rng = np.random.default_rng(0)
    k = 5003
    shapes = [
        ((k,), (k,)), ((3, k), (k,)), ((k,), (k, 4)), ((2, 3, k), (k,)), ((k,), (2, k, 3)),
        ((2, 1, 3, k), (4, k, 2)), ((3, k), (2, k, 1)), ((1, k), (k, 1)), ((0, k), (k, 2)),
    ]  # fmt: skip
    for a, b in shapes:
        for dtype in ("float32", "complex64", "float64"):
            x, y = (rng.standard_normal(s).astype(dtype) for s in (a, b))
            if x.ndim > 1:
                x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
            wide = np.matmul(x, y, dtype="c16" if dtype == "complex64" else "f8")
            found = product(x, y)
            assert found.shape == wide.shape and found.dtype == dtype
            np.testing.assert_allclose(found, wide, rtol=1e-4, atol=1e-3)
            out = np.empty_like(found)
            assert not out.ndim or product(x, y, out) is out
            assert not out.ndim or np.array_equal(out, found)


CONVOLUTIONS = [
    ((1, 1, N // 3), (1, 1, 3), 1),
    ((2, 3, N // 6), (6, 3, 2), 1),
    ((4, 2, 250, 50), (5, 2, 3, 3), 1),
    ((2, 2, 250, 50), (2, 1, 2, 2), 2),
    ((50_000, 1, 3), (1, 1, 2), 1),
    ((20_000, 2, 2, 2), (6, 2, 2, 2), 1),
    ((1, 3000, 3, 5), (2, 3000, 3, 5), 1),
    ((1, 1, 40_002), (3, 1, 40_000), 1),
]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_convolutions_over_many_positions_images_and_channels(mode):
    for image, weight, groups in CONVOLUTIONS:

        def build(_, x, w, groups=groups):
            convolved = {3: gw.cnn.conv1d, 4: gw.cnn.conv2d}[x.rank]
            y = convolved(x, w, groups=groups)
            return y, *gw.gradients(y.sum(), [w])

        x, w = tenths(*image), tenths(*weight)
        y, dw = fetched(build, {"x": x, "w": w}, **mode)
        assert error(y, TENTH**2 * w[0].size) < 6e-6
        assert error(dw, TENTH * len(x) * y[0, 0].size) < 6e-6, (image, weight)


@pytest.mark.parametrize("mode", ["edge", "wrap", "symmetric", "reflect"])
def test_gradients_of_what_is_padded(mode):
    def build(graph, x):
        found = []
        for shape, axis in (((3,), 0), ((3, 2), 0), ((2, 3), 1)):
            c = graph.variable(f"c{len(found)}", shape, init=np.zeros(shape, np.float32))
            sides = [(0, 0)] * len(shape)
            sides[axis] = (2, 2) if mode == "reflect" else (N, 5)
            padded = gw.pad(c, sides, mode=mode)
            found += gw.gradients((padded * np.float32(0.1)).sum(), [c])
        return found

    n = 3 + 4 if mode == "reflect" else 3 + N + 5
    places = np.pad(np.arange(3), (2, 2) if mode == "reflect" else (N, 5), mode=mode)
    counts = np.bincount(places) * TENTH
    assert n == len(places)
    for y, expected in zip(
        fetched(build, {"x": tenths(1)}), (counts, counts[:, None], counts), strict=True
    ):
        assert error(y, np.broadcast_to(expected, y.shape)) < AS_PAIRWISE


def test_adaptive_means():
    x = tenths(2, 2, N // 4)
    y = fetched(lambda _, x: gw.cnn.adaptive_avg_pool1d(x, 2), {"x": x})
    assert error(y, TENTH) < AS_PAIRWISE
