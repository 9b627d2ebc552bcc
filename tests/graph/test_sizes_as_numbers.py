"""A size of a tensor is a number of the tensors that it meets: ``loss.sum() / x.shape[0]``."""

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


@pytest.fixture
def x():
    return gw.Graph().placeholder("x", ("B", 4))


def value(y):
    return y.graph.output({"x": X}, y)[y.name]


CASES = {
    "over": (lambda x: x.sum() / x.shape[0], X.sum() / 3),
    "times": (lambda x: x * x.shape[0], X * 3),
    "before": (lambda x: x.shape[0] * x, X * 3),
    "less": (lambda x: x - x.shape[0], X - 3),
    "taken from": (lambda x: x.shape[0] - x, 3 - X),
    "plus": (lambda x: x.shape[0] + x, 3 + X),
    "compared": (lambda x: x < x.shape[0], X < 3),
    "of a polynomial": (lambda x: x / (2 * x.shape[0] + 1), X / 7),
    "of a whole part": (lambda x: x * (x.shape[0] // 2), X),
    "in a function": (lambda x: gw.maximum(x, x.shape[0]), np.maximum(X, 3)),
    "in a choice": (lambda x: gw.where(x > 1.0, x, x.shape[0]), np.where(X > 1, X, 3)),
    "power": (lambda x: x ** x.shape[0], X**3),
}


@pytest.mark.parametrize("case", CASES)
def test_a_size_is_a_number_of_its_neighbour(x, case):
    build, wanted = CASES[case]
    y = build(x)
    found = value(y)
    assert found.dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    with gw.Session(x.graph) as session:
        for rows in (X, X[:2], np.tile(X, (2, 1))):
            again = session.run(y, {"x": rows})
            assert again.shape == ((len(rows), 4) if found.ndim else ())
            assert np.array_equal(again, x.graph.output({"x": rows}, y)[y.name])


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("float16", "float16"), ("float64", "float64"), ("int8", "int64"), ("complex64", "complex64")],
)
def test_it_takes_a_floating_neighbours_dtype_and_beside_integers_its_own(x, dtype, wanted):
    y = x.astype(dtype) * x.shape[0]
    assert value(y).dtype == wanted
    np.testing.assert_allclose(value(y), X.astype(dtype).astype(wanted) * 3)


def test_what_a_size_decides_is_known_while_building(x):
    ones = gw.full(gw.stack([gw.size_at(x, 1), gw.size_at(x, 0) * 2]), 1.0)
    assert str(ones.spec) == "f32[4, 2*B]"
    assert str(gw.reshape(x, gw.stack([gw.size_at(x, 0) * x.shape[0] // x.shape[0], 4])).spec)


def test_gradients_pass_by_it(x):
    g = x.graph
    w = g.variable("w", (4,), init=2.0)
    loss = (x * w).sum() / x.shape[0]
    (dw,) = gw.gradients(loss, [w])
    np.testing.assert_allclose(value(dw), X.sum(0) / 3, rtol=1e-6)
    assert gw.gradient_check(g, loss, {"x": X}).outcome == "passed"


def test_it_is_known_inside_of_loops_branches_and_functions(x):
    in_map = gw.map_fn(lambda row: row.sum() * x.shape[0], x)
    np.testing.assert_allclose(value(in_map), X.sum(1) * 3, rtol=1e-6)
    in_branch = gw.cond(x.sum() > 0.0, lambda: x.sum() / x.shape[0], lambda: x.sum())
    np.testing.assert_allclose(value(in_branch), X.sum() / 3, rtol=1e-6)
    in_function = gw.function("mean")(lambda a: a.sum() / a.shape[0])(x)
    np.testing.assert_allclose(value(in_function), X.sum() / 3, rtol=1e-6)


def test_it_is_kept_in_archives_and_written_as_onnx(x, tmp_path):
    pytest.importorskip("onnx")
    y = gw.identity(x.sum() / x.shape[0], name="y")
    x.graph.save(tmp_path / "a.gw")
    gw.onnx.save(x.graph, tmp_path / "a.onnx", [y])
    for g in (gw.load(tmp_path / "a.gw"), gw.onnx.load(tmp_path / "a.onnx")):
        for rows in (X, X[:2]):
            found = g.output({"x": rows}, "y")["y"]
            assert found == pytest.approx(rows.sum() / len(rows)) and found.dtype == np.float32


@pytest.mark.parametrize(
    "use", [lambda b: 1.0 / b, lambda b: b / 2, lambda b: b**0.5, lambda b: 2**b]
)
def test_a_fraction_of_a_size_alone_is_no_size(x, use):
    with pytest.raises(ShapeError, match="a fraction of the dimension B is no size") as caught:
        use(x.shape[0])
    assert "tensor / x.shape[0]" in caught.value.hint


def test_a_size_has_no_value_for_python(x):
    for use in (math.sqrt, float, int):
        with pytest.raises(ShapeError, match="the dimension B has no value yet"):
            use(x.shape[0])
    with pytest.raises(TypeError):
        x.shape[0] * 0.5


BODIES = {
    "reshape": (lambda a: gw.reshape(a, (a.shape[0] * 2, 2)), lambda a: a.reshape(-1, 2)),
    "full": (lambda a: a + gw.full((a.shape[0], 1), 2.0), lambda a: a + 2),
    "eye": (lambda a: gw.eye(a.shape[0]) @ a, lambda a: a),
    "broadcast": (lambda a: gw.broadcast_to(a.sum(), (a.shape[0],)), lambda a: [a.sum()] * len(a)),
    "number": (lambda a: a.sum() / a.shape[0], lambda a: a.sum() / len(a)),
}


@pytest.mark.parametrize("case", BODIES)
def test_sizes_of_a_functions_arguments_are_those_of_each_call(x, case):
    build, wanted = BODIES[case]
    block = gw.function("block")(build)
    other = x.graph.placeholder("other", ("N", 4))
    first, second = block(x), block(other)
    outer = gw.function("outer")(lambda a: block(a) * 2.0)(other)
    feeds = {"x": X, "other": X[:2]}
    with gw.Session(x.graph) as session:
        for found, given in (
            (session.run([first, second, outer], feeds), (X, X[:2], X[:2])),
            (x.graph.output(feeds, first, second, outer).values(), (X, X[:2], X[:2])),
        ):
            for y, rows, factor in zip(found, given, (1, 1, 2), strict=True):
                np.testing.assert_allclose(y, np.asarray(wanted(rows)) * factor, rtol=1e-6)
