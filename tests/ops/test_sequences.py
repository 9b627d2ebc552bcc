"""gw.sequence: values, gradients of two orders, sizes that differ, loops over lists, errors."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gradwright as gw
from gradwright import OptionalSpec, SequenceSpec, TensorSpec
from gradwright.errors import DTypeError, GradientError, GradwrightError, LoweringError, ShapeError
from gradwright.plan import Plan

seq = gw.sequence


def everywhere(g, fetches, feeds):
    """Run with each device and with replay; all agree, and one result is returned."""
    found = []
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            found.append(session.run(fetches, feeds))
    assert _plain(found[0]) == _plain(found[1])
    return found[0]


def _plain(value):
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return None if value is None else value.tolist()


def two_orders(build, *arrays):
    """Hold gradient and second order of ``build(*tensors)`` against central differences."""
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, "float64") for i, a in enumerate(arrays)]
    loss = build(*xs)
    first = gw.gradients(loss, xs)
    squares = [(d * d).sum() for d in first]
    level = sum(squares[1:], start=squares[0])
    second = gw.gradients(level, xs)
    feeds = dict(zip(xs, arrays, strict=True))
    found = everywhere(g, [*first, *second], feeds)
    with gw.Session(g) as session:
        for k, (target, exact) in enumerate(
            zip([loss] * len(xs) + [level] * len(xs), found, strict=True)
        ):
            x = xs[k % len(xs)]
            numeric = np.zeros_like(exact)
            for i in np.ndindex(exact.shape):
                ends = []
                for sign in (1, -1):
                    moved = feeds[x].copy()
                    moved[i] += sign * 1e-5
                    ends.append(float(session.run(target, {**feeds, x: moved})))
                numeric[i] = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(exact, numeric, rtol=2e-5, atol=1e-6)


# -- values ----------------------------------------------------------------------------------------


def test_lists_behave_as_lists_do(rng):
    g = gw.Graph()
    a, b = g.placeholder("a", ("N", 2)), g.placeholder("b", (1, 2))
    i = g.placeholder("i", (), "int64")
    items = seq.construct(a, b, a[:1])
    assert str(items.spec) == "seq(f32[?, 2])"
    fetches = {
        "items": items,
        "length": seq.length(items),
        "at": seq.at(items, i),
        "inserted": seq.insert(items, b * 2.0, i),
        "appended": seq.insert(items, b * 2.0),
        "erased": seq.erase(items, i),
        "shorter": seq.erase(items),
        "put": seq.put(items, i, b * 3.0),
    }
    x, y = rng.standard_normal((3, 2)).astype("f4"), rng.standard_normal((1, 2)).astype("f4")
    for at in (0, 1, 2, -1, -3):
        found = everywhere(g, list(fetches.values()), {"a": x, "b": y, "i": at})
        plain = dict(zip(fetches, map(_plain, found), strict=True))
        held = [x.tolist(), y.tolist(), x[:1].tolist()]
        assert plain["items"] == held and plain["length"] == 3 and plain["at"] == held[at]
        inserted, put, erased = list(held), list(held), list(held)
        inserted.insert(at, (y * 2).tolist())
        put[at] = (y * 3).tolist()
        del erased[at]
        assert plain["inserted"] == inserted and plain["put"] == put and plain["erased"] == erased
        assert plain["appended"] == [*held, (y * 2).tolist()] and plain["shorter"] == held[:-1]


@pytest.mark.parametrize(
    ("split", "attrs", "shapes", "spec"),
    [
        (None, {}, [(1, 3)] * 5, "seq(f64[1, 3])"),
        (None, {"axis": 1, "keepdims": False}, [(5,)] * 3, "seq(f64[5])"),
        (2, {}, [(2, 3), (2, 3), (1, 3)], "seq(f64[?, 3])"),
        (5, {}, [(5, 3)], "seq(f64[5, 3])"),
        ([1, 4], {}, [(1, 3), (4, 3)], "seq(f64[?, 3])"),
        ([1, 1, 1], {"axis": -1}, [(5, 1)] * 3, "seq(f64[5, 1])"),
    ],
)
def test_cutting_and_joining(rng, split, attrs, shapes, spec):
    g = gw.Graph()
    x = g.placeholder("x", (5, 3), "float64")
    parts = seq.split_to_sequence(x, split, **attrs)
    axis = attrs.get("axis", 0)
    new = attrs.get("keepdims") is False
    back = seq.concat_from_sequence(parts, axis=axis, new_axis=new)
    a = rng.standard_normal((5, 3))
    found, joined = everywhere(g, [parts, back], {"x": a})
    assert [p.shape for p in found] == shapes and str(parts.spec) == spec
    assert joined.tolist() == a.tolist()


def test_pieces_that_do_not_add_up():
    g = gw.Graph()
    x, n = g.placeholder("x", (5,)), g.placeholder("n", (None,), "int64")
    parts = seq.split_to_sequence(x, n)
    with gw.Session(g) as session:
        for sizes in ([2, 2], [6, -1]):
            with pytest.raises(ShapeError, match="cannot cut 5 rows"):
                session.run(parts, {"x": np.zeros(5), "n": sizes})


def test_optionals_hold_or_do_not():
    g = gw.Graph()
    x = g.placeholder("x", OptionalSpec(TensorSpec((2,))))
    full, empty = seq.optional(g.constant([1.0, 2.0])), None
    with g:
        empty = seq.optional(shape=(None,), dtype="int64")
        nothing = seq.optional_has_element()
    there = seq.optional_has_element(x)
    value = gw.cond(there, lambda: seq.optional_get_element(x), lambda: g.constant([0.0, 0.0]))
    fetches = [full, empty, seq.optional_has_element(empty), nothing, there, value]
    for fed, has, held in (([3.0, 4.0], True, [3.0, 4.0]), (None, False, [0.0, 0.0])):
        found = everywhere(g, fetches, {"x": fed})
        assert _plain(found) == [[1.0, 2.0], None, False, False, has, held]
    with gw.Session(g) as session, pytest.raises(ShapeError, match="holds nothing"):
        session.run(seq.optional_get_element(x), {"x": None})
    items = seq.optional_get_element(seq.optional(seq.construct(g.constant([1.0]))))
    assert _plain(everywhere(g, [items], {})) == [[[1.0]]]


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, -1, -2])
def test_gradients_through_lists(rng, at):
    def build(a, b):
        items = seq.construct(a * a, b, a * b[0])
        items = seq.insert(items, gw.tanh(b), at)
        items = seq.erase(items, -at)
        items = seq.put(items, at, gw.exp(seq.at(items, at)) + a)
        joined = seq.concat_from_sequence(items, axis=0)
        return (joined**3).sum() + (seq.at(items, 0) * seq.at(items, -1)).sum()

    two_orders(build, rng.standard_normal(2), rng.standard_normal(2))


def test_gradients_through_cutting_joining_and_mapping(rng):
    def build(x, w):
        parts = seq.split_to_sequence(x, np.array([1, 3]))
        parts = seq.map(lambda p, w: gw.tanh(p * w) * p, parts, w)
        stacked = seq.concat_from_sequence(
            seq.split_to_sequence(x, keepdims=False), axis=1, new_axis=True
        )
        held = seq.optional_get_element(seq.optional(seq.concat_from_sequence(parts, axis=0)))
        return (held * held * held).sum() + (stacked.T * w * held).sum()

    two_orders(build, rng.standard_normal((4, 2)), rng.standard_normal(2))


def test_gradients_with_respect_to_a_list():
    g = gw.Graph()
    q = g.placeholder("q", SequenceSpec((None, 2), "float64"))
    loss = (seq.at(q, 0) ** 3).sum() + (seq.at(q, 0)[0] * seq.at(q, 1)[0]).sum()
    (dq,) = gw.gradients(loss, [q])
    assert dq.spec == q.spec
    a, b, c = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]), np.ones((3, 2))
    (found,) = everywhere(g, [dq], {"q": [a, b[:1], c]})
    assert _plain(found) == [[[6.0, 16.0]], [[1.0, 2.0]], [[0.0, 0.0]] * 3]
    with pytest.raises(GradientError, match="not floating"):
        gw.gradients(loss, [g.placeholder("i", SequenceSpec((2,), "int64"))])


def test_cond_chooses_between_lists(rng):
    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", (3,), "float64")
    items = gw.cond(p, lambda: seq.construct(x, x * x), lambda: seq.construct(x[:1]))
    assert str(items.spec) == "seq(f64[?])"
    (dx,) = gw.gradients((seq.at(items, -1) ** 2).sum(), [x])
    a = np.array([1.0, 2.0, 3.0])
    for taken, held, slope in (
        (True, [a.tolist(), (a * a).tolist()], (4 * a**3).tolist()),
        (False, [[1.0]], [2.0, 0.0, 0.0]),
    ):
        assert _plain(everywhere(g, [items, dx], {"p": taken, "x": a})) == [held, slope]


def test_cond_chooses_between_texts():
    g = gw.Graph()
    p = g.placeholder("p", (), "bool")
    y = gw.cond(p, lambda: g.constant(["yes", "sure"]), lambda: g.constant(["no"]))
    assert _plain(everywhere(g, [y], {"p": True})) == [["yes", "sure"]]
    assert _plain(everywhere(g, [y], {"p": False})) == [["no"]]


# -- loops over lists ------------------------------------------------------------------------------


def test_a_loop_collects_pieces_of_different_sizes():
    g = gw.Graph()
    x, n = g.placeholder("x", (None,)), g.placeholder("n", (), "int64")
    with g:
        start = seq.empty()
    items, _ = gw.loop(
        lambda i, c: (
            True,
            seq.insert(c, gw.gather(x, gw.nonzero(x > i.astype("float32"))[0])),
            None,
        ),
        start,
        trip=n,
    )
    assert str(items.spec) == "seq(f32[?])"
    (found,) = everywhere(g, [items], {"x": [0.5, 1.5, 2.5], "n": 3})
    assert _plain(found) == [[0.5, 1.5, 2.5], [1.5, 2.5], [2.5]]
    assert _plain(everywhere(g, [items], {"x": [0.5], "n": 0})) == [[]]
    first = seq.at(items, 0)
    with pytest.raises(GradientError, match="a carry is a sequence"):
        gw.gradients(first.sum(), [x])


def test_a_step_reads_what_it_has_put_into_a_list():
    g = gw.Graph()
    x, n = g.placeholder("x", (None,)), g.placeholder("n", (), "int64")

    def body(i, c):
        items, total = c
        last = seq.at(items, -1)
        return True, (seq.insert(items, gw.concat([last, last])), total + last.sum()), last.sum()

    (_, total), sums = gw.loop(body, (seq.construct(x), 0.0), trip=n)
    for given in ([1.0, 2.0, 3.0], [4.0]):
        start = sum(given)
        expected = [start * 2.0**i for i in range(4)]
        found = everywhere(g, [total, sums], {"x": given, "n": 4})
        assert _plain(found) == [sum(expected), expected]


def test_plans_of_a_step_are_let_go():
    def plans():
        gc.collect()
        return sum(type(found) is Plan for found in gc.get_objects())

    g = gw.Graph()
    items = g.placeholder("items", gw.SequenceSpec((None,)))
    y = seq.map(lambda x: x * 2.0, items)
    before = plans()
    with gw.Session(g) as session:
        found = session.run(y, {"items": [np.ones(k, "float32") for k in range(400)]})
        assert [len(item) for item in found] == [*range(400)]
        assert plans() - before < 300


def test_scan_goes_along_lists_and_numbers_together():
    g = gw.Graph()
    items = g.placeholder("items", gw.SequenceSpec((2,), "float64"))
    x = g.placeholder("x", (None,), "float64")
    _, ys = gw.scan(lambda c, pair: (pair[1], (c * pair[0]).sum()), x[0] * 2.0, (items, x))
    (dx,) = gw.gradients(ys.sum(), [x])  # the numbers are carries, kept in a list
    found = everywhere(g, [ys, dx], {"items": [np.ones(2), np.full(2, 3.0)], "x": [1.0, 5.0]})
    assert _plain(found) == [[4.0, 6.0], [10.0, 0.0]]


def test_scan_goes_along_texts():
    g = gw.Graph()
    x = g.placeholder("x", (None,), "str")
    last, ys = gw.scan(lambda c, t: (t, gw.strings.string_concat(c, t)), g.constant("-"), x)
    found = everywhere(g, [last, ys], {"x": ["a", "bc"]})
    assert _plain(found) == ["bc", ["-a", "abc"]]
    s = gw.Stepper(g, [ys], {"x": ["a", "bc"]})
    s.run_to(ys)
    s.into()
    s.out()
    assert s.results()[0].tolist() == ["-a", "abc"]


def test_scan_goes_along_lists_and_rows_together():
    g = gw.Graph()
    q, x = g.placeholder("q", SequenceSpec((None,), "float64")), g.placeholder("x", (2,), "float64")
    last, ys = gw.scan(lambda c, item: (c + item[0].sum() * item[1], c), 0.0, (q, x))
    dq, dx = gw.gradients(last * last, [q, x])
    feeds = {"q": [[1.0, 2.0], [5.0]], "x": [3.0, 4.0]}
    found = everywhere(g, [last, ys, dq, dx], feeds)
    assert _plain(found) == [29.0, [0.0, 9.0], [[174.0, 174.0], [232.0]], [174.0, 290.0]]
    with gw.Session(g) as session, pytest.raises(ShapeError, match="equally many"):
        session.run(last, {"q": [[1.0]], "x": [3.0, 4.0]})


def test_mapping_lists_of_different_sizes_together():
    g = gw.Graph()
    a, b = (g.placeholder(n, SequenceSpec((None,))) for n in "ab")
    y = seq.map(lambda p, q, w: (p.sum() * q * w, q), a, b, g.constant(2.0))
    assert [str(t.spec) for t in y] == ["seq(f32[?])"] * 2
    first, second = everywhere(g, list(y), {"a": [[1.0, 2.0], [3.0]], "b": [[1.0], [1.0, 2.0]]})
    assert _plain(first) == [[6.0], [6.0, 12.0]] and _plain(second) == [[1.0], [1.0, 2.0]]
    with pytest.raises(GradwrightError, match="at least one sequence"):
        seq.map(lambda v: v, g.constant([1.0]))


# -- the rest of the system ------------------------------------------------------------------------


def test_graphs_with_lists_are_saved_and_stepped_through(tmp_path, rng):
    g = gw.Graph()
    x = g.placeholder("x", (3, 2))
    items = seq.map(lambda r: gw.exp(r), seq.split_to_sequence(x))
    y = seq.concat_from_sequence(items, axis=0)
    (dx,) = gw.gradients((y * y).sum(), [x])
    a = rng.standard_normal((3, 2)).astype("f4")
    numpy = {"kernels": "off"}  # as the stepper's: others come in the midst of a loop
    expected = gw.Session(g, **numpy).run([items, y, dx], {"x": a})
    g.save(tmp_path / "g.gw")
    found = gw.load(tmp_path / "g.gw")
    again = gw.Session(found, **numpy).run([items.name, y.name], {"x": a})
    assert _plain(again) == _plain(expected[:2])
    s = gw.Stepper(g, [items, y, dx], {"x": a})
    while s.current is not None:
        s.step()
    assert _plain(s.results()) == _plain(expected)


def test_listeners_see_lists():
    class Watch(gw.Listener):
        wants_nodes = True

        def __init__(self):
            self.seen = []

        def node_ran(self, event):
            self.seen += [repr(a) for a in event.outputs]

    g = gw.Graph()
    items = seq.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    watch = Watch()
    with gw.Session(g, listeners=[watch]) as session:
        session.run(seq.length(items))
    assert any("[f32[2], f32[1]]" in text for text in watch.seen)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda x, q: seq.at(x, 0), "at takes a sequence"),
        (lambda x, q: seq.insert(q, x.astype("int64")), "puts i64"),
        (lambda x, q: seq.at(q, 1.5), "a whole number"),
        (lambda x, q: seq.construct(x, x > 0), "items of one sequence"),
        (lambda x, q: seq.concat_from_sequence(q, axis=2), "out of range"),
        (lambda x, q: x + q, "takes a tensor"),
    ],
)
def test_what_lists_refuse(build, says):
    g = gw.Graph()
    x, q = g.placeholder("x", (2, 2)), g.placeholder("q", SequenceSpec((2, None)))
    with pytest.raises(GradwrightError, match=says):
        build(x, q)


@pytest.mark.parametrize(
    "build",
    [
        lambda q, i: seq.at(q, i),
        lambda q, i: seq.erase(q, i),
        lambda q, i: seq.insert(q, seq.at(q, 0), i + 1),
    ],
)
def test_places_that_are_not_there_are_named_when_run(build):
    g = gw.Graph()
    q, i = g.placeholder("q", SequenceSpec((2,))), g.placeholder("i", (), "int64")
    y = build(q, i)
    with gw.Session(g) as session:
        for at in (2, 7):
            with pytest.raises((ShapeError, LoweringError), match=r"there is no place [2378]"):
                session.run(y, {"q": [np.ones(2), np.ones(2)], "i": at})


def test_results_share_nothing_with_feeds_or_each_other():
    g = gw.Graph()
    q = g.placeholder("q", SequenceSpec((2,)))
    more = seq.insert(q, seq.at(q, 0))
    fed = [np.zeros(2, np.float32)]
    with gw.Session(g) as session:
        a, b = session.run([more, seq.at(more, -1)], {"q": fed})
        a[0][:] = 1.0
        b[:] = 2.0
    assert not fed[0].any() and not a[1].any()
    with pytest.raises(DTypeError):
        seq.construct(q, q)


def test_items_may_differ_in_rank():
    g = gw.Graph()
    x, q = g.placeholder("x", (2, 2)), g.placeholder("q", SequenceSpec((2, None)))
    grown, made = seq.insert(q, x.sum()), seq.construct(x, x[0])
    assert str(grown.spec) == str(made.spec) == "seq(f32)"
    rows = np.ones((2, 2), np.float32)
    a, b = g.output({"x": rows, "q": [rows[:, :1]]}, grown, made).values()
    assert [item.shape for item in a + b] == [(2, 1), (), (2, 2), (2,)]
    with pytest.raises(GradwrightError, match="nothing is known of the items"):
        seq.at(made, 0)
