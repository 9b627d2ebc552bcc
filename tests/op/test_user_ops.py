"""define_op: a numpy or numba function as an op, checked, differentiated, saved, replaced."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GradientError, GradwrightError, GraphError, LoweringError
from gradwright.op import OPS
from gradwright.ops.core.elementwise import conj
from gradwright.testing import OpCheckError, check_op

VECTOR = np.ones(3)


@pytest.fixture(autouse=True)
def _forget():
    """Leave no op behind that another test could meet."""
    known = set(OPS)
    yield
    for name in {n for n in OPS if "/" in n} - known:  # families may have come, and stays
        del OPS[name]


def softcap_op(**options):
    return gw.define_op(
        "test/softcap",
        lambda x, cap=30.0: cap * np.tanh(x / cap),
        vjp=lambda g, y, x, cap: g * (1.0 - (y / cap) ** 2),
        **options,
    )


def test_one_line_makes_an_op_with_gradients_of_every_order():
    softcap = softcap_op()
    check_op(softcap)
    gw.testing.check_op(softcap.op(cap=30.0))
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3), "float64")
    y = softcap(x, cap=2.0, name="y")
    (dx,) = gw.gradients(y, [x])
    (ddx,) = gw.gradients(dx, [x])
    a = np.linspace(-3.0, 3.0, 6).reshape(2, 3)
    found = gw.Session(g, check="replay").run([y, dx, ddx], {"x": a})
    t = np.tanh(a / 2.0)
    expected = [2 * t, 1 - t * t, -t * (1 - t * t)]
    for v, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(v, e, rtol=1e-12, atol=1e-12)
    assert str(y.spec) == "f64[B, 3]" and y.op.cap == 2.0 and softcap.__name__ == "softcap"
    assert gw.Session(g, "guard").run(y, {"x": a}).tolist() == found[0].tolist()


def test_as_a_decorator_with_several_inputs_that_broadcast():
    @gw.define_op("test/gate", vjp=lambda g, y, a, b: (g * b, g * a))
    def gate(a, b):
        """Product of two tensors."""
        return a * b

    check_op(gate)
    g = gw.Graph()
    x, w = g.placeholder("x", (2, 3)), g.variable("w", (3,), init=2.0)
    y = gate(x, w)
    (dw,) = gw.gradients(y, [w])
    found = g.output({"x": np.ones((2, 3))}, y, dw)
    assert found["gate"].tolist() == [[2.0] * 3] * 2 and found[dw.name].tolist() == [2.0] * 3
    assert gate.__doc__.startswith("Product of two tensors.") and gate(x, 3.0).spec == x.spec


def test_numba_functions_and_ufuncs():
    numba = pytest.importorskip("numba", reason="no numba: pip install -e '.[lab]'")

    @gw.define_op("test/lengths", infer=lambda x: x.with_shape(x.shape[:-1]),
                  vjp=lambda g, y, x: (g / y)[..., None] * x,
                  samples=lambda rng: [(rng.standard_normal((2, 3)),)])  # fmt: skip
    @numba.njit
    def lengths(x):
        """Euclidean lengths of rows."""
        out = np.zeros(x.shape[0], x.dtype)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i] += x[i, j] * x[i, j]
        return np.sqrt(out)

    check_op(lengths)
    scaled = gw.define_op("test/scaled", numba.vectorize(lambda x, y: x * x + y),
                          vjp=lambda g, y, a, b: (2.0 * g * a, g))  # fmt: skip
    check_op(scaled)
    hypot = gw.define_op("test/hypot", np.hypot, vjp=lambda g, y, a, b: (g * a / y, g * b / y))
    check_op(hypot, skip=["second", "vjp", "partial", "session", "symbolic"])  # 0/0 at zero
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2))
    assert g.output({"x": [[3.0, 4.0]]}, lengths(x))["lengths"].tolist() == [5.0]
    assert g.output({"x": [[3.0, 4.0]]}, hypot(x, 4.0))["hypot"].tolist()[0][0] == 5.0


def test_several_outputs_and_inputs_without_gradient():
    both = gw.define_op(
        "test/both",
        lambda x, k: (np.sin(x) * k, np.cos(x)),
        vjp=lambda g, y, x, k: (g[0] * k * np.cos(x) - g[1] * np.sin(x), None),
        samples=[(np.array([0.3, 0.7]), np.array([2, 3]))],
    )
    check_op(both)
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    s, c = both(x, np.array([2, 3]))
    (dx,) = gw.gradients(s, [x])
    a = np.array([0.3, 0.7])
    found = g.output({"x": a}, s, c, dx)
    np.testing.assert_allclose(list(found.values()),
                               [np.sin(a) * [2, 3], np.cos(a), np.cos(a) * [2, 3]])  # fmt: skip


@pytest.mark.parametrize(
    ("options", "shape", "dtype"),
    [
        ({"like": 1}, (4,), "int64"),
        ({"infer": lambda x, y: gw.TensorSpec((7,), "bool")}, (7,), "bool"),
    ],
)
def test_what_it_makes_can_be_stated(options, shape, dtype):
    made = gw.define_op("test/stated", lambda x, y: np.zeros(shape, dtype), **options)
    g = gw.Graph()
    y = made(g.constant(np.ones((2, 3))), g.constant(np.arange(4)))
    assert y.shape == shape and y.dtype == np.dtype(dtype)
    assert g.output({}, y)["stated"].shape == shape
    wrong = gw.define_op("test/wrong", lambda x, y: np.zeros(5), **options)
    with pytest.raises(LoweringError, match="as infer says"):
        g.output({}, wrong(g.constant(np.ones((2, 3))), g.constant(np.arange(4))))
    with pytest.raises(OpCheckError, match="samples"):
        check_op(made)


def test_half_precision_is_computed_in_float32():
    seen = []

    def fn(x):
        seen.append(x.dtype)
        return x * x

    square = gw.define_op("test/squared", fn)
    g = gw.Graph()
    x = g.placeholder("x", (2,), "bfloat16")
    y = square(x)
    out = g.output({"x": np.array([1.5, 2.0], x.dtype)}, y)["squared"]
    assert y.dtype == out.dtype == x.dtype and set(seen) == {np.dtype("float32")}
    assert out.astype(float).tolist() == [2.25, 4.0]


def test_without_a_vjp_there_is_no_gradient_and_the_error_says_why():
    step = gw.define_op("test/step", lambda x: np.heaviside(x, 0.5))
    check_op(step)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = step(x)
    with pytest.raises(GradientError, match="test/step was defined without vjp="):
        gw.gradients(y, [x])
    (dx,) = gw.gradients(y * x, [x], stop=[y])
    assert g.output({"x": [-1.0, 2.0]}, dx)[dx.name].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("options", [{}, {"device": "guard"}, {"check": "replay"}])
def test_an_error_in_the_function_names_the_node_and_its_line(looped, options):
    def fails(x):
        if x.sum() > 1.0:
            raise RuntimeError("too much")
        return x

    op = gw.define_op("test/fails", fails)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = gw.map_fn(lambda row: op(row, name="inner"), x) if looped else op(x, name="inner")
    line = fails.__code__.co_firstlineno + 2
    with pytest.raises(LoweringError) as caught, gw.Session(g, **options) as session:
        session.run(y, {"x": [1.0, 5.0]})
    text = str(caught.value)
    place = "scan:1:inner" if looped else "inner"
    assert text.startswith(f"test/fails {place!r} (test_user_ops.py:")
    assert "RuntimeError: too much" in text and f"raised at test_user_ops.py:{line}" in text


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda x: (x, x) if x.size > 1 else x, "forward gave 2 outputs"),
        (lambda x: None if x.size > 1 else x, "the function returned NoneType"),
        (lambda x: x[:1], r"forward gave float32\[1\]"),
    ],
)
def test_results_that_are_not_what_they_were_on_ones_are_named(fn, says):
    op = gw.define_op("test/turns", fn)
    g = gw.Graph()
    y = op(g.placeholder("x", (2,)))
    with pytest.raises(GraphError, match=says), gw.Session(g) as session:
        session.run(y, {"x": [1.0, 5.0]})


@pytest.mark.parametrize(
    ("vjp", "says"),
    [
        (lambda g, y, x: "no", r"vjp of test/cubed 'cubed' returned str for 'x' : f32\[2\]"),
        (lambda g, y, x: (g * x).sum(), r"returned f32\[\] for 'x' : f32\[2\]"),
        (lambda g, y, x: (g, g), "returned 2 cotangents for 1 input"),
    ],
)
def test_a_vjp_that_returns_something_else_is_named(vjp, says):
    op = gw.define_op("test/cubed", lambda x: x**3, vjp=vjp)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    with pytest.raises(GradientError, match=says):
        gw.gradients(op(x), [x])


def test_a_wrong_vjp_is_found():
    bad = gw.define_op("test/bad", lambda x: x**3, vjp=lambda g, y, x: g * x * x)
    with pytest.raises(OpCheckError, match="finite differences"):
        check_op(bad)


def test_defining_again_replaces_it_in_graphs_that_exist():
    first = gw.define_op("test/again", lambda x: x + 1.0)
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = first(x, name="y")
    with gw.Session(g) as session:
        assert float(session.run(y, {"x": 1.0})) == 2.0
        gw.define_op("test/again", lambda x: x * 10.0)
        assert float(session.run(y, {"x": 1.0})) == 10.0


def test_a_function_may_write_all_results_into_one_buffer():
    buffer = np.empty(2, "float32")
    double = gw.define_op("test/double", lambda x: np.multiply(x, 2.0, out=buffer), like=0)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    a, b = double(x), double(x + 1.0)
    _, ys = gw.scan(lambda c, v: (double(c) + v, double(c)), x, gw.stack([x, x]))
    with gw.Session(g) as session:
        found = session.run([a, b, ys], {"x": [1.0, 2.0]})
    assert [y.tolist() for y in found] == [[2.0, 4.0], [4.0, 6.0], [[2.0, 4.0], [6.0, 12.0]]]


def test_an_attribute_may_be_a_dtype():
    cast = gw.define_op(
        "test/cast",
        lambda x, dtype="float32": x.astype(dtype),
        infer=lambda x, dtype: x.with_dtype(dtype),
    )
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    assert cast(x).dtype == x.dtype and cast(x, dtype="int64").dtype == np.int64
    y = cast(x, dtype=np.float64)
    assert g.output({"x": [1.0, 2.0]}, y)[y.name].dtype == np.float64


def test_gradients_are_those_of_the_op_as_it_is_now():
    op = gw.define_op("test/late", lambda x: x * x)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = gw.map_fn(lambda v: op(v), x)
    with pytest.raises(GradientError, match="without vjp="):
        gw.gradients(y, [x])
    for factor in (1.0, 2.0):  # wrong, and mended
        gw.define_op("test/late", lambda x: x * x, vjp=lambda g, y, x, k=factor: g * x * k)
        (dx,) = gw.gradients(y, [x])
        assert gw.gradients(y, [x]) == [dx]
        assert g.output({"x": [1.0, 3.0]}, dx)[dx.name].tolist() == [factor, 3.0 * factor]


def test_an_op_that_makes_something_else_now_is_refused():
    op = gw.define_op("test/other", lambda x: x + 1.0)
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = op(x, name="y")
    for now in (
        {"fn": lambda x: (x + 1.0).astype("float64")},
        {"fn": lambda x: x.sum(), "infer": lambda x: x.with_shape(())},
    ):
        gw.define_op("test/other", **now)
        with pytest.raises(DTypeError, match=r"(?s)'y' is f.*build the graph again"):
            g.output({"x": [1.0, 2.0]}, y)


def test_saved_by_name_and_loaded_where_it_is_defined(tmp_path):
    softcap = softcap_op()
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    softcap(x, cap=1.0, name="y")
    g.save(tmp_path / "g.gw")
    raw = (tmp_path / "g.gw").read_bytes()
    assert b"test/softcap" in raw and b"tanh" not in raw and b"lambda" not in raw
    expected = g.output({"x": [1.0, 2.0]}, "y")["y"].tolist()
    del OPS["test/softcap"]
    unknown = gw.load(tmp_path / "g.gw")
    with pytest.raises(GradwrightError, match="test/softcap"):
        unknown.output({"x": [1.0, 2.0]}, "y")
    softcap_op()
    found = gw.load(tmp_path / "g.gw")
    assert found["y"].op.cap == 1.0
    assert found.output({"x": [1.0, 2.0]}, "y")["y"].tolist() == expected


def test_inside_loops_and_functions():
    softcap = softcap_op()
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    last, _ = gw.scan(lambda c, v: (softcap(c + v, cap=2.0), None), 0.0, x)
    (dx,) = gw.gradients(last, [x])
    a, e = np.array([0.5, -1.0, 2.0]), 1e-6

    def by_hand(v):
        c = 0.0
        for w in v:
            c = 2.0 * np.tanh((c + w) / 2.0)
        return c

    numeric = [(by_hand(a + e * d) - by_hand(a - e * d)) / (2 * e) for d in np.eye(3)]
    found = gw.Session(g).run([last, dx], {"x": a})
    np.testing.assert_allclose(found[0], by_hand(a))
    np.testing.assert_allclose(found[1], numeric, rtol=1e-8)


def test_a_result_is_never_its_input():
    same = gw.define_op("test/same", lambda x: x)
    g = gw.Graph()
    w = g.variable("w", (3,), init=1.0)
    y = same(w)
    out = gw.Session(g).run(y)
    out[:] = 5.0
    assert g.values["w"].tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: gw.define_op("softcap", np.tanh), "is not an op name"),
        (lambda x: gw.define_op("test/n", 3), "need: a function of numpy arrays"),
        (lambda x: gw.define_op("test/n", lambda *xs: xs[0]), "need: a fixed number of inputs"),
        (lambda x: gw.define_op("test/n", lambda: 1.0), "takes no input"),
        (lambda x: gw.define_op("test/n", lambda forward: forward), "means something else"),
        (lambda x: gw.define_op("test/n", lambda x, w=VECTOR: x), "cannot be an attribute"),
        (lambda x: gw.define_op("test/n", lambda x: x.sum())(x), "not elementwise"),
        (lambda x: gw.define_op("test/n", lambda x: x.typo())(x), "fails on ones, f32.1, 1.: Attr"),
        (lambda x: gw.define_op("test/n", lambda a, b: a + b)(x, x[0, :1]), "do not broadcast|ok"),
        (lambda x: softcap_op()(x.astype("complex64")), "not defined for c64"),
        (lambda x: softcap_op()(x, cap="much"), "does not fit"),
    ],
)
def test_what_cannot_be_an_op_is_explained(make, says):
    g = gw.Graph()
    x = g.placeholder("x", (2, 3))
    if "ok" in says:  # broadcasts
        assert make(x).shape == (2, 3)
        return
    with pytest.raises((GradwrightError, GraphError, DTypeError), match=says):
        make(x)
        gw.Session(g).run(x, {"x": np.ones((2, 3))})


def test_complex_numbers_where_they_are_asked_for():
    square = gw.define_op("test/squares", lambda z: z * z,
                          vjp=lambda g, y, z: g * conj(z) * 2.0, kinds="buifc")  # fmt: skip
    check_op(square)
