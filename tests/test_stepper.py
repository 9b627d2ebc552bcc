"""The stepper: steps, steps back, breakpoints, edits, composites, branches, gradients, NaN."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug import Expression
from gradwright.errors import DTypeError, FeedError, GraphError, ShapeError


@gw.register("test/centre")
class Centre(gw.Op):
    """Subtract the mean and scale by a half."""

    def expand(self, x):
        half = (x - gw.mean(x, axis=-1, keepdims=True)) * 0.5
        return half


@pytest.fixture
def net():
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 3))
    with g.scope("hidden"):
        w = g.variable("w", (3, 2), init=np.arange(6.0).reshape(3, 2) / 10)
        h = gw.exp(x @ w, name="h")
    y = Centre()(h, name="centred")
    loss = (y * y).sum(name="loss")
    (dw,) = gw.gradients(loss, [w])
    return g, loss, dw


FEEDS = {"x": np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])}


def stepper(net, **options):
    g, loss, dw = net
    return gw.Stepper(g, fetches=[loss, dw], feeds=FEEDS, **options)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_results_equal_the_sessions(net, max_bytes):
    g, loss, dw = net
    s = stepper(net, max_bytes=max_bytes)
    assert s.run().reason == "end" and s.done
    for a, b in zip(s.results(), gw.Session(g).run([loss, dw], FEEDS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_step_forward_and_back(net):
    s = stepper(net)
    names = [n.name for n in s.nodes()]
    assert names[:3] == ["hidden/matmul", "hidden/h", "centred"]
    assert s.step().name == "hidden/h" and s.position == 1
    assert s.value("hidden/matmul").shape == (2, 2)
    with pytest.raises(GraphError, match="not been computed yet"):
        s.value("hidden/h")
    s.step(2)
    assert s.back().name == "centred" and s.back().name == "hidden/h"
    with pytest.raises(GraphError, match="not been computed yet"):
        s.value("hidden/h")
    assert s.executed == 3
    s.step()
    assert s.executed == 3  # the value was kept
    with pytest.raises(ValueError, match="read-only"):
        s.value("hidden/h")[0] = 1


def test_the_graph_layer_comes_before_its_gradients(net):
    g, _, dw = net
    s = gw.Stepper(g, fetches=[dw], feeds=FEEDS)
    derived = [n.derived for n in s.nodes()]
    assert derived == sorted(derived) and any(derived)


def test_stepping_back_re_executes_at_most_sqrt_n_ops():
    g = gw.Graph()
    y = x = g.placeholder("x", (4,))
    for _ in range(400):
        y = gw.exp(y * 0.5) - 1.0
    s = gw.Stepper(g, fetches=[y], feeds={"x": np.full(4, 0.1)}, max_bytes=0)
    n = len(s.nodes())
    expected = {}
    while s.current is not None:
        node = s.current
        s.step()
        expected[s.position] = float(s.value(node.outputs[0])[0])
    assert s.executed == n == 1200
    bound = math.ceil(math.sqrt(n))
    worst = 0
    while s.position > 1:
        before = s.executed
        s.back()
        seen = float(s.value(s.nodes()[s.position - 1].outputs[0])[0])
        worst = max(worst, s.executed - before)
        assert seen == expected[s.position]
    assert 0 < worst <= bound
    assert x.kind == "placeholder"


def test_breakpoints_by_place(net):
    s = stepper(net)
    s.break_at(op="matmul")
    s.break_at("hidden/*")
    s.break_at(scope="grad/loss/hidden")
    s.break_at(regex=r"^lo.s$")
    stops = []
    while (stop := s.run()).reason != "end":
        stops.append(stop.node.name)
    assert stops[:2] == ["hidden/h", "loss"]  # the first node is where we stand
    assert all(n.startswith("grad/loss/hidden") or "matmul" in n for n in stops[2:])
    s.reset()
    s.clear()
    assert s.run().reason == "end"


def test_breakpoints_by_value(net):
    s = stepper(net)
    b = s.break_at(above=3.0)
    stop = s.run()
    assert stop.node.name == "hidden/h" and stop.breakpoint is b and b.hits == 1
    s.clear(b)
    s.reset()
    b = s.break_at("mul", when='max(value) < max(t["hidden/h"])')
    assert s.run().node.name == "mul" and "when" in str(b)
    s.clear()
    s.edit("hidden/h", np.full((2, 2), np.nan))
    s.break_at(nan=True)
    assert s.run().node.name == "loss"


def test_breakpoints_that_cannot_hit_are_refused(net):
    s = stepper(net)
    for options, message in (
        ({}, "needs a place or a condition"),
        ({"op": "matmull"}, "no node has the op"),
        ({"name": "hiden/*"}, "no node is called"),
        ({"regex": "("}, "not a regular expression"),
        ({"when": "value >"}, "cannot read the expression"),
    ):
        with pytest.raises(GraphError, match=message):
            s.break_at(**options)


def test_a_misspelt_op_gets_near_names(net):
    with pytest.raises(GraphError, match="'matmul'"):
        stepper(net).break_at(op="matmull")


def test_a_watch_on_a_name_without_t_is_refused_when_it_is_made(net):
    s = stepper(net)
    s.watch('norm(t["x"])')
    with pytest.raises(GraphError, match=r"t\["):
        s.watch("norm(x)")
    assert list(s.watches()) == ['norm(t["x"])']


def test_a_stepper_shows_where_it_stands(net):
    s = stepper(net)
    assert "before '" in repr(s)
    s.run()
    assert "at the end" in repr(s)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_re_executes_exactly_its_descendants(net, max_bytes):
    g, loss, dw = net
    s = stepper(net, max_bytes=max_bytes)
    s.run()
    done = s.executed
    new = np.array([[0.5, 1.0], [2.0, -1.0]])
    affected = s.edit("hidden/h", new)
    assert "hidden/matmul" not in affected and "centred" in affected
    count = s.rerun()
    ran = [n.name for n in s.nodes() if n.name in affected]
    if max_bytes:
        assert count == s.executed - done == len(ran) < len(s.nodes())
    expected = gw.Session(g).run([loss, dw], {**FEEDS, g["hidden/h"]: new})
    np.testing.assert_allclose(s.results()[0], expected[0], rtol=1e-5)
    # the gradient with respect to w takes the path through h's own gradient, with the edited value
    assert s.results()[1].shape == dw.shape
    assert g.values["hidden/w"][0, 1] == np.float32(0.1)  # a snapshot: the graph is as it was


def test_editing_a_variable_or_feed_reaches_everything(net):
    g, loss, dw = net
    s = stepper(net)
    s.run()
    w = np.full((3, 2), 0.25)
    s.edit("hidden/w", w)
    s.edit("x", FEEDS["x"] * 2)
    s.rerun()
    expected = gw.Session(g).run([loss, dw], {"x": FEEDS["x"] * 2, g["hidden/w"]: w})
    np.testing.assert_allclose(s.results()[1], expected[1], rtol=1e-5)
    with pytest.raises(ShapeError, match="another shape"):
        s.edit("x", np.ones(3))
    with pytest.raises(DTypeError):
        s.edit("x", np.ones((2, 3)) * 1j)


def test_into_a_composite_and_out(net):
    s = stepper(net)
    s.run_to("centred")
    s.into()
    assert s.depth == 1 and s.path.startswith("centred/")
    inner = [n.op.name for n in s.nodes()]
    assert inner[-1] == "mul"
    s.step()
    first = s.nodes()[0]
    assert s.value(f"centred/{first.name}").shape == s.value(first.outputs[0]).shape
    s.back(2)
    assert s.depth == 0 and s.current.name == "centred"
    s.into()
    s.step(len(inner))
    assert s.depth == 0 and s.current.name == "mul"
    h = s.value("hidden/h")
    np.testing.assert_allclose(s.value("centred"), (h - h.mean(-1, keepdims=True)) / 2, rtol=1e-5)
    s.run_to("hidden/h")
    with pytest.raises(GraphError, match="is primitive"):
        s.into()


def test_into_the_branch_a_cond_takes():
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = gw.cond(x > 0.0, lambda: gw.exp(x) * 2.0, lambda: -x, name="y")
    for value, op in ((1.0, "exp"), (-1.0, "neg")):
        s = gw.Stepper(g, fetches=[y], feeds={"x": value})
        s.run_to("y")
        s.into()
        assert s.current.op.name == op
        s.out()
        assert float(s.value("y")) == pytest.approx(2 * math.exp(1) if value > 0 else 1.0)


def test_into_the_gradient_of_a_node(net):
    s = stepper(net)
    stop = s.into_gradient("hidden/matmul")
    assert stop.node.derived and stop.node.origin.name == "hidden/matmul"
    stop = s.into_gradient("hidden/w")  # comes with that of the op it goes into
    assert stop.node.origin.name == "hidden/matmul"
    g, loss, _ = net
    aside = gw.exp(g["hidden/w"], name="aside")
    beside = gw.Stepper(g, fetches=[loss, aside, *gw.gradients(loss, [g["hidden/w"]])], feeds=FEEDS)
    with pytest.raises(GraphError, match="no gradient goes through 'aside'"):
        beside.into_gradient("aside")
    with pytest.raises(GraphError, match="fetches hold no gradient"):
        gw.Stepper(g, fetches=[loss], feeds=FEEDS).into_gradient()


def test_watches_follow(net):
    s = stepper(net)
    s.watch('norm(t["hidden/h"])')
    s.watch('t["x"][0, :].sum()')
    assert s.watches() == {'norm(t["hidden/h"])': None, 't["x"][0, :].sum()': 6.0}
    s.run_to("loss")
    h = s.value("hidden/h")
    assert s.watches()['norm(t["hidden/h"])'] == pytest.approx(np.linalg.norm(h))
    with pytest.raises(GraphError, match="no tensor 'hiden'"):
        s.watch('t["hiden"]')
    s.unwatch('t["x"][0, :].sum()')
    assert list(s.watches()) == ['norm(t["hidden/h"])']


@pytest.mark.parametrize(
    "text",
    ['__import__("os")', "value.__class__", "open('x')", "(lambda: 1)()", "[1 for _ in value]"],
)
def test_expressions_are_not_python(text):
    with pytest.raises(GraphError, match="cannot be used in an expression"):
        Expression(text).evaluate({}, np.ones(2))


def test_a_bare_name_in_an_expression_is_told_how_a_value_is_named():
    with pytest.raises(GraphError, match=r'try: +t\["loss"\]'):
        Expression("loss > 3").evaluate({}, np.ones(2))


def test_an_op_that_fails_stops_the_run_where_it_stands(net):
    @gw.register("test/picky")
    class Picky(gw.Op):
        """Refuse large numbers."""

        def infer(self, x):
            return x

        def forward(self, x):
            if x.max() > 1:
                raise ValueError("too large")
            return x

    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = Picky()(x * 1.0, name="picky").sum()
    s = gw.Stepper(g, fetches=[y], feeds={"x": [1.0, 2.0]})
    stop = s.run()
    assert stop.reason == "error" and stop.node.name == "picky" and "too large" in str(stop.error)
    s.edit("mul", [0.0, 0.5])
    assert s.run().reason == "end" and float(s.value(y)) == 0.5


def test_nan_origin_forward_backward_and_in_data():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    r = gw.sqrt(x, name="root")
    loss = (r * 2.0).sum(name="loss")
    (dx,) = gw.gradients(loss, [x])

    def find(data):
        with np.errstate(all="ignore"):
            return gw.Stepper(g, fetches=[loss, dx], feeds={"x": data}).find_nonfinite()

    assert find([1.0, 4.0, 9.0]) is None
    origin = find([1.0, -4.0, 9.0])
    assert origin.node.name == "root" and origin.direction == "forward"
    assert origin.chain == ("root", "mul", "loss") and origin.outputs[0].n_nan == 1
    assert origin.inputs[0].low == -4.0
    origin = find([1.0, 0.0, 9.0])  # sqrt is finite at 0, its slope is not
    assert origin.direction == "backward" and origin.node.origin.name == "root"
    assert find([1.0, np.nan, 9.0]).direction == "source"
    assert "root" in str(find([1.0, -4.0, 9.0]))


def test_nans_injected_at_50_random_nodes_are_all_located():
    rng = np.random.default_rng(0)
    g = gw.Graph()
    y = g.placeholder("x", (4, 4))
    w = g.variable("w", (4, 4), init=rng.standard_normal((4, 4)) / 4)
    for i in range(40):
        y = gw.exp(y @ w * 0.1, name=f"e{i}") - 1.0
    loss = (y * y).sum()
    (dw,) = gw.gradients(loss, [w])
    feeds = {"x": rng.standard_normal((4, 4))}
    probe = gw.Stepper(g, fetches=[loss, dw], feeds=feeds)
    candidates = [n for n in probe.nodes() if n.outputs[0].spec.size > 1]
    for node in rng.choice(np.array(candidates, object), 50, replace=False):
        s = gw.Stepper(g, fetches=[loss, dw], feeds=feeds)
        s.run()
        bad = s.value(node.outputs[0]).copy()
        bad.ravel()[int(rng.integers(bad.size))] = np.nan
        s.edit(node.outputs[0], bad)
        origin = s.find_nonfinite()
        assert origin is not None and origin.node is node
        assert origin.direction == ("backward" if node.derived else "forward")


def test_bad_requests(net):
    g, loss, _ = net
    with pytest.raises(FeedError, match="'x' is not fed"):
        gw.Stepper(g, fetches=[loss])
    with pytest.raises(FeedError, match="rank 1"):
        gw.Stepper(g, fetches=[loss], feeds={"x": np.ones(3)})
    other = gw.exp(g["x"], name="elsewhere")
    s = stepper(net)
    with pytest.raises(GraphError, match="does not run here"):
        s.run_to(other)
    with pytest.raises(GraphError, match="already at the graph"):
        s.out()
    assert s.run_to("loss").reason == "target"
    assert s.run_to("hidden/h").node.name == "hidden/h"  # backwards


# -- corners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_inside_a_composite_reaches_what_had_run_after_it(max_bytes):
    g = gw.Graph()
    x, w, b = g.placeholder("x", (2, 3)), g.variable("w", (3,), init=1.0), g.variable("b", (3,))
    z = (gw.nn.layer_norm(x, w, b, name="ln") * 2.0).sum()
    s = gw.Stepper(g, [z], {"x": np.arange(6.0).reshape(2, 3)}, max_bytes=max_bytes)
    s.run()
    s.run_to("ln")
    s.into()
    s.step(len(s.nodes()) - 1)
    last = s.nodes()[-2].outputs[0]
    s.edit(last, np.full(s.value(last).shape, 7.0))
    s.out()
    inside = s.value("ln")
    assert np.all(inside == 7.0)
    for _ in range(2):  # and stays, stepping back and forth
        s.run()
        assert float(s.results()[0]) == 2 * inside.sum()
        s.run_to("ln")


def test_edits_inside_go_with_the_level():
    g = gw.Graph()
    x, w, b = g.placeholder("x", (2, 3)), g.variable("w", (3,), init=1.0), g.variable("b", (3,))
    y = gw.nn.layer_norm(x, w, b, name="ln")
    (dx,) = gw.gradients((y * y).sum(), [x])
    s = gw.Stepper(g, [dx], {"x": np.arange(6.0).reshape(2, 3)})
    for leave in (s.into_gradient, s.find_nonfinite):
        s.reset()
        s.run_to("ln")
        s.into()
        s.step(2)
        first = s.nodes()[0].outputs[0]
        s.edit(first, s.value(first) + 1.0)
        leave()
        s.run()
        expected = gw.Session(g).run(dx, {"x": np.arange(6.0).reshape(2, 3)})
        assert np.array_equal(s.results()[0], expected)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_may_move_shapes_that_depend_on_values(max_bytes):
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    kept = gw.boolean_mask(x, x > 0.0)
    y = (kept * kept).sum()
    (dx,) = gw.gradients(y, [x])
    s = gw.Stepper(g, [y, dx], {"x": [1.0, 2.0, -3.0]}, max_bytes=max_bytes)
    s.run()
    s.edit("x", [1.0, 2.0, 3.0])
    s.rerun()
    assert float(s.results()[0]) == 14.0 and s.results()[1].tolist() == [2.0, 4.0, 6.0]


def test_looking_back_leaves_checkpoints_whole():
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    waves = [gw.sin(x * float(i + 1)) for i in range(30)]
    total = waves[0]
    for wave in waves[1:]:
        total = total + wave
    at = np.array([0.1, 0.2, 0.3])
    for position in range(0, 80, 3):
        s = gw.Stepper(g, [total], {"x": at}, max_bytes=0)
        s.step(1)
        s.step(position)
        for _ in range(3):  # each look at an early value replaces what is held
            s.value(s.nodes()[0].outputs[0])
            s.step()
        s.run()
        assert np.allclose(s.results()[0], sum(np.sin(at * (i + 1)) for i in range(30)))


def test_one_of_several_outputs_can_be_fed():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    a, b = gw.split(x, 2)
    z = a + 10.0 * b
    for fed, expected in ((a, [120.0, 130.0]), (b, [1000.0, 1001.0])):
        s = gw.Stepper(g, [z], {"x": np.arange(4.0), fed: [100.0, 100.0]})
        s.run()
        assert s.results()[0].tolist() == expected
        s.edit("x", np.arange(4.0) + 1.0)
        s.rerun()
        assert s.value(fed).tolist() == [100.0, 100.0]


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9", "value.shape + (1, 2, 3)", "abs(value, value)", "exp(value, value)",
        "value.max(value)", "1/0", "value[10]", "not value", "sum()", "~1.5", 't["nope"]',
        "value @ value @ 1",
    ],
)  # fmt: skip
def test_expressions_fail_in_words_and_write_nothing(text):
    value = np.full((2, 2), -1.0)
    with pytest.raises(GraphError):
        Expression(text).evaluate({}, value)
    assert np.all(value == -1.0)


def test_a_shape_in_an_expression_is_an_array():
    value = np.zeros((2, 3))
    assert Expression("value.shape * 1000000000").evaluate({}, value).tolist() == [2e9, 3e9]
    assert Expression("value.mean(0) + 2**3").evaluate({}, value).tolist() == [8.0] * 3


def test_looking_at_every_value_runs_each_op_once_more():
    g = gw.Graph()
    y = g.placeholder("x", ())
    for _ in range(400):
        y = gw.sin(y)
    s = gw.Stepper(g, [y], {"x": 0.5}, max_bytes=0)
    s.run()
    before = s.executed
    assert s.find_nonfinite() is None
    assert s.executed - before <= 400


def test_a_run_stops_inside_composites(net):
    s = stepper(net)
    s.break_at(op="sub")
    stop = s.run()
    assert stop.reason == "breakpoint" and s.path == "centred/sub" and s.depth == 1
    assert s.value("centred/mean").shape == (2, 1)
    assert s.run().reason == "end" and s.depth == 0  # a run goes on after the composite
    s.clear()
    s.reset()
    s.break_at("centred/mul", above=0.0)
    assert s.run().node.name == "mul" and s.depth == 1  # conditions look at values inside, too
    s.clear()
    s.reset()
    s.break_at("centred*")  # what fits the composite itself stops there, and does not go inside
    assert s.run().node.name == "centred" and s.run().reason == "end"
    s.clear()
    s.reset()
    s.break_at(nan=True)
    s.break_at("centred", above=-1.0)
    assert s.run().node.name == "centred" and s.depth == 0


def test_going_through_a_composite_keeps_known_bits():
    g = gw.Graph()
    x = g.placeholder("x", (4, 33))
    w, b = g.variable("w", (33,), init=1.0), g.variable("b", (33,))
    y = (gw.nn.layer_norm(x, w, b, name="ln") * 3.0).sum(name="y")
    s = gw.Stepper(g, [y], {"x": np.random.default_rng(0).standard_normal((4, 33))})
    s.run()
    before = s.value("ln").tobytes(), s.value("y").tobytes()
    s.run_to("ln")
    s.into()
    s.out()
    s.run()
    assert (s.value("ln").tobytes(), s.value("y").tobytes()) == before


def test_a_run_can_be_stopped(net):
    s = stepper(net)
    polls = iter([False, False, True])
    stop = s.run(stop=lambda: next(polls))
    assert stop.reason == "stopped" and s.position == 2 and s.last_stop is stop
    assert s.find_nonfinite(stop=lambda: True) is None and s.last_stop.reason == "stopped"
    s.step()
    assert s.last_stop is None


def test_listeners_hear_every_change_once(net):
    s = stepper(net)
    heard = []
    end = s.listen(lambda: heard.append(s.position))
    s.step(3)
    s.run_to("hidden/h")  # goes back in steps, and says so once
    b = s.break_at(op="sum")
    s.clear(b)
    s.watch('t["x"]')
    s.edit("hidden/matmul", np.zeros((2, 2)))
    assert [n.name for n in s.pending] == [] and len(heard) == 6
    s.step(2)
    s.edit("hidden/matmul", np.ones((2, 2)))
    assert [n.name for n in s.pending] == ["hidden/h", "centred"]
    revision = s.revision
    s.rerun()
    assert s.pending == [] and s.revision == revision + 1 and len(heard) == 9
    with pytest.raises(GraphError):
        s.run_to("nothing")
    assert len(heard) == 10  # a failed move may have moved
    end()
    s.step()
    assert len(heard) == 10


def test_one_thread_moves_at_a_time(net, monkeypatch):
    monkeypatch.setattr("gradwright.debug.turns.PATIENCE", 0.01)
    s = stepper(net)
    errors = []

    def other():
        try:
            s.step()
        except GraphError as error:
            errors.append(str(error))

    def stop():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return True

    assert s.run(stop=stop).reason == "stopped"
    assert s.position == 0 and "another thread" in errors[0]


def test_a_copy_runs_by_itself_with_the_edits(net):
    s = stepper(net)
    s.run()
    s.edit("hidden/h", np.ones((2, 2)))
    s.edit("x", FEEDS["x"] + 1)
    s.rerun()
    copy = s.copy()
    assert copy.position == 0 and copy.run().reason == "end"
    assert [a.tobytes() for a in copy.results()] == [a.tobytes() for a in s.results()]
    copy.edit("hidden/h", np.zeros((2, 2)))
    copy.rerun()
    assert s.value("hidden/h").sum() == 4


def test_an_infinity_that_is_meant_is_no_origin():
    def find(mask, data=0.0, of=gw.nn.softmax):
        g = gw.Graph()
        x = g.placeholder("x", (2, 3))
        y = of(x + g.constant(np.array(mask, np.float32), name="mask"), name="y")
        loss = (y * y).sum(name="loss")
        feeds = {"x": np.full((2, 3), data)}
        return gw.Stepper(g, [loss, *gw.gradients(loss, [x])], feeds).find_nonfinite()

    inf = np.inf
    assert find([0, -inf, 0]) is None
    origin = find([-inf, -inf, -inf])  # softmax of nothing
    assert origin.node.op.name == "softmax" and origin.outputs[0].n_nan == 6
    assert "softmax" in repr(origin) and len(repr(origin)) < 60
    origin = find([0, 0, 0], inf, gw.abs)  # infinite data that reaches the loss
    assert origin.direction == "source" and origin.node.name == "x"
    assert find([0, np.nan, 0]).direction == "source"


def test_a_breakpoint_has_a_short_repr(net):
    s = stepper(net)
    b = s.break_at(op="mul", above=1)
    b.enabled = False
    assert repr(b) == "<Breakpoint #1 op mul when |max| > 1: off, 0 hits>"


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_that_makes_an_op_fail_leaves_us_before_it(max_bytes):
    @gw.register("test/modest")
    class Modest(gw.Op):
        """Refuse large numbers."""

        def infer(self, x):
            return x

        def forward(self, x):
            if x.max() > 10:
                raise ValueError("too large")
            return x + 0

    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = (Modest()(x * 2.0, name="modest") + x).sum(name="y")
    s = gw.Stepper(g, [y], {"x": [1.0, 2.0]}, max_bytes=max_bytes)
    s.run()
    s.edit("x", [1.0, 9.0])
    with pytest.raises(ValueError, match="too large"):
        s.rerun()
    assert s.current.name == "modest" and s.last_stop.reason == "error"
    with pytest.raises(GraphError, match="not been computed"):
        s.value("y")
    assert s.value("mul").tolist() == [2.0, 18.0]
    assert s.run().reason == "error" and s.current.name == "modest"
    s.edit("x", [1.0, 3.0])
    assert s.run().reason == "end" and float(s.value("y")) == 12.0
    s.edit("x", [1.0, 9.0])
    assert s.run().reason == "error" and s.current.name == "modest"
