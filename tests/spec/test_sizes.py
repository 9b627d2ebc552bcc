"""Sizes that a run decides: slices beyond the end, uneven parts, symbols of which one is 1."""

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.core.slicing import extent
from gradwright.spec import Dim
from gradwright.spec.dims import joined, larger, smaller

N, P, Q = map(Dim.symbol, "npq")
BOUNDS = (None, 0, 1, 2, 5, -1, -2, -5, 2**62, -(2**62))


def at(dim, **sizes):
    return dim.substitute(sizes) if isinstance(dim, Dim) else dim


# -- dimensions ------------------------------------------------------------------------------------


def test_a_slice_of_a_symbol_has_as_many_elements_as_pythons():
    for bounds in itertools.product(BOUNDS, BOUNDS, (None, 1, 2, 3, -1, -2, -3)):
        found = extent(("slice", *bounds), N)
        assert Dim.parse(str(found)) == found
        for n in range(9):
            want = len(range(n)[slice(*bounds)])
            last_one = found == 1 and n == 0  # of an axis that has any
            assert at(found, n=n) == want or last_one, (bounds, n)


def test_larger_smaller_and_joined_sizes_are_what_they_say():
    sizes = (N, N - 2, 2 * N - 6, P, N + P, P - N, 3, 0, -2, (N + 1) // 2, N * P)
    for a, b in itertools.product(sizes, sizes):
        for n, p in itertools.product(range(5), range(5)):
            u, v = at(a, n=n, p=p), at(b, n=n, p=p)
            assert at(larger(a, b), n=n, p=p) == max(u, v), (a, b)
            assert at(smaller(a, b), n=n, p=p) == min(u, v), (a, b)
            if min(u, v) >= 0 and (u == v or 1 in (u, v)):
                assert at(joined(a, b), n=n, p=p) == (v if u == 1 else u), (a, b)
        for made in (larger(a, b), smaller(a, b), joined(a, b), joined(a, b) * 2 + 1):
            assert Dim.parse(str(made)) == made


def test_equal_sizes_are_spelled_alike():
    assert smaller(5, N) + larger(0, N - 5) == N
    assert larger(0, 2 * N - 6) == 2 * larger(0, N - 3)
    assert larger(0, larger(0, N - 1) - 2) == larger(0, N - 3)
    assert larger(0, N + 1) == N + 1 and larger(0, -N) == 0
    assert joined(joined(P, Q), P) == joined(Q, P) and joined(N, smaller(512, N)) == N
    assert (6 * N + 2) // 3 == 2 * N


# -- slices ----------------------------------------------------------------------------------------

SLICES = [
    np.s_[5:], np.s_[:-2], np.s_[1:-1], np.s_[-2:-1], np.s_[-5:], np.s_[:5], np.s_[1:-2],
    np.s_[4:1:-1], np.s_[-2::-1], np.s_[:2:-1], np.s_[2:, :-1], np.s_[::-2, 3:], np.s_[-3:2, None],
    np.s_[2:3], np.s_[:1, -1:], np.s_[2**40 :],
]  # fmt: skip


def gradient_of_slice(x, w, index):
    g = np.zeros_like(x)
    g[index] = w
    return g


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("index", SLICES, ids=str)
def test_slices_of_symbolic_axes_are_numpys_and_so_are_their_gradients(index, kernels):
    g = gw.Graph()
    x = g.placeholder("x", ("n", "m"), "float64")
    y = x[index]
    (slope,) = gw.gradients((y * y * 1.5 + y).sum(), [x])
    with gw.Session(g, kernels=kernels) as session:
        for shape in ((7, 6), (3, 2), (1, 1), (2, 3), (5, 4), (6, 7), (0, 3), (8, 9)):
            a = np.random.default_rng(1).standard_normal(shape)
            for _ in range(1 if kernels == "off" else 4):
                found, back = session.run([y, slope], {"x": a})
            assert np.array_equal(found, a[index])
            assert np.allclose(back, gradient_of_slice(a, 3 * a[index] + 1, index), rtol=1e-12)


def test_the_stepper_and_compiled_functions_cut_like_numpy():
    g = gw.Graph()
    x = g.placeholder("x", ("n",))
    y = x[5:] * 2.0
    stepper = gw.Stepper(g, [y], {"x": np.ones(3, "f4")})
    stepper.run()
    assert stepper.value(y).shape == (0,)

    @gw.compile
    def tail(a):
        return a[5:].sum() + a[:-2].sum()

    for n in (9, 3, 1, 0):
        assert tail(np.ones(n)) == max(0, n - 5) + max(0, n - 2)


def test_a_slice_to_another_tensors_size_takes_what_is_there():
    g = gw.Graph()
    x, y = g.placeholder("x", ("n",)), g.placeholder("y", ("m",))
    z = x[: y.shape[0]]
    for n, m in ((5, 3), (3, 5), (2, 2), (0, 4)):
        feeds = {"x": np.arange(n, dtype="f4"), "y": np.zeros(m, "f4")}
        assert g.output(feeds, z)[z.name].tolist() == list(range(min(n, m)))


# -- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("uneven", ["last", "spread"])
def test_uneven_parts_of_a_symbol_are_array_splits_and_chunks(uneven):
    g = gw.Graph()
    x = g.placeholder("x", ("n", 2), "float64")
    parts = gw.split(x, 3, uneven=uneven)
    (slope,) = gw.gradients(sum((k + 1.0) * p.sum() for k, p in enumerate(parts)), [x])
    with gw.Session(g) as session:
        for n in (8, 7, 6, 4, 2, 1, 0, 11):
            a = np.arange(2.0 * n).reshape(n, 2)
            size = -(-n // 3)
            cuts = [size, 2 * size] if uneven == "last" else 3
            want = np.array_split(a, cuts)
            *found, back = session.run([*parts, slope], {"x": a})
            assert [f.tolist() for f in found] == [w.tolist() for w in want]
            weights = np.concatenate([np.full(w.shape, k + 1.0) for k, w in enumerate(want)])
            assert np.array_equal(back, weights)


# -- broadcasting ----------------------------------------------------------------------------------

BROADCASTS = {
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "maximum": (gw.maximum, np.maximum),
    "where": (lambda a, b: gw.where(a > 0.0, a, b * b), lambda a, b: np.where(a > 0, a, b * b)),
    "squared": (lambda a, b: (a - b) ** 2 + a, lambda a, b: (a - b) ** 2 + a),
    "atan2": (gw.arctan2, np.arctan2),
}


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", BROADCASTS)
def test_two_symbols_broadcast_whichever_is_1(name, kernels):
    ours, numpys = BROADCASTS[name]
    g = gw.Graph()
    a, b = g.placeholder("a", ("p", "r"), "float64"), g.placeholder("b", ("q", "s"), "float64")
    y = ours(a, b)
    slopes = gw.gradients((y * y).sum(), [a, b])
    rng = np.random.default_rng(2)
    with gw.Session(g, kernels=kernels) as session:
        for left, right in (
            ((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 1), (1, 4)), ((3, 4), (1, 1)),
            ((1, 1), (1, 1)), ((1, 5), (2, 1)), ((1, 0), (3, 1)), ((2, 4), (2, 1)),
        ):  # fmt: skip
            u, v = rng.standard_normal(left), rng.standard_normal(right)
            for _ in range(1 if kernels == "off" else 4):
                found, *back = session.run([y, *slopes], {"a": u, "b": v})
            assert np.allclose(found, numpys(u, v), rtol=1e-12)
            assert [s.shape for s in back] == [left, right]
            for i, slope in enumerate(back):
                for place in np.ndindex(slope.shape):
                    ends = []
                    for step in (1e-6, -1e-6):
                        moved = [u.copy(), v.copy()]
                        moved[i][place] += step
                        ends.append((numpys(*moved) ** 2).sum())
                    assert np.isclose((ends[0] - ends[1]) / 2e-6, slope[place], atol=1e-5)


def test_products_of_matrices_broadcast_leading_symbols():
    g = gw.Graph()
    a, b = g.placeholder("a", ("p", 2, 3), "float64"), g.placeholder("b", ("q", 3, 2), "float64")
    slopes = gw.gradients(((a @ b) ** 2.0).sum(), [a, b])
    for p, q in ((1, 4), (4, 1), (4, 4), (1, 1)):
        u, v = np.random.default_rng(3).standard_normal((2, 4, 6))
        u, v = u[:p].reshape(p, 2, 3), v[:q].reshape(q, 3, 2)
        y = u @ v
        left, right = g.output({"a": u, "b": v}, *slopes).values()
        want = (2 * y @ v.swapaxes(1, 2), 2 * u.swapaxes(1, 2) @ y)
        for got, w, x in zip((left, right), want, (u, v), strict=True):
            assert np.allclose(got, w if x.shape == w.shape else w.sum(0, keepdims=True))


def test_a_size_of_two_broadcast_symbols_is_a_size():
    g = gw.Graph()
    a, b = g.placeholder("a", ("p",)), g.placeholder("b", ("q",))
    y = a + b
    with g:
        z = y.reshape(y.shape[0], -1) + gw.full((1, y.shape[0]), 0.0)
    assert str(y.spec) == "f32[(p|q)]"
    for p, q in ((1, 3), (3, 1), (3, 3)):
        found = g.output({"a": np.ones(p, "f4"), "b": np.ones(q, "f4")}, z)[z.name]
        assert found.shape == (3, 3)
    with pytest.raises(gw.errors.ShapeError, match="do not broadcast"):
        g.output({"a": np.ones(2, "f4"), "b": np.ones(3, "f4")}, z)


# -- coordinates -----------------------------------------------------------------------------------


def test_coordinates_of_a_symbolic_number_go_by_the_rank_of_what_they_name():
    g = gw.Graph()
    x, i = g.placeholder("x", ("a", "b"), "float64"), g.placeholder("i", ("c", "d"), "int64")
    rows = gw.scatter_nd_update(x, i, g.placeholder("u", ("c", "b"), "float64"))
    a = np.arange(6.0).reshape(2, 3)
    given = {"x": a, "i": np.array([[1]]), "u": np.full((1, 3), 7.0)}
    assert g.output(given, rows)[rows.name].tolist() == [[0, 1, 2], [7, 7, 7]]
    flat = g.placeholder("flat", ("n",), "float64")
    y = gw.gather_nd(flat, i)
    (slope,) = gw.gradients((y * y).sum(), [flat])
    found, back = g.output({"flat": a[1], "i": np.array([[2], [0]])}, y, slope).values()
    assert found.tolist() == [5.0, 3.0] and back.tolist() == [6.0, 0.0, 10.0]
    with pytest.raises(gw.errors.ShapeError, match="do not name a place"):
        gw.gather_nd(x, i)
