"""Ops on shapes: sizes that are symbols, shapes that are tensors, joining and taking apart."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError, ShapeError
from gradwright.spec import Dim


def run(y, feeds=None):
    with gw.Session(y.graph) as session:
        return session.run(y, feeds or {})


def symbolic(*shape):
    g = gw.Graph()
    return g.placeholder("x", shape)


# -- reshape ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        (("B", "T", 6), (-1, 3), "[2*B*T, 3]"),
        (("B", "T", 6), ("B", "T", -1), "[B, T, 6]"),
        (("B", "T", 6), (-1, "T", 6), "[B, T, 6]"),
        (("B", 4), (2, -1), "[2, 2*B]"),
        (("B",), (-1, 3), f"[{Dim.symbol('B') // 3}, 3]"),
        ((0, 3), (-1, 3), "[0, 3]"),
        ((2, 3), 6, "[6]"),
        ((1, 1), (), "[]"),
    ],
)
def test_sizes_left_open_are_solved(shape, target, expected):
    x = symbolic(*shape)
    want = [
        Dim.symbol(d) if isinstance(d, str) else d for d in np.atleast_1d(np.array(target, object))
    ]
    y = x.reshape(want if target != 6 else 6)
    assert str(y.spec) == f"f32{expected}"


def test_sizes_left_open_are_checked_when_run():
    x = symbolic("B")
    y = x.reshape(-1, 3)
    assert run(y, {"x": np.arange(6.0)}).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ShapeError, match="reshape changes the number of elements"):
        run(y, {"x": np.zeros(7)})


def test_an_empty_batch_reshapes_as_any_other():
    x = symbolic("B", 2, 3)
    y = x.reshape(x.shape[0], -1)
    assert y.shape[1] == 6 and run(y, {"x": np.zeros((0, 2, 3))}).shape == (0, 6)


def test_shapes_are_computed_by_ops():
    x = symbolic("B", "T", 8)
    b, t, _ = gw.unstack(gw.shape_of(x))
    y = x.reshape(b * t, gw.shape_of(x)[-1])
    assert [str(d) for d in y.shape] == ["B*T", "8"]
    joined = gw.concat([gw.shape_of(x)[:1], gw.shape_of(x)[1:].prod(keepdims=True)])
    assert [str(d) for d in gw.reshape(x, joined).shape] == ["B", "8*T"]
    assert run(y, {"x": np.zeros((2, 3, 8))}).shape == (6, 8)
    assert gw.size_of(x).spec.value == 8 * x.shape[0] * x.shape[1]


def test_a_shape_known_only_when_run():
    g = gw.Graph()
    x, n = g.placeholder("x", (None,)), g.placeholder("n", (), "int64")
    y = x.reshape(n, -1) * 2.0
    z = gw.broadcast_to(g.constant(1.0), gw.stack([n, n])) + gw.full(gw.stack([n, n]))
    (dx,) = gw.gradients(y, [x])
    for rows in (2, 3, 2):
        with gw.Session(g) as session:
            a, b, d = session.run([y, z, dx], {"x": np.ones(6), "n": rows})
        assert a.shape == (rows, 6 // rows) and b.tolist() == [[1.0] * rows] * rows
        assert d.tolist() == [2.0] * 6
    with pytest.raises(ShapeError, match="number of elements"):
        run(y, {"x": np.ones(6), "n": 4})


def test_numpys_spelling_works():
    x = symbolic(2, 3)
    shapes = [
        x.reshape(3, 2), x.reshape((3, 2)), x.reshape([3, np.int64(2)]), gw.reshape(x, (3, 2)),
        gw.reshape(x, shape=(3, 2)), gw.reshape(x, np.array([3, 2])), x.T, x.swapaxes(0, 1),
        x.transpose(1, 0), x.transpose((1, 0)), x.mT,
    ]  # fmt: skip
    assert {y.shape for y in shapes} == {(3, 2)}
    assert x.flatten().shape == x.reshape(-1).shape == (6,)
    with pytest.raises(ShapeError, match=r"needs a shape[\s\S]*try:  gw.reshape"):
        gw.reshape(x)


# -- joining and taking apart ----------------------------------------------------------------------


def test_pieces_and_their_gradients_fit_whatever_the_sizes():
    g = gw.Graph()
    a, b = g.placeholder("a", ("B", 2)), g.placeholder("b", ("T", 2))
    y = gw.concat([a, b])
    assert str(y.shape[0]) == "B + T"
    da, db = gw.gradients((y * g.placeholder("w", (None, 2))).sum(), [a, b])
    w = np.arange(10.0).reshape(5, 2)
    feeds = {"a": np.zeros((2, 2)), "b": np.zeros((3, 2)), "w": w}
    assert run(da, feeds).tolist() == w[:2].tolist() and run(db, feeds).tolist() == w[2:].tolist()


def test_a_part_that_is_not_used_gets_zeros():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    _, second = gw.split(x, 2, axis=1)
    first, *_ = gw.unstack(x, axis=1)
    (dx,) = gw.gradients([second, first], [x])
    assert run(dx, {"x": np.zeros((1, 4))}).tolist() == [[1.0, 0.0, 1.0, 1.0]]


def test_parts_of_symbolic_sizes():
    x = symbolic("B", 6)
    assert [t.shape[0] for t in gw.split(x, 2)] == [x.shape[0] // 2] * 2
    assert [t.shape[1] for t in gw.split(x, (1, -1, 2), axis=1)] == [1, 3, 2]
    with pytest.raises(ShapeError, match="3 is no multiple of 2"):
        run(gw.split(x, 2)[0], {"x": np.zeros((3, 6))})
    with pytest.raises(ShapeError, match="cannot unstack B tensors"):
        gw.unstack(x)


def test_joining_converts_to_the_common_dtype():
    g = gw.Graph()
    n, x = g.constant([1, 2]), g.constant([0.5])
    assert run(gw.concat([n, x])).dtype == np.float32
    assert run(gw.stack([n, gw.cast(n, "bool")])).tolist() == [[1, 2], [1, 1]]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("widths", [2, (1, 2), ((0, 2), (1, 0))])
def test_padding_is_numpys(mode, widths, rng):
    a = rng.standard_normal((3, 4))
    y = gw.Graph().constant(a).pad(widths, mode=mode)
    assert np.array_equal(run(y), np.pad(a, widths, mode))
    assert y.shape == np.pad(a, widths, mode).shape


# -- creation --------------------------------------------------------------------------------------


def test_ranges_over_symbolic_sizes():
    x = symbolic("B", 3)
    with x.graph:
        rows = gw.arange(x.shape[0])
        back = gw.arange(x.shape[0] - 1, -1, -1)
        odd = gw.arange(1, x.shape[0], 2, dtype="float32")
    assert rows.shape == back.shape == x.shape[:1] and odd.shape[0] == x.shape[0] // 2
    feeds = {"x": np.zeros((4, 3))}
    assert run(rows + 0 * back, feeds).tolist() == [0, 1, 2, 3]
    assert run(back, feeds).tolist() == [3, 2, 1, 0] and run(odd, feeds).tolist() == [1.0, 3.0]
    assert rows.dtype == np.int64


def test_what_has_no_input_needs_a_graph():
    with pytest.raises(gw.errors.GraphError, match="no tensor among its inputs"):
        gw.eye(3)
    with gw.Graph() as g:
        made = gw.eye(2, 3, 1), gw.linspace(0.0, 1.0, 3), gw.full((2,), 7, dtype="int64")
    assert [run(t).tolist() for t in made] == [[[0, 1, 0], [0, 0, 1]], [0, 0.5, 1], [7, 7]]
    assert g.nodes


def test_errors_inside_a_plan_name_the_node():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.top_k(x, 3, name="best")[0]
    with pytest.raises((ShapeError, LoweringError), match=r"'best'.*no 3 elements"):
        run(y, {"x": np.zeros(2)})
