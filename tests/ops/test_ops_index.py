"""Indexing, gathering, scattering and einsum against numpy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, LoweringError, ShapeError


def run(y, feeds=None):
    with gw.Session(y.graph) as session:
        return session.run(y, feeds or {})


# -- x[...] ----------------------------------------------------------------------------------------

bounds = st.none() | st.integers(-5, 5)
slices = st.builds(slice, bounds, bounds, st.none() | st.sampled_from([1, 2, -1, -2, 3]))


@st.composite
def indexed(draw, advanced: bool):
    """Draw a shape and an index that numpy takes."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    front = draw(st.integers(0, len(shape)))
    back = draw(st.integers(0, len(shape) - front)) if draw(st.booleans()) else None
    axes = [*range(front), *range(len(shape) - (back or 0), len(shape))]
    arrays = set(draw(st.permutations(axes))[: draw(st.integers(1, 2))]) if advanced else ()
    common = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    parts: list = []
    for number, axis in enumerate(axes):
        n = shape[axis]
        parts += [...] * (number == front and back is not None) + [None] * (
            draw(st.integers(0, 5)) == 0
        )
        if axis in arrays and n:
            size = draw(st.sampled_from([common, common[-1:], (1,) * len(common)]))
            count = int(np.prod(size))
            places = draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count))
            parts.append(np.array(places).reshape(size))
        elif n and draw(st.booleans()):
            parts.append(draw(st.integers(-n, n - 1)))
        else:
            parts.append(draw(slices))
    return shape, tuple(parts) + (...,) * (len(axes) == front and back is not None)


def numbers(shape):
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


@given(indexed(advanced=False))
@settings(max_examples=200)
def test_basic_indexing_is_numpys(case):
    shape, index = case
    a = numbers(shape)
    g = gw.Graph()
    y = g.placeholder("x", shape, "float64")[index]
    assert y.shape == a[index].shape
    assert np.array_equal(run(y, {"x": a}), a[index])


@given(indexed(advanced=False))
@settings(max_examples=200)
def test_basic_indexing_of_unknown_sizes_is_numpys_or_says_what_does_not_fit(case):
    shape, index = case
    a = numbers(shape)
    g = gw.Graph()
    y = g.placeholder("x", [None] * len(shape), "float64")[index]
    try:
        found = run(y, {"x": a})
    except ShapeError as error:
        outside = [
            not -n <= bound <= n or not n
            for part in index
            if isinstance(part, slice)
            for bound in (part.start, part.stop)
            if bound is not None
            for n in shape
        ]
        crossed = re.search(r"has size 0 .* = -\d", str(error))
        assert crossed or ("has size" in str(error) and any(outside))
    else:
        assert np.array_equal(found, a[index])


@given(indexed(advanced=True), st.booleans())
@settings(max_examples=200)
def test_indexing_by_integers_is_numpys(case, as_tensors):
    shape, index = case
    a = numbers(shape)
    g = gw.Graph()
    x = g.placeholder("x", shape, "float64")
    own = tuple(
        g.constant(part) if as_tensors and isinstance(part, np.ndarray) else part for part in index
    )
    y = x[own]
    assert y.shape == a[index].shape
    assert np.array_equal(run(y, {"x": a}), a[index])


@pytest.mark.parametrize(
    "index",
    [
        (np.array([True, False, True]),),
        (slice(1, None), np.array([[True, False], [False, True], [True, True]])[:2]),
        (..., np.array([True, False])),
        (None, np.array([False, False, False]), 0),
        (np.array([True, False, True]), slice(None, None, -1), 1),
        (0, slice(None), np.array([True, True])),
    ],
)
def test_indexing_by_masks_is_numpys(index):
    a = numbers((3, 2, 2))
    g = gw.Graph()
    x = g.placeholder("x", (None, 2, 2), "float64")
    try:
        expected = a[index]
    except IndexError:
        with pytest.raises(ShapeError, match="the mask does not fit"):
            x[index]
    else:
        assert np.array_equal(run(x[index], {"x": a}), expected)


def test_sizes_after_slicing():
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T"))
    b, t = x.shape
    assert [str(d) for d in x[1:, :-1].shape] == ["max(0, B - 1)", "max(0, T - 1)"]
    assert x[::2, ::-1].shape == ((b + 1) // 2, t)
    assert x[:1, -1:].shape == (1, 1) and x[3:3].shape[0] == 0
    assert x[:b].shape == (b, t) and str(x[: t // 2].shape[0]) == "min((T//2), B)"
    assert [str(d) for d in x[:5, -5:].shape] == ["min(5, B)", "min(5, T)"]
    assert x[:5].shape[0] + x[5:].shape[0] == b
    table = g.placeholder("table", (512, 8))
    assert str(table[:t].shape[0]) == "min(512, T)"
    assert table[: gw.shape_of(x)[1]].shape == table[:t].shape
    assert (g.placeholder("y", ("B", "T", 8)) + table[:t]).shape == (b, t, 8)


def test_a_slice_to_a_size_that_does_not_fit_takes_what_is_there():
    g = gw.Graph()
    x, table = g.placeholder("x", (None,)), g.placeholder("table", (3, 2))
    y, joint = table[: x.shape[0]].sum(), table[: x.shape[0], 0] + x
    assert run(y, {"x": np.zeros(3), "table": np.ones((3, 2))}) == 6.0
    assert run(y, {"x": np.zeros(4), "table": np.ones((3, 2))}) == 6.0
    with pytest.raises(ShapeError, match="do not broadcast"):
        run(joint, {"x": np.zeros(4), "table": np.ones((3, 2))})


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (5, ShapeError, "index 5 is out of range"),
        ((0, 0, 0), ShapeError, "too many indices"),
        ((..., ...), ShapeError, "one Ellipsis"),
        (slice(0, 2, 0), ShapeError, "step 0"),
        (True, DTypeError, "True cannot be an index"),
        ([0.5], DTypeError, "cannot be an index"),
    ],
)
def test_wrong_indices_are_refused(index, error, message):
    g = gw.Graph()
    x = g.placeholder("x", (3, 4))
    with pytest.raises(error, match=message):
        x[index]


def test_a_float_is_no_index_and_a_mask_stands_alone():
    g = gw.Graph()
    x, i = g.placeholder("x", (3, 4)), g.placeholder("i", (2,), "int64")
    with pytest.raises(TypeError):
        x[0.5]
    with pytest.raises(DTypeError, match="mask beside other index tensors"):
        x[x[:, 0] > 0.0, i]
    with pytest.raises(ShapeError, match="has no value yet"):
        x[: i[0]]


# -- gather and scatter ----------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=50)
def test_adding_up_at_repeated_places_is_numpys(data):
    n, width = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 3]))
    at = np.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=8)), np.int64)
    rows = np.random.default_rng(0).standard_normal((len(at), width))
    expected = np.zeros((n, width))
    np.add.at(expected, at, rows)
    g = gw.Graph()
    y = gw.index_add(g.constant(np.zeros((n, width))), g.constant(at), g.constant(rows))
    assert np.allclose(run(y), expected)
    y = gw.scatter_nd_add(g.constant(np.zeros((n, width))), at[:, None], g.constant(rows))
    assert np.allclose(run(y), expected)
    y = gw.scatter_add(
        g.constant(np.zeros((n, width))),
        np.repeat(at[:, None], width, 1),
        g.constant(rows),
        axis=0,
    )
    assert np.allclose(run(y), expected)


def test_of_several_writes_to_one_place_the_last_one_counts():
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    u = g.placeholder("u", (3,), "float64")
    y = gw.scatter_update(x, np.array([1, 1, -1]), u)
    dx, du = gw.gradients(y, [x, u], g.constant([10.0, 20.0, 30.0], dtype="float64"))
    feeds = {"x": np.zeros(3), "u": [1.0, 2.0, 3.0]}
    assert run(y, feeds).tolist() == [0.0, 2.0, 3.0]
    assert run(dx, feeds).tolist() == [10.0, 0.0, 0.0]
    assert run(du, feeds).tolist() == [0.0, 20.0, 30.0]


@pytest.mark.parametrize("bad", [3, -4])
def test_an_index_outside_is_named(bad):
    g = gw.Graph()
    x, i = g.placeholder("x", (3, 2)), g.placeholder("i", (1,), "int64")
    feeds = {"x": np.zeros((3, 2)), "i": [bad]}
    with pytest.raises(LoweringError, match=rf"gather 'rows'.*IndexError: index {bad} is out of"):
        run(gw.gather(x, i, name="rows"), feeds)
    (dx,) = gw.gradients(gw.zeros_like(g["rows"]) + g["rows"], [x])
    with pytest.raises(LoweringError, match=rf"IndexError: index {bad} is out of range for size 3"):
        run(dx, feeds)


def test_an_index_known_while_building_is_checked_then():
    g = gw.Graph()
    with pytest.raises(ShapeError, match="index 3 is out of range"):
        gw.gather(g.placeholder("x", (3, 2)), [0, 3])


def test_one_hot_of_an_index_outside_is_nothing():
    g = gw.Graph()
    y = gw.one_hot(g.constant([0, 2, 3, -1]), 3)
    assert run(y).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_nonzero_gives_coordinates_whose_number_is_known_when_run():
    g = gw.Graph()
    x = g.placeholder("x", (2, 3))
    rows, columns = gw.nonzero(x)
    y = gw.stack([rows, columns], axis=1) * 2
    assert rows.shape == columns.shape and rows.shape != gw.nonzero(x)[0].shape
    for data in ([[0, 1, 0], [2, 0, 3]], np.zeros((2, 3))):
        found = run(y, {"x": data})
        assert np.array_equal(found, np.argwhere(data) * 2) and found.dtype == np.int64


def test_equal_elements_keep_their_order():
    g = gw.Graph()
    x = g.constant([2.0, 1.0, 2.0, np.nan, 1.0])
    assert run(gw.argsort(x)).tolist() == [1, 4, 0, 2, 3]
    assert run(gw.argsort(x, descending=True)).tolist() == [3, 0, 2, 1, 4]
    assert run(gw.top_k(x, 2, largest=False)[1]).tolist() == [1, 4]


# -- einsum ----------------------------------------------------------------------------------------


@st.composite
def equations(draw):
    """Draw an equation that numpy takes, with the operands' shapes."""
    sizes = {c: draw(st.integers(0, 3)) for c in "abcd"}
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.lists(st.sampled_from("abcd"), max_size=3))
        shape = [sizes[c] for c in labels]
        at = draw(st.integers(0, len(labels))) if draw(st.booleans()) else None
        if at is not None:
            own = dots[draw(st.integers(0, len(dots))) :]
            own = [1 if draw(st.integers(0, 4)) == 0 else d for d in own]
            labels.insert(at, "...")
            shape[at:at] = own
        terms.append("".join(labels))
        shapes.append(tuple(shape))
    equation = ",".join(terms)
    used = sorted({*equation} - {",", "."})
    if draw(st.booleans()):
        out = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        if "..." in equation:
            out.insert(draw(st.integers(0, len(out))), "...")
        equation += "->" + "".join(out)
    return equation, shapes


@given(equations())
@settings(max_examples=300)
def test_einsum_is_numpys_and_so_is_its_gradient(case):
    equation, shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    expected = np.einsum(equation, *arrays)
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", s, "float64") for i, s in enumerate(shapes)]
    y = gw.einsum(equation, *xs)
    seed = rng.standard_normal(expected.shape)
    grads = gw.gradients(y, xs, g.constant(seed))
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    with gw.Session(g) as session:
        found, *slopes = session.run([y, *grads], feeds)
    assert y.shape == expected.shape and np.allclose(found, expected)
    for k, slope in enumerate(slopes):  # the product is linear in each operand
        step = rng.standard_normal(shapes[k])
        moved = np.einsum(equation, *(step if i == k else a for i, a in enumerate(arrays)))
        assert slope.shape == shapes[k] and np.isclose((slope * step).sum(), (seed * moved).sum())


def test_einsum_becomes_matmuls():
    g = gw.Graph()
    q, k = g.placeholder("q", (2, 5, 3, 4)), g.placeholder("k", (2, 6, 3, 4))
    plan = gw.Session(g).plan(gw.einsum("bthd,bshd->bhts", q, k), {"q": q.shape, "k": k.shape})
    ops = [instr.op.name for instr in plan.program.instrs]
    assert ops.count("matmul") == 1 and set(ops) <= {"matmul", "transpose", "reshape"}


def test_einsum_takes_symbolic_sizes():
    g = gw.Graph()
    a, b = g.placeholder("a", ("B", "T", 3)), g.placeholder("b", ("B", "S", 3))
    y = gw.einsum("bti,bsi->bts", a, b)
    assert [str(d) for d in y.shape] == ["B", "T", "S"]
    with pytest.raises(ShapeError, match="sizes of 'i' differ"):
        gw.einsum("bti,bsi->bts", a, g.placeholder("c", ("B", "S", 4)))
    with pytest.raises(GraphError, match="2 terms for 1 operands"):
        gw.einsum("ij,jk", a)


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (1, 0)), (2, 0), ((-1,), (0,))])
def test_tensordot_is_numpys(axes, rng):
    a, b = rng.standard_normal((3, 3, 3)), rng.standard_normal((3, 3, 3))
    g = gw.Graph()
    y = gw.tensordot(g.constant(a), g.constant(b), axes)
    assert np.allclose(run(y), np.tensordot(a, b, axes))


@pytest.mark.parametrize(
    ("left", "right"), [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 3, 2)), ((4, 2, 3), (2, 3, 5))]
)
def test_dot_and_outer_are_numpys(left, right, rng):
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    g = gw.Graph()
    x, y = g.constant(a), g.constant(b)
    assert np.allclose(run(gw.dot(x, y)), np.dot(a, b))
    assert np.allclose(run(gw.outer(x, y)), np.outer(a, b))
